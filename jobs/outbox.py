"""The outbox: jobs go in through `enqueue()`, are published, retried, and leave as processed."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from .correlation import request_id, trace
from .failpoint import failpoint
from .job import Job, MalformedJob, encode_job
from .models import Lane, OutboxRow
from .registry import kind_named, parse_entry

CHANNEL = "jobs_outbox"
ARGS_LIMIT = 1024
"""Bytes of a job's arguments as JSON: ids, never data that the handler can look up (design §3)."""


class NotEnqueuable(ValueError):
    """The arguments cannot go out as an entry; raised by `enqueue`, which then writes nothing."""


class UnknownJob(LookupError):
    """No such job in the outbox or among the processed rows; raised by `move_to_processed`."""


class AlreadyProcessed(Exception):
    """Another delivery of the job committed its effects; raised by `move_to_processed`."""


@dataclass(frozen=True, slots=True)
class DueRow:
    """What the relay publishes of an outbox row."""

    id: int
    kind: str
    args: dict[str, int | str]
    request_id: str
    trace: str

    def fields(self) -> dict[str, str]:
        """The fields of its entry."""
        envelope: dict[str, int | str] = {
            "outbox_id": self.id,
            "request_id": self.request_id,
            "trace": self.trace,
        }
        return encode_job(self.kind, self.args, envelope)


@dataclass(frozen=True, slots=True)
class RowState:
    """What a worker must know of a row before it runs an entry of it."""

    dead: bool
    waiting: bool


def enqueue(kind: str, *, subject: str = "", lane: str = Lane.TICKETS, **args: int | str) -> int:
    """Write one outbox row in the caller's transaction and return its id.

    `subject` says what the job is about, e.g. `order:4471`. Raises UnknownKind, TypeError for
    arguments that are not the kind's, NotEnqueuable for ones an entry cannot carry, and
    TransactionManagementError outside of a transaction: a job stands or falls with its cause.
    """
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError(
            f"enqueue({kind!r}) outside of a transaction: the job could outlive its cause"
        )
    checked = kind_named(kind).checked_args(args)
    _refuse_unencodable(kind, checked)
    row = _insert(kind, checked, subject, lane)
    _wake_relay_on_commit()
    return row


def _insert(kind: str, args: Mapping[str, int | str], subject: str, lane: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO jobs_outbox (kind, args, subject, lane, request_id, trace,
                last_error, dead_reason, traceback, dead_by)
            VALUES (%s, %s, %s, %s, %s, %s, '', '', '', '') RETURNING id
            """,
            [kind, json.dumps(args), subject, lane, request_id(), trace()],
        )
        return int(cursor.fetchone()[0])


def _refuse_unencodable(kind: str, args: Mapping[str, int | str]) -> None:
    try:
        size = len(json.dumps(args, ensure_ascii=False).encode())
        fields = encode_job(kind, args, {"outbox_id": 1, "request_id": "", "trace": ""})
        parse_entry([(name.encode(), value.encode()) for name, value in fields.items()])
    except (MalformedJob, UnicodeEncodeError) as error:
        raise NotEnqueuable(f"{kind}: {error}") from error
    if size > ARGS_LIMIT:
        raise NotEnqueuable(f"{kind}: the arguments have {size} bytes, more than {ARGS_LIMIT}")


def _wake_relay_on_commit() -> None:
    # Inside the transaction NOTIFY would serialise all commits; one per transaction is enough.
    if not any(entry[1] is _wake_relay for entry in connection.run_on_commit):
        transaction.on_commit(_wake_relay, robust=True)


def _wake_relay() -> None:
    failpoint("enqueue.committed")
    with connection.cursor() as cursor:
        cursor.execute(f"NOTIFY {CHANNEL}")


def lock_due(limit: int) -> list[DueRow]:
    """Up to `limit` due live rows in order of `(available_at, id)`, locked; others' are skipped."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT id, kind, args::text, request_id, trace FROM jobs_outbox
            WHERE relayed_at IS NULL AND dead_at IS NULL AND available_at <= statement_timestamp()
            ORDER BY available_at, id LIMIT %s FOR UPDATE SKIP LOCKED
            """,
            [limit],
        )
        return [DueRow(i, k, json.loads(a), r, t) for i, k, a, r, t in cursor.fetchall()]


def mark_relayed(published: Mapping[int, str]) -> None:
    """Note the publications, outbox id to entry id, of rows that `lock_due` locked."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE jobs_outbox AS row SET relayed_at = statement_timestamp(), entry_id = new.entry
            FROM unnest(%s::bigint[], %s::text[]) AS new (id, entry) WHERE row.id = new.id
            """,
            [list(published.keys()), list(published.values())],
        )


def seconds_until_due() -> float | None:
    """Until the next unpublished row is due; 0 or less: now; None: there is none."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT extract(epoch FROM available_at - statement_timestamp())::float8
            FROM jobs_outbox WHERE relayed_at IS NULL AND dead_at IS NULL
            ORDER BY available_at, id LIMIT 1
            """
        )
        found = cursor.fetchone()
    return found[0] if found else None


def row_states(ids: Sequence[int]) -> dict[int, RowState]:
    """The state of each of these outbox rows that is still there: one statement for a batch."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT id, dead_at IS NOT NULL, available_at > statement_timestamp()
            FROM jobs_outbox WHERE id = ANY(%s)
            """,
            [list(ids)],
        )
        return {row: RowState(dead, waiting) for row, dead, waiting in cursor.fetchall()}


def processed_among(ids: Iterable[int]) -> set[int]:
    """Those of these whose jobs are done. Look in the outbox first: rows move one way."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT outbox_id FROM jobs_processed WHERE outbox_id = ANY(%s)", [list(ids)]
        )
        return {outbox_id for (outbox_id,) in cursor.fetchall()}


