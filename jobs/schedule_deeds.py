"""What a person does with a schedule: has its job run now (T4), pauses and resumes it (T10).

Each is in the caller's transaction, with the line of the staff log.
"""

from datetime import datetime

from django.db import connection

from . import events, filling
from .due_slots import DueSlot, Result
from .errors import storable
from .models import ScheduledRun, SchedulePause, What
from .schedule import Schedule


def run_now(schedule: Schedule, asked_at: datetime, by: str) -> tuple[ScheduledRun, bool]:
    """The due slot of a run by hand; whether it was made now or was there already.

    `asked_at`: when the page was made that asked for it; the same one again is the same run.
    Raises what `put` raises: nothing may be committed then.
    """
    at = _between_due_times(asked_at)
    made = filling.fill_slot(schedule, DueSlot(at, at, 1, Result.BY_HAND, 0.0), by)
    slot = ScheduledRun.objects.get(name=schedule.name, due_at=at)
    if made and slot.outbox_id is not None:
        events.note(slot.outbox_id, What.RUN_BY_HAND, by, f"schedule {schedule.name}")
    return slot, made


def _between_due_times(moment: datetime) -> datetime:
    # A due time has no microseconds. In its place this row would keep the schedule from firing.
    return moment if moment.microsecond else moment.replace(microsecond=1)


def pause(name: str, reason: str, by: str) -> tuple[SchedulePause, bool]:
    """The schedule's pause; whether it was paused now or was already."""
    # Or a due time of this moment could fire after the moment that the pause says.
    filling.lock(name)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO jobs_schedule_pause (name, since, reason, by)
            VALUES (%s, clock_timestamp(), %s, %s)
            ON CONFLICT (name) WHERE until IS NULL DO NOTHING
            """,
            [name, storable(reason), by],
        )
        made = bool(cursor.rowcount)
    return SchedulePause.objects.get(name=name, until=None), made


def resume(name: str, by: str) -> bool:
    """What is due from now on fires; what was due in the pause does not. False: was not paused."""
    filling.lock(name)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE jobs_schedule_pause SET until = clock_timestamp(), resumed_by = %s
            WHERE name = %s AND until IS NULL
            """,
            [by, name],
        )
        return bool(cursor.rowcount)
