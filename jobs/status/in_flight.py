"""What workers were given and have not acknowledged, with the job that each entry stands for."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

from jobs.job import Fields
from jobs.stream import NoGroup, PendingEntry, StreamView, printable

ROWS = """
SELECT id::text, coalesce(entry_id, ''), kind,
    extract(epoch FROM statement_timestamp() - due_at)::float8
FROM jobs_outbox WHERE id::text = ANY(%s) OR entry_id = ANY(%s)
"""


@dataclass(frozen=True, slots=True)
class InFlight:
    """One pending entry and its job; `idle` and `age` (since the job was due) in seconds.

    `age` is None where no outbox row stands behind it: done already, or never a job. `outbox_id`
    and `kind` are then what the entry says, empty where it is not on the stream any more.
    """

    entry_id: str
    outbox_id: str
    kind: str
    consumer: str
    idle: float
    deliveries: int
    age: float | None


def in_flight(url: str) -> list[InFlight]:
    """Every pending entry, the oldest first.

    Raises StreamAway, StreamRefused or a database error where a server does not answer.
    """
    with contextlib.closing(StreamView(url)) as view:
        pending = _pending(view)
        fields = [_said(one) for one in view.fields([one.entry_id for one in pending])]
    rows = _rows([one.entry_id for one in pending], [said["outbox_id"] for said in fields])
    return [_job(one, said, rows) for one, said in zip(pending, fields, strict=True)]


def _pending(view: StreamView) -> list[PendingEntry]:
    try:
        return list(view.pending())
    except NoGroup:
        return []


type Said = dict[str, str]
type Row = tuple[str, str, float]


def _said(fields: Fields) -> Said:
    # Shown as it stands: an entry that is no job is what somebody looks for here.
    text = {name: printable(value) for name, value in fields}
    return {"outbox_id": text.get(b"outbox_id", ""), "kind": text.get(b"kind", "")}


def _rows(entry_ids: Sequence[str], outbox_ids: Sequence[str]) -> dict[str, Row]:
    if not entry_ids:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(ROWS, [list(outbox_ids), list(entry_ids)])
        found = cursor.fetchall()
    # By entry where the entry itself was trimmed, by outbox row where it is an older publication.
    rows = {entry_id: (row, kind, age) for row, entry_id, kind, age in found}
    return rows | {row: (row, kind, age) for row, _, kind, age in found}


def _job(one: PendingEntry, said: Said, rows: dict[str, Row]) -> InFlight:
    found = rows.get(said["outbox_id"]) or rows.get(one.entry_id)
    outbox_id, kind, age = found or (said["outbox_id"], said["kind"], None)
    return InFlight(one.entry_id, outbox_id, kind, one.consumer, one.idle, one.deliveries, age)
