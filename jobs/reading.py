"""What a worker reads, in order: its own pending entries, what dead ones left, then new ones."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass

from . import metrics
from .consumer_name import ConsumerName
from .errors import Discreet
from .failpoint import failpoint
from .reclaim import Reclaim
from .stream import Entry, StreamAway, StreamHung, StreamRefused, WorkerStream

logger = logging.getLogger(__name__)
HUNG_LIMIT = 3
"""Blocking reads in a row that may hang while the server answers PING (design §6)."""
WAKE_AGAIN = 0.1
"""Seconds between two tries to end a blocking read."""


class ReadsHang(Discreet):
    """HUNG_LIMIT blocking reads hung on a server that answers: a new process may fare better."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries of one read; `redelivered` ones were given to a worker before."""

    entries: list[Entry]
    redelivered: bool


class Reading:
    """`known` tells which entries this worker holds already, `busy` whether it must not block."""

    def __init__(
        self, stream: WorkerStream, name: ConsumerName,
        known: Callable[[str], bool], busy: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._stream = stream
        self._name = name
        self._known = known
        self._busy = busy
        self._reclaim = Reclaim(stream)
        self._pending_after: str | None = "0"
        self._blocked = False
        self._hung = 0
        self._wake = asyncio.Event()

    @property
    def trimmed(self) -> list[str]:
        """Pending entries that are gone from the stream; to be emptied by who took care of them."""
        return self._reclaim.trimmed

    async def some(self, count: int) -> Batch:
        """Up to `count` (at least 1) entries; blocks for new ones for BLOCK seconds at most.

        Raises StreamAway, NameLost, or ReadsHang.
        """
        try:
            await self._name.ensure()
            return await self._next(count)
        except StreamAway:
            self._reclaim.postpone()
            raise

    async def _next(self, count: int) -> Batch:
        if self._pending_after is not None:
            entries = await self._stream.read_pending(self._pending_after, count)
            self._pending_after = entries[-1].id if entries else None
        elif self._reclaim.due:
            # Before new entries: under backlog it would never find a free slot.
            entries = await self._reclaim.step(count)
            failpoint("worker.reclaimed")
        else:
            return Batch(await self._read_new(count), redelivered=False)
        entries = [entry for entry in entries if not self._known(entry.id)]
        metrics.ENTRIES_REDELIVERED.inc(len(entries))
        _tell(entries)
        return Batch(entries, redelivered=True)

    async def _read_new(self, count: int) -> list[Entry]:
        if self._busy():
            return []
        self._blocked = True
        try:
            entries = await self._stream.read_new(count, self._reclaim.due_in())
        except BaseException as error:
            # What a lost answer held was delivered: only the pending list knows of it now.
            self._pending_after = "0"
            if isinstance(error, StreamHung):
                await self._count_hung()
            raise
        finally:
            self._blocked = False
        self._hung = 0
        metrics.ENTRIES_DELIVERED.inc(len(entries))
        return entries

    async def _count_hung(self) -> None:
        with contextlib.suppress(StreamAway):
            await self._stream.ping()
            self._hung += 1
        if self._hung >= HUNG_LIMIT:
            raise ReadsHang(f"{HUNG_LIMIT} blocking reads hung, PING is answered")

    async def make_group(self) -> None:
        """The stream or its group was lost: make it, and look for what is pending anew."""
        await self._stream.ensure_group()
        self._pending_after = "0"

    def interrupt(self) -> None:
        """End a blocking read soon: there is something else to do."""
        self._wake.set()

    async def serve_interrupts(self) -> None:
        """Carry out `interrupt()`, for ever. A cancelled read would orphan what it was given."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            # Again and again: the first may overtake the read that it is to end.
            while self._blocked:
                with contextlib.suppress(StreamAway, StreamRefused):
                    await self._stream.wake_reader()
                await asyncio.sleep(WAKE_AGAIN)


def _tell(entries: list[Entry]) -> None:
    # A worker that was killed says nothing itself: who takes its jobs up does, by their entries.
    if entries:
        logger.info(
            "takes up what a worker left unfinished: %s",
            " ".join(entry.id for entry in entries),
            extra={"action": "take up"},
        )
