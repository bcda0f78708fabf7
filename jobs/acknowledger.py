"""Tells the stream what is settled: many entries in one command, repeated until answered."""

import asyncio
import contextlib
import logging
from collections.abc import Iterable

from .backoff import Backoff
from .failpoint import failpoint
from .outage import told
from .stream import StreamRefused, WorkerStream

logger = logging.getLogger(__name__)
GATHER = 0.01
"""Seconds that an acknowledgement waits for others (`make bench`)."""


class Acknowledger:
    """Entries whose outcome is committed and which the stream does not know of yet."""

    def __init__(self, stream: WorkerStream, backoff: Backoff) -> None:
        self._stream = stream
        self._backoff = backoff
        self._settled: set[str] = set()
        self._more = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._answered = True

    @property
    def empty(self) -> bool:
        """Whether the stream knows all that is settled."""
        return not self._settled

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._settled

    def settle(self, entry_ids: Iterable[str]) -> None:
        """Acknowledge these soon. Only for entries whose outcome is committed."""
        self._settled.update(entry_ids)
        if self._settled:
            self._empty.clear()
            self._more.set()

    async def run(self) -> None:
        """Acknowledge until cancelled, once `flush()` is through. Raises StreamRefused."""
        while True:
            await self._more.wait()
            self._more.clear()
            # What ends within the next moments goes out with it: a command costs as much as a job.
            await asyncio.sleep(GATHER)
            while self._settled:
                await self._once(tuple(self._settled))
            self._empty.set()

    async def _once(self, batch: tuple[str, ...]) -> None:
        failpoint("acknowledger.before")
        try:
            await self._stream.acknowledge(batch)
        except StreamRefused:
            raise
        except Exception as error:
            # An XACK that timed out may or may not have happened; a second one changes nothing.
            if self._answered:
                logger.warning("not acknowledged yet: %s", told(error))
            self._answered = False
            await asyncio.sleep(self._backoff.pause())
        else:
            failpoint("acknowledger.after")
            self._answered = True
            self._backoff.reset()
            self._settled.difference_update(batch)

    async def flush(self, seconds: float) -> None:
        """Wait until all is acknowledged, at most `seconds`: the rest is found done later."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), seconds)
