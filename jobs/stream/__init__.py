"""The only door to Redis for the way of a job: the stream, its group, its consumers, the letters.

`RelayStream` and `Letters` (blocking) append, `WorkerStream` (asyncio) reads and acknowledges,
`StreamView` (blocking) only looks. All raise `StreamAway` for an outage and `StreamRefused` for
what no waiting mends.
"""

from .ages import StreamAges, StreamMeter
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
from .looking import MayNotAsk, PendingEntry, StreamSeen, StreamView, printable
from .reading import Leases, Reclaimed, WorkerStream

__all__ = [
    "Entry",
    "Leases",
    "Letters",
    "MayNotAsk",
    "NameLost",
    "NoGroup",
    "PendingEntry",
    "Reclaimed",
    "RelayStream",
    "StreamAges",
    "StreamAway",
    "StreamHung",
    "StreamMeter",
    "StreamRefused",
    "StreamSeen",
    "StreamView",
    "WorkerStream",
    "printable",
    "raw_client",
]