def move_to_processed(job: Job[Any], args: Mapping[str, int | str], worker: str, ms: int) -> None:
    """Move the job's outbox row to the processed table, in the caller's transaction.

    Only a row whose kind, args and request id are the entry's own moves: identities are given out
    twice after a database is restored. Raises AlreadyProcessed, or UnknownJob.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH moved AS (
                DELETE FROM jobs_outbox
                WHERE id = %s AND kind = %s AND args = %s::jsonb AND request_id = %s
                RETURNING id, kind, args, subject, request_id, trace, created_at, due_at, attempts
            )
            INSERT INTO jobs_processed (outbox_id, kind, args, subject, request_id, trace,
                created_at, due_at, attempts, processed_at, worker, duration_ms, result)
            SELECT moved.*, clock_timestamp(), %s, %s, 'done' FROM moved
            """,
            [job.outbox_id, job.kind, json.dumps(args), job.request_id, worker, ms],
        )
        if cursor.rowcount == 1:
            return
    if job.outbox_id in processed_among([job.outbox_id]):
        raise AlreadyProcessed(job.outbox_id)
    raise UnknownJob(f"no outbox row {job.outbox_id} of kind {job.kind} with these arguments")


def note_nothing_to_do(outbox_id: int) -> None:
    """Record on the processed row that the wanted state was there already."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_processed SET result = 'nothing to do' WHERE outbox_id = %s", [outbox_id]
        )


def retry_later(outbox_id: int, entry_id: str, delay: float, error: str) -> bool:
    """T6: conclude the publication `entry_id`, counting one attempt, due again in `delay` seconds.

    False, and nothing changed, where the row is gone, dead, or published anew since.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        # Locked by id alone: that waits for a relay step which added the entry and has not
        # committed; a fenced UPDATE would look at the committed null and lose the attempt.
        cursor.execute("SELECT 1 FROM jobs_outbox WHERE id = %s FOR UPDATE", [outbox_id])
        cursor.execute(
            """
            UPDATE jobs_outbox SET attempts = attempts + 1, last_error = %s,
                available_at = statement_timestamp() + make_interval(secs => %s),
                relayed_at = NULL, entry_id = NULL
            WHERE id = %s AND entry_id = %s AND dead_at IS NULL
            """,
            [error, delay, outbox_id, entry_id],
        )
        return bool(cursor.rowcount == 1)


def has_dead(subject: str) -> bool:
    """Whether a job about `subject` was given up and waits for staff."""
    return OutboxRow.objects.about(subject).dead().exists()
