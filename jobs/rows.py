"""What a worker asks of outbox rows, and what it notes on them beside their conclusion."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from .models import KindHold, What

STARTS_LIMIT = 2
"""Starts without an outcome after which a job is not run again: the third is dead (design §6)."""


@dataclass(frozen=True, slots=True)
class RowState:
    """What a worker must know of a row before it runs an entry of it.

    `held`: its kind is; `probe`: its kind was held by the breaker, and this job tries it out.
    """

    dead: bool
    waiting: bool
    starts: int
    held: bool
    probe: bool
    scheduled_for: datetime | None
    attempts: int


def row_states(ids: Sequence[int]) -> dict[int, RowState]:
    """The state of each of these outbox rows that is still there: one statement for a batch."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT job.id, dead_at IS NOT NULL, available_at > statement_timestamp(), starts,
                coalesce(until > statement_timestamp(), false),
                coalesce(until <= statement_timestamp() AND by = %s, false), scheduled_for,
                attempts
            FROM jobs_outbox AS job LEFT JOIN jobs_kind_hold USING (kind) WHERE job.id = ANY(%s)
            """,
            [KindHold.BREAKER, list(ids)],
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


def note_start(outbox_id: int, number: int, worker: str) -> None:
    """T9: write down that a suspect is about to run, for the `number`th time without an outcome.

    The number and not one more: where the answer is lost, it is written again.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH started AS (
                UPDATE jobs_outbox SET starts = %(number)s
                WHERE id = %(id)s AND dead_at IS NULL AND starts < %(number)s RETURNING id
            )
            INSERT INTO jobs_event (outbox_id, what, by) SELECT id, %(what)s, %(by)s FROM started
            """,
            {"number": number, "id": outbox_id, "what": What.STARTED_AGAIN, "by": worker},
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
