"""Taking over what a dead worker left pending: every RECLAIM seconds, to the end of the list."""

import time

from django.conf import settings

from .stream import Entry, WorkerStream

START = "0-0"


class Reclaim:
    """Where this worker is in its search of the group's pending list.

    The cursor is followed to the end even if many healthy entries lie before the first stale one:
    a search that starts over each time never gets past them.
    """

    def __init__(self, stream: WorkerStream) -> None:
        self._stream = stream
        self._cursor = START
        self._due_at = time.monotonic()
        self.trimmed: list[str] = []
        """Pending entries that are gone from the stream: their rows must be made due again."""

    @property
    def due(self) -> bool:
        """Whether the next free slots belong to it."""
        return time.monotonic() >= self._due_at

    def due_in(self) -> float:
        """Seconds until it is due; 0 if it is."""
        return max(0.0, self._due_at - time.monotonic())

    def postpone(self) -> None:
        """After an outage: let the living renew their leases first."""
        self._due_at = max(self._due_at, time.monotonic() + settings.JOBS["LEASE_RENEWAL"])

    async def step(self, count: int) -> list[Entry]:
        """Up to `count` entries taken over. Raises StreamAway: the search goes on from here."""
        found = await self._stream.reclaim(self._cursor, count)
        self.trimmed += found.trimmed
        self._cursor = found.cursor
        if found.cursor == START:
            self._due_at = time.monotonic() + settings.JOBS["RECLAIM"]
        return found.entries
