"""The due slots there were, read for people and gauges."""

from collections.abc import Sequence
from datetime import datetime

from .due_slots import Result
from .models import ScheduledRun

LAST = """
SELECT last.* FROM unnest(%s::text[]) AS given (name) CROSS JOIN LATERAL (
    SELECT * FROM jobs_scheduled_run AS slot
    WHERE slot.name = given.name AND outbox_id IS NOT NULL AND result <> %s
    ORDER BY due_at DESC LIMIT 1
) AS last
"""


def last_fired(names: Sequence[str]) -> list[ScheduledRun]:
    """For each of these schedules the last due time that fired, if there is one.

    No run by hand: whether a schedule fires by itself is asked.
    """
    return list(ScheduledRun.objects.raw(LAST, [list(names), Result.BY_HAND]))


def last_run(names: Sequence[str]) -> list[ScheduledRun]:
    """For each the last one that became a job, a run by hand as well."""
    return list(ScheduledRun.objects.raw(LAST, [list(names), ""]))


def history(name: str, before: datetime | None, limit: int) -> list[ScheduledRun]:
    """The slots of one schedule, the newest first; only those due before `before`, if given."""
    slots = ScheduledRun.objects.filter(name=name).order_by("-due_at")
    return list((slots.filter(due_at__lt=before) if before else slots)[:limit])
