"""Whether schedules fire, and their jobs succeed: what any process reads from their tables."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db import connection

from jobs import past_slots
from jobs.due_slots import Result, next_due
from jobs.models import ScheduledRun
from jobs.schedule import Schedule, declared

from .declared import Reading, counter, gauge

# Of any expression that the schedule has: a process of the build before must not cry for its own.
CURSORS = """
SELECT name, cron, tz, max(decided_until) OVER (PARTITION BY name) FROM jobs_schedule_cursor
WHERE name = ANY(%s)
"""
# Bounded on purpose: of a schedule whose jobs all fail every slot would be looked at.
LAST_SUCCEEDED = """
SELECT name, extract(epoch FROM last.processed_at)::float8
FROM unnest(%s::text[]) AS name CROSS JOIN LATERAL (
    SELECT processed_at FROM (
        SELECT outbox_id, due_at FROM jobs_scheduled_run AS slot
        WHERE slot.name = name.name AND outbox_id IS NOT NULL
        ORDER BY due_at DESC LIMIT 1000
    ) AS fired JOIN jobs_processed USING (outbox_id)
    ORDER BY fired.due_at DESC LIMIT 1
) AS last
"""
TOTALS = "SELECT name, result, count FROM jobs_schedule_total WHERE name = ANY(%s)"
PAUSED = """
SELECT name, extract(epoch FROM since)::float8 FROM jobs_schedule_pause
WHERE name = ANY(%s) AND until IS NULL
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
    return (((slot.name,), slot.due_at.timestamp()) for slot in _last_fired())


@gauge(
    "stagedoor_schedule_late_seconds",
    "How late the schedule fired the last time.",
    ("schedule",),
)
def seconds_late() -> Iterator[Reading]:
    """By schedule; none where it has not fired yet."""
    return (((slot.name,), slot.seconds_late) for slot in _last_fired())


def _last_fired() -> list[ScheduledRun]:
    return past_slots.last_fired([schedule.name for schedule in declared()])


@gauge(
    "stagedoor_schedule_succeeded_timestamp_seconds",
    "When the newest of the schedule's jobs that are done was done.",
    ("schedule",),
)
def last_succeeded() -> Iterator[Reading]:
    """By schedule; none where none of its last 1,000 jobs is done."""
    return (((name,), at) for name, at in _rows(LAST_SUCCEEDED))


@counter(
    "stagedoor_schedule_due_times_total",
    "Due times by what became of them; skipped: missed, and not made up for.",
    ("schedule", "result"),
)
def due_times() -> Iterator[Reading]:
    """By schedule and result, 0 where there was none: the first one must be seen to be added."""
    results = [str(result) for result in Result if result is not Result.BY_HAND]
    found = {(one.name, result): 0 for one in declared() for result in results}
    found.update({(name, result): count for name, result, count in _rows(TOTALS)})
    return iter(found.items())


@gauge(
    "stagedoor_schedule_paused",
    "Whether a person has the schedule paused: its due times do not fire.",
    ("schedule",),
)
def paused() -> Iterator[Reading]:
    """By schedule: 0 or 1."""
    names = {name for name, _ in _rows(PAUSED)}
    return (((one.name,), float(one.name in names)) for one in declared())


@gauge(
    "stagedoor_schedule_paused_since_timestamp_seconds",
    "Since when a person has the schedule paused.",
    ("schedule",),
)
def paused_since() -> Iterator[Reading]:
    """By schedule; none where it is not paused."""
    return (((name,), since) for name, since in _rows(PAUSED))


def _rows(statement: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, [[schedule.name for schedule in declared()]])
        return list(cursor.fetchall())
