"""The arithmetic of a night: what jobs cost, what workers do in a second, when a line is empty.

Pure: no clock, no server. Every prediction of the product is made here, so that the order's page,
the admin, the alert and `manage.py capacity` cannot disagree. Jobs are taken in the order in which
they came due; a fraction of a job is as good as a whole one.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one job, in seconds: how long it is in a slot, and how much of one core it takes."""

    slot: float
    core: float = 0.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """All live workers together: jobs at once, and the cores that they compute on."""

    slots: int
    cores: float = math.inf

    def seconds(self, cost: Cost, number: float = 1) -> float:
        """How long so many jobs keep all of it busy; infinite where nothing works."""
        return number * max(_over(cost.slot, self.slots), _over(cost.core, self.cores))


@dataclass(frozen=True, slots=True)
class Step:
    """One of the jobs behind a sale: `number` of them for each sale, `cost` each."""

    kind: str
    cost: Cost
    number: float = 1.0


type Chain = Sequence[Step]
"""What a sale makes: each step is enqueued by the effects of the one before it."""


@dataclass(frozen=True, slots=True)
class Need:
    """What keeps pace with a load: `workers` exact, to be rounded up; `cores` likewise."""

    jobs: float
    workers: float
    cores: float

    @property
    def whole_workers(self) -> int:
        """2.5 are 3."""
        return _whole(self.workers)

    @property
    def whole_cores(self) -> int:
        """The cores that must be there, whatever the workers."""
        return _whole(self.cores)


def need(chain: Chain, per_second: float, slots: int) -> Need:
    """What so many sales a second need, with workers of so many slots.

    The second on-sale night: renders of 4 s, 5 orders/s and 8 slots are 4 × 5 ÷ 8 = 2.5 workers.
    """
    return Need(
        jobs=per_second * sum(step.number for step in chain),
        workers=per_second * sum(step.number * step.cost.slot for step in chain) / slots,
        cores=per_second * sum(step.number * step.cost.core for step in chain),
    )


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


@dataclass(frozen=True, slots=True)
class _Batch:
    due: float
    step: int
    number: float


@dataclass(slots=True)
class _Night:
    """The line of what waits, and what runs until its time in a slot is over."""

    chain: Chain
    fleet: Fleet
    depth: float = 0.0
    waiting: deque[_Batch] = field(default_factory=deque)
    running: deque[tuple[float, _Batch]] = field(default_factory=deque)

    def arrive(self, due: float, sales: float, step: int = 0) -> None:
        if step < len(self.chain) and sales > 0:
            number = sales * self.chain[step].number
            self.waiting.append(_Batch(due, step, number))
            self.depth += number

    def work(self, now: float, seconds: float) -> None:
        self._finish(now)
        left = seconds
        while self.waiting and left > 0:
            batch = self.waiting.popleft()
            cost = self.chain[batch.step].cost
            number = self._possible(batch, cost, left)
            left = left - self.fleet.seconds(cost, number) if number else 0.0
            self.running.append((now + seconds - left + cost.slot, replace(batch, number=number)))
            if batch.number - number > TINY:
                self.waiting.appendleft(replace(batch, number=batch.number - number))

    def _possible(self, batch: _Batch, cost: Cost, seconds: float) -> float:
        one = self.fleet.seconds(cost)
        return min(batch.number, seconds / one) if one else batch.number

    def _finish(self, now: float) -> None:
        for _ in range(len(self.running)):
            ends, batch = self.running.popleft()
            if ends > now:
                self.running.append((ends, batch))
                continue
            self.depth -= batch.number
            self.arrive(ends, batch.number / self.chain[batch.step].number, batch.step + 1)

    def seen(self, now: float) -> Point:
        self._finish(now)
        if self.is_over():
            return Point(now, 0.0, 0.0)
        oldest = [batch.due for _, batch in self.running] + [one.due for one in self.waiting][:1]
        return Point(now, now - min(oldest), self.depth)

    def is_over(self) -> bool:
        return not self.waiting and not self.running


TINY = 1e-9
"""Of a job: what the rounding of sums leaves of one is no job."""


def passes(points: Iterable[Point], age: float) -> float | None:
    """Seconds until the oldest job is as old as that; None: never."""
    return next((point.at for point in points if point.age >= age), None)


def _over(work: float, places: float) -> float:
    if not work:
        return 0.0
    return work / places if places else math.inf


def _whole(number: float) -> int:
    # 3.0000000004 of a sum is 3.
    return math.ceil(round(number, 6))
