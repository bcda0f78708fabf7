"""How a publication is concluded: processed, tried again, put back, dead, or refused.

T6 everywhere: the row is locked by its id alone, then compared with the entry, then changed. The
lock waits for a relay step that added the entry and has not committed; a fenced UPDATE alone would
look at the committed null, match nothing and lose the attempt.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg
from django.conf import settings
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from . import events, rows
from .errors import Discreet, storable
from .job import Fields, Job, MalformedJob, parse_kind
from .models import What
from .policy import Bury, Retry, Verdict, Wait


class Decide(Protocol):
    """What follows a failed run, after `attempts` others, `age` seconds after the job was due."""

    def __call__(self, *, attempts: int, age: float) -> Verdict: ...


PUT_BACK = 5.0
"""Seconds at most before a row of a held kind is due again: an older relay knows no holds, and
would publish it at once, and again."""
RAW_LIMIT = 4096
"""Bytes kept of each name and value of a refused entry, and twice as many parts at most."""


MOVE = """
WITH moved AS (
    DELETE FROM jobs_outbox WHERE id = %s AND kind = %s AND args = %s::jsonb AND request_id = %s
    RETURNING id, kind, args, subject, request_id, trace, created_at, due_at, attempts,
        scheduled_for
)
INSERT INTO jobs_processed (outbox_id, kind, args, subject, request_id, trace,
    created_at, due_at, attempts, scheduled_for, processed_at, worker, duration_ms, result)
SELECT moved.*, clock_timestamp(), %s, %s, 'done' FROM moved
"""


class UnknownJob(Discreet):
    """No such job in the outbox or among the processed rows; raised by `move_to_processed`."""


class AlreadyProcessed(Exception):
    """Another delivery of the job committed its effects; raised by `move_to_processed`."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job did not succeed, as text that can be stored; `by` is the worker."""

    error: str
    traceback: str
    by: str


@dataclass(frozen=True, slots=True)
class Dead:
    """The row was marked dead, after so many failed runs; no row stands behind a refused entry."""

    reason: str
    attempts: int
    outbox_id: int | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    id: int
    attempts: int
    age: float
    waited: float


def move_to_processed(job: Job[Any], worker: str, ms: int) -> None:
    """Move the job's outbox row to the processed table, in the caller's transaction.

    Only a row whose kind, args and request id are the entry's own moves: identities are given out
    twice after a database is restored. Raises AlreadyProcessed, or UnknownJob.
    """
    values = [job.outbox_id, job.kind, json.dumps(job.args_by_name()), job.request_id, worker, ms]
    if _execute_bare(MOVE, values) == 1:
        return
    if job.outbox_id in rows.processed_among([job.outbox_id]):
        raise AlreadyProcessed(job.outbox_id)
    raise UnknownJob(f"no outbox row {job.outbox_id} of kind {job.kind} with these arguments")


def _execute_bare(statement: str, values: Sequence[Any]) -> int:
    # What every job does goes past the layers of Django's cursor: they cost more than it.
    connection.ensure_connection()
    with connection.wrap_database_errors:
        cursor = psycopg.Cursor(connection.connection)
        cursor.execute(statement, values)
    return cursor.rowcount


