"""Whether schedules fire: what any process reads from their tables."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db import connection

from jobs.due_slots import next_due
from jobs.schedule import Schedule, declared

from .declared import Reading, gauge

CURSORS = """
SELECT name, cron, tz, decided_until FROM jobs_schedule_cursor
WHERE name = ANY(%s)
"""
LAST_FIRED = """
SELECT name, extract(epoch FROM last.due_at)::float8, last.seconds_late
FROM unnest(%s::text[]) AS name CROSS JOIN LATERAL (
    SELECT due_at, seconds_late FROM jobs_scheduled_run AS slot
    WHERE slot.name = name.name AND outbox_id IS NOT NULL
    ORDER BY due_at DESC LIMIT 1
) AS last
"""


@gauge(
    "stagedoor_schedule_next_due_timestamp_seconds",
    "The next due time that is not decided yet: in the past where nobody fires the schedule.",
    ("schedule",),
)
def next_dues() -> Iterator[Reading]:
    """By schedule of this build; none before a scheduler has seen it."""
    schedules = {(one.name, one.cron, one.tz): one for one in declared()}
    for *key, decided_until in _rows(CURSORS):
        due = _next(schedules.get(tuple(key)), decided_until)
        if due is not None:
            yield (key[0],), due.timestamp()


def _next(schedule: Schedule | None, decided_until: datetime) -> datetime | None:
    return next_due(schedule, decided_until) if schedule else None


@gauge(
    "stagedoor_schedule_fired_timestamp_seconds",
    "The due time for which the schedule fired last.",
    ("schedule",),
)
def last_fired() -> Iterator[Reading]:
    """By schedule; none where it has not fired yet."""
    return (((name,), due) for name, due, _ in _rows(LAST_FIRED))


@gauge(
    "stagedoor_schedule_late_seconds",
    "How late the schedule fired the last time.",
    ("schedule",),
)
def seconds_late() -> Iterator[Reading]:
    """By schedule; none where it has not fired yet."""
    return (((name,), late) for name, _, late in _rows(LAST_FIRED))


def _rows(statement: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, [[schedule.name for schedule in declared()]])
        return list(cursor.fetchall())
