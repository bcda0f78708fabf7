"""What the tests of other apps use: what was enqueued, and running it here and now."""

import dataclasses
from collections.abc import Iterator

from django.conf import settings
from django.db import transaction

from . import outbox, rows
from .models import OutboxRow
from .pool import Pool
from .registry import Lane, kind_named, parse_entry
from .runner import Outcome, Runner
from .slot import Slot
from .stream import Entry, Letters

_inline = Pool(0)


def enqueued(kind: str) -> list[dict[str, int | str]]:
    """The arguments of the outbox rows of `kind`, oldest first."""
    rows = OutboxRow.objects.filter(kind=kind).order_by("id")
    return [row.args for row in rows]


def drain(*, pool: Pool = _inline, rounds: int = 100) -> list[Outcome]:
    """Run due jobs in this thread, and the jobs they enqueue, until none is due.

    Rows are published under made-up entry ids and parsed as a worker would; only the stream is
    left out. Raises RuntimeError after `rounds` rounds: jobs that enqueue each other.
    """
    outcomes: list[Outcome] = []
    for number in range(rounds):
        due = list(_publish(number))
        if not due:
            return outcomes
        outcomes += [_run(row, entry_id, pool) for row, entry_id in due]
    raise RuntimeError(f"jobs were still due after {rounds} rounds")


def _publish(number: int) -> Iterator[tuple[outbox.DueRow, str]]:
    with transaction.atomic(durable=True):
        rows = [row for lane in Lane for row in outbox.lock_due(1000, lane=lane)]
        outbox.mark_relayed({row.id: f"{number}-{row.id}" for row in rows})
    return ((row, f"{number}-{row.id}") for row in rows)


def _run(row: outbox.DueRow, entry_id: str, pool: Pool) -> Outcome:
    fields = [(name.encode(), value.encode()) for name, value in row.fields().items()]
    job = dataclasses.replace(
        parse_entry(fields), scheduled_for=rows.row_states([row.id])[row.id].scheduled_for
    )
    runner = Runner("test", pool, Letters(settings.REDIS_URL))
    return runner.run(Slot(Entry(entry_id, fields), job, kind_named(row.kind)))