def note_nothing_to_do(outbox_id: int) -> None:
    """Record on the processed row that the wanted state was there already."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_processed SET result = 'nothing to do' WHERE outbox_id = %s", [outbox_id]
        )


def fail(
    outbox_id: int, entry_id: str, decide: Decide, failure: Failure
) -> Retry | Wait | Dead | None:
    """T6: one failed run; the row is due again later, or dead, as `decide` says.

    None, and nothing changed, where the row is gone, dead, or published anew since.
    """
    with _locked(outbox_id, entry_id) as (cursor, row):
        if row is None:
            return None
        verdict = decide(attempts=row.attempts, age=row.age)
        what = What.FAILED if verdict.counts else What.LATER
        events.note(outbox_id, what, failure.by, failure.error)
        attempts = row.attempts + verdict.counts
        if isinstance(verdict, Bury):
            return _mark_dead(cursor, row, verdict.reason, failure, attempts)
        cursor.execute(
            """
            UPDATE jobs_outbox SET attempts = %s, starts = 0, unknown_since = NULL,
                last_error = %s WHERE id = %s
            """,
            [attempts, failure.error, outbox_id],
        )
        _make_due(cursor, row, verdict.delay)
        return verdict


def put_back(outbox_id: int, entry_id: str) -> None:
    """T6: the kind is held, or its provider is slow; the row waits in the outbox, as it was."""
    with _locked(outbox_id, entry_id) as (cursor, row):
        if row is not None:
            _make_due(cursor, row, min(PUT_BACK, settings.JOBS["HOLD_MIN"]))


def wait_for_build(outbox_id: int, entry_id: str, delay: float, limit: float) -> bool:
    """T6: due again in `delay` seconds, no attempt counted; False after `limit` of such waiting."""
    with _locked(outbox_id, entry_id) as (cursor, row):
        if row is None:
            return True
        if row.waited > limit:
            return False
        cursor.execute(
            """
            UPDATE jobs_outbox SET starts = 0,
                unknown_since = coalesce(unknown_since, statement_timestamp())
            WHERE id = %s
            """,
            [outbox_id],
        )
        _make_due(cursor, row, delay)
        return True


def mark_dead(outbox_id: int, entry_id: str, reason: str, failure: Failure) -> Dead | None:
    """T6: stop trying. None, and nothing changed, where the row is gone, dead or published anew."""
    with _locked(outbox_id, entry_id) as (cursor, row):
        return _mark_dead(cursor, row, reason, failure) if row else None


def refuse(entry_id: str, fields: Fields, reason: str, worker: str) -> None:
    """Keep an entry that no outbox row stands behind, with its raw bytes. Twice is once."""
    reason = storable(reason)
    raw = [part[:RAW_LIMIT] for pair in fields for part in pair][: 2 * RAW_LIMIT]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO jobs_refused_entry (entry_id, raw, kind, reason, worker)
            VALUES (%s, %s, %s, %s, %s) ON CONFLICT (entry_id) DO NOTHING
            """,
            [entry_id, raw, _kind(fields), reason, worker],
        )


def _kind(fields: Fields) -> str:
    try:
        return parse_kind(fields)[:100]
    except MalformedJob:
        return ""


@contextlib.contextmanager
def _locked(outbox_id: int, entry_id: str) -> Iterator[tuple[CursorWrapper, _Row | None]]:
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT id, attempts, extract(epoch FROM statement_timestamp() - due_at)::float8,
                coalesce(extract(epoch FROM statement_timestamp() - unknown_since), 0)::float8,
                dead_at IS NULL AND entry_id = %s
            FROM jobs_outbox WHERE id = %s FOR UPDATE
            """,
            [entry_id, outbox_id],
        )
        found = cursor.fetchone()
        yield cursor, _Row(*found[:4]) if found and found[4] else None


def _make_due(cursor: CursorWrapper, row: _Row, delay: float) -> None:
    cursor.execute(
        """
        UPDATE jobs_outbox SET relayed_at = NULL, entry_id = NULL,
            available_at = statement_timestamp() + make_interval(secs => %s)
        WHERE id = %s
        """,
        [delay, row.id],
    )


def _mark_dead(
    cursor: CursorWrapper, row: _Row, reason: str, failure: Failure, attempts: int | None = None
) -> Dead:
    attempts = row.attempts if attempts is None else attempts
    # Whatever a handler gave as its reason: a NUL in it would keep the job undecided for ever.
    reason = storable(reason)
    cursor.execute(
        """
        UPDATE jobs_outbox SET relayed_at = NULL, entry_id = NULL, starts = 0, attempts = %s,
            dead_at = statement_timestamp(), dead_reason = %s, last_error = %s, traceback = %s,
            dead_by = %s, deliveries = 0, letter_id = ''
        WHERE id = %s
        """,
        [attempts, reason, failure.error, failure.traceback, failure.by, row.id],
    )
    events.note(row.id, What.BURIED, failure.by, reason)
    return Dead(reason, attempts, row.id)
