"""The queue as numbers (design §8a): computed when somebody asks, the same from every process.

ages.py      since when the oldest job of each reason waits, by PostgreSQL's clock
counts.py    outbox rows by kind and state, processes, entries that nobody has settled
lost.py      rows whose entry is nowhere
declared.py  what apps add; schedules.py: who fires
look.py      one look at both servers: whatever did not answer is missing, never 0
thread.py    the thread, and the connection to PostgreSQL, that all looks of a process share
collector.py the same as series
"""

from .ages import Ages, ages
from .collector import QueueCollector
from .counts import Counts, read_counts
from .declared import Reading, gauge
from .look import Books, Look, Looker

__all__ = [
    "Ages",
    "Books",
    "Counts",
    "Look",
    "Looker",
    "QueueCollector",
    "Reading",
    "ages",
    "gauge",
    "read_counts",
]
