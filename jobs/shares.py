"""A worker's slots that may wait for one outside service: a share of them, never all.

A provider that hangs holds each call for as long as its timeout. Without a share it would hold
every slot before the breaker has counted enough failures, and tickets would not be made meanwhile.
"""

from collections import Counter
from collections.abc import Iterable

from .capacity import share_of
from .slot import Slot

SLOW = 1.0
"""Seconds: where an answer takes longer, who waits for the same service gives its slot away."""


class Shares:
    """Which slots wait until their service has room. Used by the loop alone."""

    def __init__(self, slots: int) -> None:
        self._share = share_of(slots)
        self._waiting: list[Slot] = []

    def has_room(self, slot: Slot, launched: Iterable[Slot]) -> bool:
        """Whether the slot may be launched beside those."""
        service = slot.kind.outside
        return not service or _calls(launched)[service] < self._share

    def wait(self, slot: Slot) -> None:
        """It is held, and launched once there is room."""
        self._waiting.append(slot)

    def next_with_room(self, launched: Iterable[Slot]) -> list[Slot]:
        """Those that have waited longest and may be launched now; they wait no more."""
        calls, found = _calls(launched), []
        for slot in self._waiting:
            if calls[slot.kind.outside] < self._share:
                calls[slot.kind.outside] += 1
                found.append(slot)
        self.forget(found)
        return found

    def behind_slow_ones(self, launched: Iterable[Slot]) -> list[Slot]:
        """Those whose service takes long to answer: other jobs shall have their slots."""
        slow = {slot.kind.outside for slot in launched if slot.seconds() > SLOW}
        return [slot for slot in self._waiting if slot.kind.outside in slow]

    def forget(self, slots: Iterable[Slot]) -> list[Slot]:
        """These wait no more; returns those that did."""
        gone = set(slots)
        found = [slot for slot in self._waiting if slot in gone]
        self._waiting = [slot for slot in self._waiting if slot not in gone]
        return found

    def __len__(self) -> int:
        return len(self._waiting)


def _calls(launched: Iterable[Slot]) -> Counter[str]:
    return Counter(slot.kind.outside for slot in launched)
