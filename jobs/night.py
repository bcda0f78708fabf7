"""A night as it will be: the age and the depth of the queue, step by step. Pure.

Jobs are taken in the order in which they came due; a fraction of a job is as good as a whole one.
"""

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from .capacity import Chain, Fleet


@dataclass(frozen=True, slots=True)
class Load:
    """So many sales a second, for so many seconds; nothing after it."""

    per_second: float
    seconds: float

    def until(self, moment: float) -> float:
        """Sales from the beginning until then."""
        return self.per_second * min(moment, self.seconds)


@dataclass(frozen=True, slots=True)
class Point:
    """The queue at `at` seconds: `age` of the oldest job that is not done (s), jobs not done."""

    at: float
    age: float
    depth: float


def forecast(
    chain: Chain, load: Load, fleet: Fleet, *, step: float = 1.0, limit: float = 12 * 3600
) -> Iterator[Point]:
    """The queue after each `step` seconds, until it is empty or `limit` seconds are over."""
    night = _Night(chain, fleet)
    sold = 0.0
    for turn in range(1, int(limit / step) + 1):
        now = turn * step
        night.arrive(now - step, load.until(now) - sold)
        sold = load.until(now)
        night.work(now - step, step)
        yield night.seen(now)
        if now >= load.seconds and night.is_over():
            return


class _Batch(NamedTuple):
    due: float
    step: int
    number: float


@dataclass(slots=True)
class _Night:
    """What waits, a line for each service, and what runs until its time in a slot is over."""

    chain: Chain
    fleet: Fleet
    depth: float = 0.0
    waiting: dict[str, deque[_Batch]] = field(default_factory=lambda: defaultdict(deque))
    running: dict[int, deque[tuple[float, _Batch]]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    """By step: all of one take equally long, so that each line ends in its order."""

    def arrive(self, due: float, sales: float, step: int = 0) -> None:
        if step < len(self.chain) and sales > 0:
            number = sales * self.chain[step].number
            self.waiting[self.chain[step].cost.service].append(_Batch(due, step, number))
            self.depth += number

    def work(self, now: float, seconds: float) -> None:
        left = seconds
        # Slot seconds that each service has. Where they are used up the other jobs pass.
        room = dict.fromkeys(self.waiting, seconds * self.fleet.calls) | {"": math.inf}
        while left > 0 and (line := self._first(room)):
            batch = line.popleft()
            cost = self.chain[batch.step].cost
            number = min(batch.number, _part(left, self.fleet.busy(cost)))
            number = min(number, _part(room[cost.service], cost.slot))
            left = left - self.fleet.busy(cost, number) if number else 0.0
            room[cost.service] -= number * cost.slot
            ends = now + seconds - left + cost.slot
            self.running[batch.step].append((ends, batch._replace(number=number)))
            if batch.number - number > TINY:
                line.appendleft(batch._replace(number=batch.number - number))

    def _first(self, room: Mapping[str, float]) -> deque[_Batch] | None:
        lines = (line for service, line in self.waiting.items() if line and room[service] > TINY)
        return min(lines, key=lambda line: line[0].due, default=None)

    def _finish(self, now: float) -> None:
        for line in self.running.values():
            while line and line[0][0] <= now:
                ends, batch = line.popleft()
                self.depth -= batch.number
                self.arrive(ends, batch.number / self.chain[batch.step].number, batch.step + 1)

    def seen(self, now: float) -> Point:
        self._finish(now)
        if self.is_over():
            return Point(now, 0.0, 0.0)
        waiting = [line[0].due for line in self.waiting.values() if line]
        oldest = [line[0][1].due for line in self.running.values() if line] + waiting
        return Point(now, now - min(oldest), self.depth)

    def is_over(self) -> bool:
        return not any(self.waiting.values()) and not any(self.running.values())


TINY = 1e-9
"""Of a job: what the rounding of sums leaves of one is no job."""


def passes(points: Iterable[Point], age: float) -> float | None:
    """Seconds until the oldest job is as old as that; None: never."""
    return next((point.at for point in points if point.age >= age), None)


def _part(there: float, one: float) -> float:
    return there / one if one else math.inf
