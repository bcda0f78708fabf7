"""The arithmetic of a night: what jobs cost, and what workers do in a second; night.py: its course.

Pure: no clock, no server. Every prediction of the product is made here, so that the order's page,
the admin, the alert and `manage.py capacity` cannot disagree.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one job, in seconds: how long it is in a slot, and how much of one core it takes.

    `service`: the outside one that it waits for, if any: a share of the slots may.
    """

    slot: float
    core: float = 0.0
    service: str = ""


def share_of(slots: int) -> int:
    """How many of a worker's slots one service may have: with two services some are left."""
    return max(1, slots * 3 // 8)


@dataclass(frozen=True, slots=True)
class Fleet:
    """All live workers together: jobs at once, and the cores that they compute on.

    `calls`: how many of the slots may wait for one service.
    """

    slots: int
    cores: float = math.inf
    calls: float = math.inf

    @classmethod
    def of(cls, workers: Iterable[int], cores: float = math.inf) -> "Fleet":
        """Workers with so many slots each; one that reads no more has none."""
        slots = [number for number in workers if number]
        return cls(sum(slots), cores, sum(map(share_of, slots)))

    def busy(self, cost: Cost, number: float = 1) -> float:
        """How long so many jobs keep all of it busy; infinite where nothing works."""
        return number * max(_over(cost.slot, self.slots), _over(cost.core, self.cores))

    def seconds(self, cost: Cost, number: float = 1) -> float:
        """How long so many jobs take where nothing else is due; infinite where nothing works."""
        calls = _over(cost.slot, self.calls) if cost.service else 0.0
        return max(self.busy(cost, number), number * calls)


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
    """What keeps pace with a load: `workers` exact, to be rounded up; `cores` likewise.

    `service`: the one whose calls need so many, where the other slots would be enough; else empty.
    """

    jobs: float
    workers: float
    cores: float
    service: str = ""

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
    places = {"": per_second * sum(step.number * step.cost.slot for step in chain) / slots}
    for service in {step.cost.service for step in chain} - {""}:
        calls = (step.number * step.cost.slot for step in chain if step.cost.service == service)
        places[service] = per_second * sum(calls) / share_of(slots)
    scarce = max(places, key=lambda service: places[service])
    return Need(
        jobs=per_second * sum(step.number for step in chain),
        workers=places[scarce],
        cores=per_second * sum(step.number * step.cost.core for step in chain),
        service=scarce,
    )


def _over(work: float, places: float) -> float:
    if not work:
        return 0.0
    return work / places if places else math.inf


def _whole(number: float) -> int:
    # 3.0000000004 of a sum is 3.
    return math.ceil(round(number, 6))
