"""The queue as it is now (design §8a): each part that answered, and in words what is wrong.

A server that does not answer is a reason of its own, and its part is missing: nothing that was
not seen is shown as zero or as nothing.
"""

from .books import Books, KindRows, ProcessSeen
from .in_flight import InFlight, in_flight
from .queue import Status, StreamPart, look
from .screen import pending_screen, status_screen

__all__ = [
    "Books",
    "InFlight",
    "KindRows",
    "ProcessSeen",
    "Status",
    "StreamPart",
    "in_flight",
    "look",
    "pending_screen",
    "status_screen",
]
