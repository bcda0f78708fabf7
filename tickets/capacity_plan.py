"""A night before it comes, for one screen: what it needs, and what happens with fewer. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobs.capacity import Chain, Fleet, Need, need
from jobs.night import Load, Point, forecast, passes

BYTES_PER_ENTRY = 150
"""Of Redis, each entry: 128 on Valkey 9.1, 139 on Redis 7.0 (MEMORY USAGE of a stream of 100,000
renders with their ids), rounded up."""
ROWS = 16
"""Of the table minute by minute: what fits a screen beside the rest."""
ALERTS = {"warning": 60.0, "page": 240.0}
"""Seconds of age at which they go off (deploy/prometheus)."""
AHEAD = 6 * 3600.0
"""Seconds that are looked ahead: a night that is not over by then needs no finer figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`orders` in `minutes`, each making `chain`, for workers of `slots` on `cores` in all.

    `workers`: those that somebody means to start, None: not told.
    """

    orders: int
    minutes: float
    chain: Chain
    slots: int
    cores: int
    workers: int | None = None

    @property
    def load(self) -> Load:
        """The orders as they come."""
        return Load(self.orders / self.minutes / 60, self.minutes * 60)

    @property
    def need(self) -> Need:
        """What keeps pace."""
        return need(self.chain, self.load.per_second, self.slots)

    @property
    def cores_are_the_limit(self) -> bool:
        """Whether more workers do not help: there is no core for them."""
        return self.need.cores > self.cores

    def outcomes(self) -> "list[Outcome]":
        """With fewer workers than needed, as many, and more; and as somebody means to."""
        least = max(1, self.need.whole_workers)
        numbers = sorted({max(1, least - 1), least, least + 1, self.workers or least})
        found = [self._outcome(number, self.cores) for number in numbers]
        if self.cores_are_the_limit:
            found.append(self._outcome(least, self.need.whole_cores))
        return found

    def _outcome(self, workers: int, cores: int) -> "Outcome":
        fleet = Fleet.of([self.slots] * workers, cores)
        step = max(1.0, self.load.seconds / 3600)
        points = tuple(forecast(self.chain, self.load, fleet, step=step, limit=AHEAD))
        return Outcome(workers=workers, cores=cores, points=points)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The night with so many workers, from beginning to end; `points` in their order."""

    workers: int
    cores: int
    points: Sequence[Point]

    @property
    def ends(self) -> float | None:
        """Seconds until all is done; None: not within the time that was looked ahead."""
        return self.points[-1].at if not self.points[-1].depth else None

    @property
    def peak(self) -> Point:
        """Where most jobs are not done."""
        return max(self.points, key=lambda point: point.depth)

    @property
    def oldest(self) -> float:
        """The highest age, in seconds."""
        return max(point.age for point in self.points)

    @property
    def alerts(self) -> dict[str, float]:
        """Which go off, and after how many seconds."""
        found = {word: passes(self.points, age) for word, age in ALERTS.items()}
        return {word: at for word, at in found.items() if at is not None}

    def minute(self, minute: int) -> Point | None:
        """The queue after so many minutes; None: nothing is left."""
        return next((point for point in self.points if point.at >= minute * 60), None)


def minutes_shown(outcomes: Sequence[Outcome]) -> Iterator[int]:
    """The minutes of the table: each of a short night, some of a long one."""
    last = max(math.ceil(outcome.points[-1].at / 60) for outcome in outcomes)
    every = max(1, math.ceil(last / ROWS))
    yield from range(every, last + every, every)
