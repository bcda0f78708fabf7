"""What becomes of each due time of a schedule: it fires, or a row says why not; pure."""

import enum
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from .due_times import DueTime, due_times, leave_out_old
from .schedule import CATCH_UP_LIMIT, Schedule

LOOK_BACK = 20_000
"""Due times that are looked at, two weeks of minutes: older ones are neither made up for, which
CATCH_UP_LIMIT would not allow either, nor counted. It takes 0.2 s, a year of minutes 5 s."""


class Result(enum.StrEnum):
    """What became of a due time; the first three fired."""

    ON_TIME = "on time"
    CAUGHT_UP = "caught up"
    BY_HAND = "by hand"
    SKIPPED = "skipped"
    PAUSED = "paused"
    SUPPRESSED = "suppressed"

    @property
    def fires(self) -> bool:
        """Whether it became a job."""
        return self in (Result.ON_TIME, Result.CAUGHT_UP, Result.BY_HAND)


@dataclass(frozen=True, slots=True)
class DueSlot:
    """One due time that fires; or `count` in a row, up to `last_due_at`, that do not.

    `seconds_late`: from the last of them to when it was decided.
    """

    due_at: datetime
    last_due_at: datetime
    count: int
    result: Result
    seconds_late: float


@dataclass(frozen=True, slots=True)
class Pause:
    """A time in which due times do not fire; without an end it goes on."""

    since: datetime
    until: datetime | None

    def holds(self, due_at: datetime) -> bool:
        """Whether it is such a due time."""
        return self.since <= due_at and (self.until is None or due_at < self.until)


def decide(
    schedule: Schedule, after: datetime, now: datetime, pauses: Sequence[Pause] = ()
) -> list[DueSlot]:
    """What becomes of the due times after `after`, up to `now`; in order. The newest LOOK_BACK.

    `after` may lie ahead of `now`, where a clock was set back: then there are none.
    """
    start = leave_out_old(schedule.cron, schedule.tz, after, now, LOOK_BACK)
    dues = list(_between(schedule, start, now))
    results = _results(schedule, dues, now, pauses)
    found = itertools.groupby(
        zip(results, dues, strict=True),
        key=lambda pair: (pair[0], pair[1].at if pair[0].fires else None),
    )
    return [_slot(result, [due.at for _, due in group], now) for (result, _), group in found]


def is_due(schedule: Schedule, after: datetime, now: datetime) -> bool:
    """Whether there is anything to decide."""
    return any(_between(schedule, after, now))


def next_due(schedule: Schedule, after: datetime) -> datetime | None:
    """The next due time after `after` that is to fire; None where there is none for 50 years."""
    dues = due_times(schedule.cron, schedule.tz, after)
    return next((due.at for due in dues if not due.suppressed), None)


def _between(schedule: Schedule, after: datetime, now: datetime) -> Iterator[DueTime]:
    dues = due_times(schedule.cron, schedule.tz, after)
    return itertools.takewhile(lambda due: due.at <= now, dues)


def _results(
    schedule: Schedule, dues: Sequence[DueTime], now: datetime, pauses: Sequence[Pause]
) -> list[Result]:
    results = [_result(schedule, due, now, pauses) for due in dues]
    on_time = [place for place, result in enumerate(results) if result is Result.ON_TIME]
    for place in on_time[:-CATCH_UP_LIMIT]:
        results[place] = Result.SKIPPED
    missed = [place for place, result in enumerate(results) if result is Result.SKIPPED]
    for place in missed[max(0, len(missed) - schedule.catch_up.limit) :]:
        results[place] = Result.CAUGHT_UP
    return results


def _result(schedule: Schedule, due: DueTime, now: datetime, pauses: Sequence[Pause]) -> Result:
    if due.suppressed:
        return Result.SUPPRESSED
    if any(pause.holds(due.at) for pause in pauses):
        return Result.PAUSED
    late = (now - due.at).total_seconds()
    return Result.ON_TIME if late <= schedule.grace else Result.SKIPPED


def _slot(result: Result, dues: Sequence[datetime], now: datetime) -> DueSlot:
    return DueSlot(dues[0], dues[-1], len(dues), result, (now - dues[-1]).total_seconds())
