"""When a cron expression is due in a time zone, also where its clock is changed; pure.

cronsim says which minutes of a clock without summer time the expression names. What becomes of
those that the zone's clock shows twice or never is decided here:

- Hours that are named (`30 2 * * *`, `0 9-17 * * *`) are times of day. Each fires once a date: one
  that the clock skips at the next minute there is, one that it shows twice the first time. The
  second time is suppressed.
- Any hour (`0 * * * *`, `*/5 * * * *`, `0 */2 * * *`) follows elapsed time: at each minute at
  which the clock shows one that is named. A repeated hour fires twice, a skipped one not at all.
"""

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

BEFORE = timedelta(hours=3)
"""How much earlier to start: the second showing of a minute that was named before `after`. No
zone repeats more than two hours."""
MINUTE = timedelta(minutes=1)


class BadCron(ValueError):
    """Not a cron expression of five fields that is ever due; raised by `check`."""


class UnknownZone(ValueError):
    """No time zone of that name; raised by `zone_of`."""


@dataclass(frozen=True, slots=True, order=True)
class DueTime:
    """One moment, in UTC, at which an expression is due; a suppressed one does not fire."""

    at: datetime
    suppressed: bool = False


def check(cron: str) -> None:
    """Raise BadCron unless `cron` has five fields and is due sooner or later."""
    if len(cron.split()) != 5:
        raise BadCron("does not have five fields: minute, hour, day, month, weekday")
    try:
        next(CronSim(cron, datetime(2000, 1, 1)))  # noqa: DTZ001 (a clock on the wall)
    except CronSimError as error:
        raise BadCron(f"is not a cron expression: {error}") from error
    except StopIteration:
        raise BadCron("is never due") from None


def in_words(cron: str) -> str:
    """`At 04:15 every day`; the expression itself where there are no words for it."""
    try:
        return CronSim(cron, datetime(2000, 1, 1)).explain()  # noqa: DTZ001 (a clock on the wall)
    except CronSimError:
        return cron


def zone_of(name: str) -> ZoneInfo:
    """The zone, e.g. `Europe/Berlin`. Raises UnknownZone."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise UnknownZone(name) from error


def due_times(cron: str, tz: str, after: datetime) -> Iterator[DueTime]:
    """The due times after `after`, in order and each once; for the rest of the next 50 years."""
    zone = zone_of(tz)
    start = (after.astimezone(zone) - BEFORE).replace(tzinfo=None)
    clock = CronSim(cron, start)
    expand = _any_hour if _names_any_hour(clock) else _time_of_day
    last = after
    for due in _in_order(expand(wall, zone) for wall in clock):
        if due.at > last:
            last = due.at
            yield due


def leave_out_old(cron: str, tz: str, after: datetime, until: datetime, number: int) -> datetime:
    """`after`, or a later moment where more than `number` due times lie between it and `until`: so
    many are left from there on, give or take those of a day on which the clock is changed."""
    zone = zone_of(tz)
    begin, end = (moment.astimezone(zone).replace(tzinfo=None) for moment in (after, until))
    # Backwards the library begins with what is before the moment that it is given.
    walls = CronSim(cron, end + timedelta.resolution, reverse=True)
    last = next(
        itertools.islice(itertools.takewhile(lambda wall: wall > begin, walls), number, None), None
    )
    return after if last is None else max(after, last.replace(tzinfo=zone).astimezone(UTC))


def _names_any_hour(clock: CronSim) -> bool:
    return clock.parts[2].startswith("*") or len(clock.hours) == 24


def _any_hour(wall: datetime, zone: ZoneInfo) -> list[DueTime]:
    first, second = _showings(wall, zone)
    if _is_shown(first, wall, zone):
        return [DueTime(at) for at in sorted({first, second})]
    return []


def _time_of_day(wall: datetime, zone: ZoneInfo) -> list[DueTime]:
    first, second = _showings(wall, zone)
    if first < second:
        return [DueTime(first), DueTime(second, suppressed=True)]
    while not _is_shown(first, wall, zone):
        wall += MINUTE
        first, _ = _showings(wall, zone)
    return [DueTime(first)]


def _showings(wall: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    # The same moment twice, but where the clock shows this time twice, or never (then in reverse).
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return first, second


def _is_shown(moment: datetime, wall: datetime, zone: ZoneInfo) -> bool:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0) == wall


def _in_order(found: Iterator[list[DueTime]]) -> Iterator[DueTime]:
    # The second showings of a repeated hour come after all first ones, which are in order.
    waiting: list[DueTime] = []
    for dues in found:
        while waiting and dues and waiting[0] < dues[0]:
            yield heapq.heappop(waiting)
        for due in dues:
            heapq.heappush(waiting, due)
    while waiting:
        yield heapq.heappop(waiting)
