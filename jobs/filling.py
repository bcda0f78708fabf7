"""T4: due slots and the jobs they become, written in one transaction.

The unique constraint of `(name, due_at)` lets a due time fire once, whoever else is at it and
whatever was lost: cursor, lock, memory, clock. The advisory lock only saves work: of schedulers
that wake together one does it. It ends with its transaction, so that nobody can believe in a lock
that is gone, and works behind a pooler.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from django.db import connection, transaction

from . import cursors
from .cursors import Cursor
from .due_slots import DueSlot, Result, decide
from .failpoint import failpoint
from .outbox import put
from .schedule import Schedule

LOCK = 731_734
"""With the hash of a schedule's name."""


def clock() -> datetime:
    """PostgreSQL's time: the one clock of all schedulers, whatever their hosts say."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment


def fill_slots(schedule: Schedule, known: Cursor, now: datetime, by: str) -> list[DueSlot] | None:
    """T4: decide what is due up to `now` and write it down: slot rows, jobs, the cursor.

    Returns what this call wrote; None where another is at it, or was since `known` was read.
    Raises what `put` raises, or a database error: then nothing is written.
    """
    # Outside of the transaction: after weeks without a scheduler it takes a while.
    slots = decide(schedule, known.decided_until, now, known.pauses)
    with transaction.atomic(durable=True):
        if not _try_lock(schedule.name):
            return None
        # Read after the lock: what another committed meanwhile must be seen.
        if cursors.read([schedule], now).get(schedule.name) != known:
            return None
        failpoint("scheduler.locked")
        written = [slot for slot in slots if fill_slot(schedule, slot, by)]
        _count(schedule.name, written)
        cursors.move([schedule], {schedule.name: known}, now)
        failpoint("scheduler.moved")
    failpoint("scheduler.committed")
    return written


def fill_slot(schedule: Schedule, slot: DueSlot, by: str) -> bool:
    """One slot row and the job it becomes, in the caller's transaction; False: it was there."""
    if not slot.result.fires and _extend(schedule.name, slot):
        return True
    row = _insert(schedule.name, slot, by)
    if row is None:
        return False
    failpoint("scheduler.slot_written")
    if slot.result.fires:
        job = put(schedule.kind, schedule.args, scheduled_for=slot.due_at)
        with connection.cursor() as cursor:
            cursor.execute("UPDATE jobs_scheduled_run SET outbox_id = %s WHERE id = %s", [job, row])
        failpoint("scheduler.job_written")
    return True


def lock(name: str) -> None:
    """Wait until nobody is at the schedule, and keep others off until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [LOCK, name])


def _try_lock(name: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s, hashtext(%s))", [LOCK, name])
        return bool(cursor.fetchone()[0])


def _insert(name: str, slot: DueSlot, by: str) -> int | None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO jobs_scheduled_run
                (name, due_at, last_due_at, count, result, seconds_late, by)
            VALUES (%s, %s, %s, %s, %s, %s, %s)
            ON CONFLICT (name, due_at) DO NOTHING RETURNING id
            """,
            [name, slot.due_at, slot.last_due_at, slot.count, slot.result, slot.seconds_late, by],
        )
        found = cursor.fetchone()
    return found[0] if found else None


def _extend(name: str, slot: DueSlot) -> bool:
    """Whether the schedule's newest row says the same and now stands for these too.

    A run by hand lies between due times and parts none of them from the others.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE jobs_scheduled_run SET count = count + %s, last_due_at = %s, seconds_late = %s,
                decided_at = statement_timestamp()
            WHERE id = (SELECT id FROM jobs_scheduled_run WHERE name = %s
                        AND result <> %s ORDER BY due_at DESC LIMIT 1)
                AND result = %s AND last_due_at < %s
            """,
            [
                slot.count, slot.last_due_at, slot.seconds_late,
                name, Result.BY_HAND, slot.result, slot.due_at,
            ],
        )  # fmt: skip
        return bool(cursor.rowcount)


def _count(name: str, written: Sequence[DueSlot]) -> None:
    """Add them to the schedule's totals, in the caller's transaction."""
    counted: Counter[str] = Counter()
    for slot in written:
        counted[slot.result] += slot.count
    # In one order: without the lock two schedulers may be at it, and must not wait in a circle.
    for result, number in sorted(counted.items()):
        with connection.cursor() as cursor:
            cursor.execute(
                """
                INSERT INTO jobs_schedule_total AS old (name, result, count) VALUES (%s, %s, %s)
                ON CONFLICT (name, result) DO UPDATE SET count = old.count + excluded.count
                """,
                [name, result, number],
            )
