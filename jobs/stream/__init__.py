"""The only door to Redis for the way of a job: the stream, its group, its consumers, the letters.

`RelayStream` and `Letters` (blocking) append, `WorkerStream` (asyncio) reads and acknowledges.
All raise `StreamAway` for an outage and `StreamRefused` for what no waiting mends.
"""

from .appending import Letters, RelayStream
from .connection import (
    Entry,
    NameLost,
    NoGroup,
    StreamAway,
    StreamHung,
    StreamRefused,
    raw_client,
)
from .reading import Leases, Reclaimed, WorkerStream

__all__ = [
    "Entry",
    "Leases",
    "Letters",
    "NameLost",
    "NoGroup",
    "Reclaimed",
    "RelayStream",
    "StreamAway",
    "StreamHung",
    "StreamRefused",
    "WorkerStream",
    "raw_client",
]
