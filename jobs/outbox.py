"""The outbox: jobs go in through `enqueue()`, the relay takes those that are due."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from . import events, tally
from .correlation import request_id, trace
from .failpoint import failpoint
from .job import ARGS_LIMIT, ENVELOPE, MalformedJob, encode_job
from .models import OutboxRow, What
from .registry import Kind, Lane, kind_named, parse_entry
from .tally import State

CHANNEL = "jobs_outbox"
PROBE_LOCK = 731_733
"""An advisory lock, with a kind's hash: one relay at a time looks for its probe."""


class NotEnqueuable(ValueError):
    """The arguments cannot go out as an entry; raised by `enqueue`, which then writes nothing."""


@dataclass(frozen=True, slots=True)
class DueRow:
    """What the relay publishes of an outbox row."""

    id: int
    kind: str
    args: str
    request_id: str
    trace: str

    def fields(self) -> dict[str, str]:
        """The fields of its entry. Raises NotEnqueuable where an entry cannot carry them."""
        args = _parsed(self.args)
        for name, value in args.items():
            if name in ENVELOPE:
                raise NotEnqueuable(f"{name} belongs to the envelope")
            if type(value) not in (int, str):
                raise NotEnqueuable(f"{name} is a {type(value).__name__}, neither int nor str")
        envelope: dict[str, int | str] = {
            "outbox_id": self.id,
            "request_id": self.request_id,
            "trace": self.trace,
        }
        return encode_job(self.kind, args, envelope)


def _parsed(text: str) -> dict[str, int | str]:
    if len(text.encode()) > 2 * ARGS_LIMIT:
        raise NotEnqueuable(f"the arguments have {len(text)} characters, more than {ARGS_LIMIT}")
    try:
        args: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotEnqueuable(f"the arguments are not JSON to us: {error}") from error
    if not isinstance(args, dict):
        raise NotEnqueuable(f"args are a {type(args).__name__}, not names and values")
    size = len(json.dumps(args, ensure_ascii=False).encode())
    if size > ARGS_LIMIT:
        raise NotEnqueuable(f"the arguments have {size} bytes, more than {ARGS_LIMIT}")
    return args


def enqueue(kind: str, **args: int | str) -> int:
    """Write one outbox row in the caller's transaction and return its id.

    Raises UnknownKind, TypeError for arguments that are not the kind's, NotEnqueuable for ones an
    entry cannot carry, and TransactionManagementError outside of a transaction: a job stands or
    falls with its cause.
    """
    return put(kind, args)


def put(
    kind: str,
    args: Mapping[str, int | str],
    *,
    after: float = 0.0,
    scheduled_for: datetime | None = None,
) -> int:
    """`enqueue()` for arguments that are a mapping.

    `after`: seconds until the job is due; its age counts from then on. `scheduled_for`:
    the due time that a schedule fires it for.
    """
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError(
            f"enqueue({kind!r}) outside of a transaction: the job could outlive its cause"
        )
    known = kind_named(kind)
    checked = known.checked_args(args)
    _refuse_unencodable(kind, checked)
    row = _insert(known, checked, after, scheduled_for)
    wake_relay_on_commit()
    return row


def _insert(
    kind: Kind[Any],
    args: Mapping[str, int | str],
    after: float,
    scheduled_for: datetime | None,
) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO jobs_outbox (due_at, available_at, kind, args, subject, lane, request_id,
                trace, scheduled_for, last_error, dead_reason, traceback, dead_by)
            SELECT due, due, %s, %s, %s, %s, %s, %s, %s, '', '', '', ''
            FROM (SELECT statement_timestamp() + make_interval(secs => %s) AS due) AS clock
            RETURNING id
            """,
            [
                kind.name,
                json.dumps(args),
                kind.subject_of(args),
                kind.lane,
                request_id(),
                trace(),
                scheduled_for,
                after,
            ],
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


def wake_relay_on_commit() -> None:
    """Let a relay know of what the caller's transaction makes due, once it is committed."""
    # Inside the transaction NOTIFY would serialise all commits; one per transaction is enough.
    if not any(entry[1] is _wake_relay for entry in connection.run_on_commit):
        transaction.on_commit(_wake_relay, robust=True)


def _wake_relay() -> None:
    failpoint("enqueue.committed")
    with connection.cursor() as cursor:
        cursor.execute(f"NOTIFY {CHANNEL}")


def lock_due(limit: int, held: Sequence[str] = (), lane: Lane = Lane.TICKETS) -> list[DueRow]:
    """Up to `limit` due live rows of `lane` in order of `(available_at, id)`, locked.

    Those that others hold are skipped, those of the kinds `held` are left where they are.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT id, kind, args::text, request_id, trace FROM jobs_outbox
            WHERE relayed_at IS NULL AND dead_at IS NULL AND available_at <= statement_timestamp()
                AND lane = %s AND kind <> ALL(%s)
            ORDER BY available_at, id LIMIT %s FOR UPDATE SKIP LOCKED
            """,
            [lane, list(held), limit],
        )
        return [DueRow(*row) for row in cursor.fetchall()]


