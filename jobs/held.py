"""What a worker holds: its slots, the suspects that wait for each other, what an outage cut."""

import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from types import FrameType

from . import metrics
from .runner import Outcome
from .shares import Shares
from .slot import Slot


class Held:
    """The slots of one worker by entry id. Used by the loop alone.

    `launch` gives a slot to a thread. Suspects are launched one at a time, those with the fewest
    starts first: else a killer's neighbours would be counted, and die, with it. Those that call the
    same outside service have a share of `slots`.
    """

    def __init__(self, launch: Callable[[Slot], None], slots: int) -> None:
        self._launch = launch
        self._shares = Shares(slots)
        self._slots: dict[str, Slot] = {}
        self._launched: set[Slot] = set()
        self._waiting: list[Slot] = []
        self._suspect: Slot | None = None
        self.interrupted: list[Slot] = []
        """Runs that have just ended without an outcome; `run_again` is for them."""
        self.uncounted: list[int] = []
        """Outbox ids whose noted start is to be taken back: no worker died of them."""
        self.closed = False
        """Whether nothing is started any more."""

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in self._slots

    def __len__(self) -> int:
        return len(self._slots)

    def admit(self, slot: Slot) -> None:
        """Hold the slot, and run it as soon as it may."""
        self._slots[slot.entry.id] = slot
        if slot.suspect:
            self._queue(slot)
        elif not self._shares.has_room(slot, self._launched):
            self._shares.wait(slot)
        elif not self.closed:
            self._start(slot)

    def settle(self, slot: Slot, outcome: Outcome) -> bool:
        """The slot's thread has ended; returns whether its entry is to be acknowledged."""
        self._launched.discard(slot)
        metrics.SLOTS_BUSY.set(len(self._launched))
        if slot is self._suspect and (slot.given_up or outcome is not Outcome.UNDECIDED):
            self._suspect = None
        if slot.given_up or outcome.acknowledges:
            # An older delivery concludes nothing: its start is no outcome's to set to 0.
            ended = outcome.acknowledges and outcome is not Outcome.CONCLUDED
            self._drop(slot, ended)
        elif outcome is Outcome.CRASHED:
            self._queue(slot)
        else:
            self.interrupted.append(slot)
        self._next_suspect()
        self._next_with_room()
        return outcome.acknowledges and not slot.given_up

    def take_interrupted(self) -> list[Slot]:
        """Those that have just ended without an outcome; the caller decides when they go on."""
        cut, self.interrupted = self.interrupted, []
        return cut

    def run_again(self, slot: Slot) -> None:
        """Run what was interrupted, without a new start, unless it was given up meanwhile."""
        if self._slots.get(slot.entry.id) is slot and not self.closed:
            self._start(slot)

    def crowded(self) -> list[Slot]:
        """Those that wait for a service which takes long to answer: they are to be put back."""
        return self._shares.behind_slow_ones(self._launched)

    @property
    def waits_for_room(self) -> bool:
        """Whether there are any that `crowded` may name later on."""
        return len(self._shares) > 0

    def let_go(self, slots: Iterable[Slot]) -> list[str]:
        """Their rows are in the outbox again; returns the entries of those that still waited.

        One that was launched meanwhile is run: `effects()` does not ask which entry it came by.
        """
        found = self._shares.forget(slots)
        for slot in found:
            self._drop(slot, ended=True)
        return [slot.entry.id for slot in found]

    def give_up(self, entry_ids: Iterable[str]) -> int:
        """These entries are another worker's by now; returns how many of them were held.

        A handler that runs may finish: `effects()` decides who wins.
        """
        lost = [slot for entry_id in entry_ids if (slot := self._slots.get(entry_id))]
        for slot in lost:
            slot.given_up = True
            if slot not in self._launched:
                self._forget(slot)
        self._next_suspect()
        return len(lost)

    def _forget(self, slot: Slot) -> None:
        self._drop(slot, ended=False)
        self._waiting = [other for other in self._waiting if other is not slot]
        self.interrupted = [other for other in self.interrupted if other is not slot]
        self._shares.forget([slot])
        if slot is self._suspect:
            self._suspect = None

    def _drop(self, slot: Slot, ended: bool) -> None:
        self._slots.pop(slot.entry.id, None)
        if slot.start_noted and not ended:
            self.uncounted.append(slot.outbox_id)

    def _queue(self, slot: Slot) -> None:
        self._waiting.append(slot)
        self._waiting.sort(key=lambda waiting: waiting.starts)
        self._next_suspect()

    def _next_suspect(self) -> None:
        if self._waiting and self._suspect is None and not self.closed:
            self._suspect = self._waiting.pop(0)
            self._start(self._suspect)

    def _next_with_room(self) -> None:
        if not self.closed:
            for slot in self._shares.next_with_room(self._launched):
                self._start(slot)

    def _start(self, slot: Slot) -> None:
        self._launched.add(slot)
        metrics.SLOTS_BUSY.set(len(self._launched))
        self._launch(slot)

    # For who watches

    def renewable(self) -> list[str]:
        """Entries whose lease goes on: held, their kind's timeout not over."""
        return [
            entry_id
            for entry_id, slot in self._slots.items()
            if not slot.given_up and not slot.overdue
        ]

    def forgive(self, seconds: float) -> None:
        """The process stood still for so long: no slot is overdue for it."""
        for slot in self._launched:
            slot.forgive(seconds)

    def at_work(self) -> int:
        """Slots that a thread has, the stuck ones not counted: they end with the process."""
        return sum(not slot.stuck for slot in self._launched)

    def unfinished(self) -> int:
        """Slots that a thread has."""
        return len(self._launched)

    def oldest(self) -> float:
        """For how many seconds the oldest slot has been held; 0.0 where none is."""
        now = time.monotonic()
        return max((now - slot.held_since for slot in self._slots.values()), default=0.0)

    def stuck(self) -> list[Slot]:
        """Slots that run for more than twice their timeout."""
        return [slot for slot in self._launched if slot.stuck]

    def left(self) -> list[Slot]:
        """What is to be handed back at the end."""
        return [slot for slot in self._slots.values() if not slot.given_up]

    def report(self) -> str:
        """Every slot: kind, outbox id, age, and the stack of its thread."""
        frames = sys._current_frames()
        return "\n".join(_line(slot, frames) for slot in self._slots.values()) or "no slot is busy"


def _line(slot: Slot, frames: Mapping[int, FrameType]) -> str:
    age = time.monotonic() - slot.held_since
    head = f"{slot.kind.name}, outbox row {slot.outbox_id}, held for {age:.1f} s"
    frame = frames.get(slot.thread) if slot.thread else None
    if frame is None:
        return f"{head}, waits"
    stack = "".join(traceback.format_stack(frame))
    return f"{head}, runs for {slot.seconds():.1f} s\n{stack}"
