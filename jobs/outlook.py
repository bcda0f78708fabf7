"""When what waits now will be done, from one look at the queue. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from .capacity import Cost, Fleet

UNKNOWN = Cost(1.0)
"""Of a kind of which no job was done yet."""


@dataclass(frozen=True, slots=True)
class Queued:
    """Jobs of one kind that came due at about the same time; `due`: of the first."""

    due: datetime
    kind: str
    number: int
    bulk: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is due at `at`, what a job of each kind costs, and who works.

    `then`: the kind that each job of a kind enqueues. `held`: the kinds of which jobs wait behind
    a hold, and its end; they are not in `queued`.
    """

    at: datetime
    queued: Sequence[Queued]
    costs: Mapping[str, Cost]
    fleet: Fleet
    then: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """Jobs that are due and not held."""
        return sum(one.number for one in self.queued)

    def drain_seconds(self) -> float:
        """Until all that is due is done, and what it enqueues; infinite where nobody works."""
        return sum(
            self.fleet.seconds(self._cost(kind), one.number)
            for one in self.queued
            for kind in self._chain(one.kind)
        )

    def drained_at(self) -> datetime | None:
        """When all of it is done, and no hold keeps any of it; None: never, as things are."""
        return self._latest(_later(self.at, self.drain_seconds()))

    def seconds_until_done(self, kind: str, due: datetime) -> float:
        """Until a job of `kind` that came due then is done; infinite where nobody works,
        or the kind is held.

        What is behind tickets (`bulk`) keeps no ticket waiting.
        """
        if not self.fleet.slots or kind in self.held:
            return math.inf
        own = self._cost(kind)
        before = [
            (self._cost(one.kind), one.number)
            for one in self.queued
            if not one.bulk and one.due < due
        ]
        # It passes those that wait for another service.
        busy = sum(self.fleet.busy(cost, number) for cost, number in before)
        alike = (self.fleet.seconds(*one) for one in before if one[0].service == own.service)
        return max(busy, sum(alike)) + own.slot

    def _latest(self, drained: datetime | None) -> datetime | None:
        return max(drained, *self.held.values()) if drained and self.held else drained

    def _cost(self, kind: str) -> Cost:
        return self.costs.get(kind, UNKNOWN)

    def _chain(self, kind: str) -> Iterator[str]:
        seen: set[str] = set()
        while kind and kind not in seen:
            seen.add(kind)
            yield kind
            kind = self.then.get(kind, "")


def _later(moment: datetime, seconds: float) -> datetime | None:
    return moment + timedelta(seconds=seconds) if seconds < TOO_LONG else None


TOO_LONG = 365 * 86_400.0
"""Seconds: beyond it a time is no prediction, and soon no date either."""