def bulk_room(held: Sequence[str] = ()) -> int:
    """How many rows of the lane `bulk` may be published now (design §7).

    None while a ticket is late: due for BULK_LATE seconds, not done and not of a kind that is
    held. Else so few that a ticket waits behind BULK_OUT of them at most.
    """
    most = int(settings.JOBS["BULK_OUT"])
    return 0 if _tickets_are_late(held) else most - _bulk_out(most)


def _tickets_are_late(held: Sequence[str]) -> bool:
    # By the count that a relay keeps: this is asked at each step, also of a long backlog.
    counted = tally.lately()
    limit = counted.now - settings.JOBS["BULK_LATE"]
    return any(
        rows.available_at < limit and rows.lane != Lane.BULK and rows.kind not in held
        for rows in counted.of(State.DUE, State.RELAYED)
    )


def _bulk_out(most: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT count(*) FROM (
                SELECT FROM jobs_outbox
                WHERE lane = %s AND relayed_at IS NOT NULL AND dead_at IS NULL LIMIT %s
            ) AS out
            """,
            [Lane.BULK, most],
        )
        return int(cursor.fetchone()[0])


def bulk_is_due(held: Sequence[str]) -> bool:
    """Whether a row of the lane `bulk` waits for room."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT EXISTS (SELECT FROM jobs_outbox
                WHERE relayed_at IS NULL AND dead_at IS NULL AND lane = %s
                AND available_at <= statement_timestamp() AND kind <> ALL(%s))
            """,
            [Lane.BULK, list(held)],
        )
        return bool(cursor.fetchone()[0])


def lock_probe(kind: str) -> list[DueRow]:
    """One due row of `kind`, locked, unless one of it is out already.

    One that has not failed yet, where there is one: those that fail for their own reasons would
    else be tried again and again before the others.
    """
    with connection.cursor() as cursor:
        # A statement of its own: the next one must see what the relay that had the lock committed.
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s, hashtext(%s))", [PROBE_LOCK, kind])
        if not cursor.fetchone()[0]:
            return []
        cursor.execute(
            """
            SELECT id, kind, args::text, request_id, trace FROM jobs_outbox
            WHERE relayed_at IS NULL AND dead_at IS NULL AND available_at <= statement_timestamp()
                AND kind = %(kind)s AND NOT EXISTS (
                    SELECT FROM jobs_outbox
                    WHERE kind = %(kind)s AND relayed_at IS NOT NULL AND dead_at IS NULL)
            ORDER BY last_error <> '', available_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
            """,
            {"kind": kind},
        )
        return [DueRow(*row) for row in cursor.fetchall()]


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


def seconds_until_due(held: Sequence[str] = ()) -> float | None:
    """Until the next unpublished ticket row of another kind than `held` is due; None: no such."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT extract(epoch FROM available_at - statement_timestamp())::float8
            FROM jobs_outbox
            WHERE relayed_at IS NULL AND dead_at IS NULL AND lane = %s AND kind <> ALL(%s)
            ORDER BY available_at, id LIMIT 1
            """,
            [Lane.TICKETS, list(held)],
        )
        found = cursor.fetchone()
    return found[0] if found else None


def any_due() -> bool:
    """Whether any live row is due and not held: relayed or not, running or not."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT EXISTS (SELECT FROM jobs_outbox
                WHERE dead_at IS NULL AND available_at <= statement_timestamp()
                AND kind NOT IN (
                    SELECT kind FROM jobs_kind_hold WHERE until > statement_timestamp()))
            """
        )
        return bool(cursor.fetchone()[0])


def mark_unpublishable(outbox_id: int, reason: str, by: str) -> None:
    """A row that `lock_due` locked and that no entry can carry is dead; its batch goes on."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE jobs_outbox SET dead_at = statement_timestamp(), dead_reason = %s,
                last_error = %s, traceback = '', dead_by = %s, deliveries = 0, letter_id = ''
            WHERE id = %s
            """,
            [reason, reason, by, outbox_id],
        )
    events.note(outbox_id, What.BURIED, by, reason)


def count_unpublished() -> int:
    """Due live rows that no relay has published yet."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT count(*) FROM jobs_outbox WHERE relayed_at IS NULL AND dead_at IS NULL
            AND available_at <= statement_timestamp()
            """
        )
        return int(cursor.fetchone()[0])


def relayed_before(seconds: float) -> list[str]:
    """Entry ids of live rows that were relayed more than so many seconds ago."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT entry_id FROM jobs_outbox WHERE dead_at IS NULL
                AND relayed_at < statement_timestamp() - make_interval(secs => %s)
                AND entry_id ~ '^[0-9]{1,20}-[0-9]{1,20}$'
            """,
            [seconds],
        )
        return [entry_id for (entry_id,) in cursor.fetchall()]


def make_all_due() -> int:
    """Publish every live relayed row anew, in the caller's transaction; returns how many."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE jobs_outbox SET relayed_at = NULL, entry_id = NULL
            WHERE relayed_at IS NOT NULL AND dead_at IS NULL
            """
        )
        return int(cursor.rowcount)


def has_dead(subject: str) -> bool:
    """Whether a job about `subject` was given up and waits for staff."""
    return OutboxRow.objects.about(subject).dead().exists()
