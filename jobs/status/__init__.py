"""The queue as it is now (design §8a): each part that answered, and in words what is wrong.

A server that does not answer is a reason of its own, and its part is missing: nothing that was
not seen is shown as zero or as nothing.
"""

from .books import Books, HoldSeen, KindRows, ProcessSeen, holds_seen, read_books
from .holds import clock, hold_line, one_line
from .in_flight import InFlight, in_flight
from .queue import Status, StreamPart, look, stream_part
from .screen import pending_screen, span, status_screen, table

__all__ = [
    "Books",
    "HoldSeen",
    "InFlight",
    "KindRows",
    "ProcessSeen",
    "Status",
    "StreamPart",
    "clock",
    "hold_line",
    "holds_seen",
    "in_flight",
    "look",
    "one_line",
    "pending_screen",
    "read_books",
    "span",
    "status_screen",
    "stream_part",
    "table",
]
