"""What comes in: entries are read, sorted by their rows, and given to slots or concluded."""

import logging
from collections.abc import Iterable

from . import conclusion, metrics, rows
from .acknowledger import Acknowledger
from .failpoint import failpoint
from .held import Held
from .reading import Batch, Reading
from .slot import Slot
from .sorting import Sorter
from .stream import Leases
from .threads import Threads

logger = logging.getLogger(__name__)
NOTHING = Batch([], redelivered=False)


class Intake:
    """Holds what was read and is not sorted yet. Used by the loop alone."""

    def __init__(
        self, reading: Reading, sorter: Sorter, threads: Threads,
        held: Held, acknowledger: Acknowledger,
    ) -> None:  # fmt: skip
        self._reading = reading
        self._sorter = sorter
        self._threads = threads
        self._held = held
        self._acknowledger = acknowledger
        self._unsorted = NOTHING

    @property
    def unsorted(self) -> list[str]:
        """Ids of what was read and is not sorted yet."""
        return [entry.id for entry in self._unsorted.entries]

    @property
    def has_debts(self) -> bool:
        """Whether rows of lost entries, or starts that killed nobody, wait to be put right."""
        return bool(self._reading.trimmed or self._held.uncounted)

    async def read(self, count: int) -> bool:
        """Read up to `count` entries; returns whether it was new ones that were asked for."""
        batch = await self._reading.some(count)
        self._unsorted = batch
        if batch.entries:
            failpoint("worker.read")
        return not batch.redelivered

    async def admit(self) -> None:
        """Sort what was read. Raises a database error; the entries are kept then."""
        batch = self._unsorted
        found = await self._threads.look_up(self._sorter.sort, batch.entries, batch.redelivered)
        failpoint("worker.sorted")
        self._unsorted = NOTHING
        self._acknowledger.settle(found.concluded)
        for slot in found.runnable:
            self._held.admit(slot)

    async def make_room(self) -> None:
        """What waits for a service that is slow waits in the outbox. Raises a database error; the
        slots are kept then."""
        crowded = self._held.crowded()
        await self._threads.look_up(_put_back, crowded)
        self._acknowledger.settle(self._held.let_go(crowded))

    def lose(self, leases: Leases) -> None:
        """Others took these over, or they are gone from the stream: they are given up."""
        self._reading.trimmed.extend(leases.trimmed)
        if number := self._held.give_up([*leases.lost, *leases.trimmed]):
            metrics.LEASES_LOST.inc(number)
            logger.warning("%d jobs in work were taken over by others", number)

    async def pay_debts(self) -> None:
        """Rows of lost entries are due again, wrong starts taken back. Raises a database error."""
        await self._threads.look_up(self._put_right)

    def _put_right(self) -> None:
        trimmed, uncounted = list(self._reading.trimmed), list(self._held.uncounted)
        if trimmed:
            rows.make_due_again(trimmed)
            del self._reading.trimmed[: len(trimmed)]
        if uncounted:
            rows.take_back_starts(uncounted)
            del self._held.uncounted[: len(uncounted)]


def _put_back(slots: Iterable[Slot]) -> None:
    for slot in slots:
        conclusion.put_back(slot.outbox_id, slot.entry.id)
