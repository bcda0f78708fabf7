"""What is wrong with a schedule as it is declared; pure."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from . import due_times
from .due_times import BadCron, UnknownZone
from .registry import UnknownKind, kind_named
from .schedule import CATCH_UP_LIMIT, Schedule

NAME_LIMIT = 100
CRON_LIMIT = 200
"""Characters that their columns keep."""
WORDS_LIMIT = 120
"""Characters: one line, on a telephone two."""


def problems(schedules: Sequence[Schedule]) -> Iterator[tuple[str, str]]:
    """Each problem, as the name of the schedule and what is wrong with it in words."""
    for name, number in Counter(schedule.name for schedule in schedules).items():
        if number > 1:
            yield name, f"is declared {number} times: only one of them could fire"
    for schedule in schedules:
        for problem in _of(schedule):
            yield schedule.name, problem


def _of(schedule: Schedule) -> Iterator[str]:
    if not schedule.name.isprintable() or not 1 <= len(schedule.name) <= NAME_LIMIT:
        yield f"must have a name of 1 to {NAME_LIMIT} printable characters"
    if not schedule.words.isprintable() or not 1 <= len(schedule.words.strip()) <= WORDS_LIMIT:
        yield f"must say to staff what it does: words of 1 to {WORDS_LIMIT} printable characters"
    yield from _of_time(schedule)
    yield from _of_job(schedule)
    if not 0 <= schedule.catch_up.limit <= CATCH_UP_LIMIT:
        yield f"catches up {schedule.catch_up.limit} due times, not 0 to {CATCH_UP_LIMIT}"
    if not (math.isfinite(schedule.grace) and schedule.grace >= 0):
        yield f"has a grace of {schedule.grace:g} s, not 0 or more"


def _of_time(schedule: Schedule) -> Iterator[str]:
    try:
        due_times.check(schedule.cron)
        if len(schedule.cron) > CRON_LIMIT:
            yield f"has a cron expression of more than {CRON_LIMIT} characters"
    except BadCron as error:
        yield f"has the cron expression {schedule.cron!r}, which {error}"
    try:
        due_times.zone_of(schedule.tz)
    except UnknownZone:
        yield f"names the time zone {schedule.tz!r}, which is not known here"


def _of_job(schedule: Schedule) -> Iterator[str]:
    try:
        kind_named(schedule.kind).checked_args(schedule.args)
    except UnknownKind:
        yield f"names the kind {schedule.kind!r}, which has no handler"
    except TypeError as error:
        yield f"has other arguments than its kind: {error}"
