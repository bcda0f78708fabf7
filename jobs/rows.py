"""What a worker asks of outbox rows, and what it notes on them beside their conclusion."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import connection

from .job import Fields
from .models import OutboxRow

LETTERS_LOCK = 731_732
"""An advisory lock: one relay at a time looks at every letter."""
STARTS_LIMIT = 2
"""Starts without an outcome after which a job is not run again: the third is dead (design §6)."""


@dataclass(frozen=True, slots=True)
class RowState:
    """What a worker must know of a row before it runs an entry of it."""

    dead: bool
    waiting: bool
    starts: int


def row_states(ids: Sequence[int]) -> dict[int, RowState]:
    """The state of each of these outbox rows that is still there: one statement for a batch."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT id, dead_at IS NOT NULL, available_at > statement_timestamp(), starts
            FROM jobs_outbox WHERE id = ANY(%s)
            """,
            [list(ids)],
        )
        return {row: RowState(*state) for row, *state in cursor.fetchall()}


def processed_among(ids: Iterable[int]) -> set[int]:
    """Those of these whose jobs are done. Look in the outbox first: rows move one way."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT outbox_id FROM jobs_processed WHERE outbox_id = ANY(%s)", [list(ids)]
        )
        return {outbox_id for (outbox_id,) in cursor.fetchall()}


def row_of_entry(entry_id: str) -> int | None:
    """The live row whose present publication is this entry."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM jobs_outbox WHERE entry_id = %s AND dead_at IS NULL", [entry_id]
        )
        found = cursor.fetchone()
    return found[0] if found else None


def note_start(outbox_id: int, number: int) -> None:
    """T9: write down that a suspect is about to run, for the `number`th time without an outcome.

    The number and not one more: where the answer is lost, it is written again.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE jobs_outbox SET starts = greatest(starts, %s)
            WHERE id = %s AND dead_at IS NULL
            """,
            [number, outbox_id],
        )


def take_back_starts(outbox_ids: Sequence[int]) -> None:
    """T9: these runs ended without an outcome and without killing their worker."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_outbox SET starts = starts - 1 WHERE id = ANY(%s) AND starts > 0",
            [list(outbox_ids)],
        )


def make_due_again(entry_ids: Sequence[str]) -> int:
    """Publish the rows of these lost entries anew; returns how many there were."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE jobs_outbox SET relayed_at = NULL, entry_id = NULL
            WHERE entry_id = ANY(%s) AND dead_at IS NULL
            """,
            [list(entry_ids)],
        )
        return int(cursor.rowcount)


def count_dead() -> int:
    """Letters that there should be: dead rows that nobody discarded, and refused entries."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT (SELECT count(*) FROM jobs_outbox
                    WHERE dead_at IS NOT NULL AND discarded_at IS NULL)
                + (SELECT count(*) FROM jobs_refused_entry)
            """
        )
        return int(cursor.fetchone()[0])


def dead_ids(limit: int) -> dict[int, bool]:
    """The newest dead rows that nobody discarded; True: long enough for its letter to be there."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT id, dead_at < statement_timestamp() - make_interval(secs => %s)
            FROM jobs_outbox WHERE dead_at IS NOT NULL AND discarded_at IS NULL
            ORDER BY dead_at DESC LIMIT %s
            """,
            [settings.JOBS["RECONCILE_AFTER"], limit],
        )
        return dict(cursor.fetchall())


@contextlib.contextmanager
def alone() -> Iterator[bool]:
    """Whether no other process is at this now; it saves work, and protects nothing."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LETTERS_LOCK])
        [alone] = cursor.fetchone()
        try:
            yield alone
        finally:
            if alone:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [LETTERS_LOCK])


def letter_of(outbox_id: int) -> tuple[Fields, dict[str, str]] | None:
    """The letter of a dead row, out of the row: its fields, and what is to be said about them."""
    row = OutboxRow.objects.dead().filter(pk=outbox_id).first()
    if row is None:
        return None
    named = {"kind": row.kind, **(row.args if isinstance(row.args, dict) else {})}
    named |= {"outbox_id": row.pk, "request_id": row.request_id, "trace": row.trace}
    about = {
        "error": row.last_error or row.dead_reason,
        "traceback": row.traceback,
        "failed_at": row.dead_at.isoformat(timespec="milliseconds") if row.dead_at else "",
        "attempts": str(row.attempts),
        "deliveries": "0",
        "worker": row.dead_by,
        "entry_id": "",
        "row": str(row.pk),
    }
    return [(name.encode(), str(value).encode()) for name, value in named.items()], about
