"""T5: a person makes dead jobs due again, or discards them.

Fenced by the `dead_at` that the person saw: twice, or by two people at once, is the same as once.
Their letters are taken from `jobs:dead` after the commit; reconcile finds one that stays.
"""

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from . import events, foresight, outbox
from .correlation import request_id
from .errors import storable
from .failpoint import failpoint
from .foresight import Asked
from .models import OutboxRow, ProcessedJob, RefusedEntry, ReplayBatch, What
from .prognosis import Effect
from .purging import beyond_retention
from .registry import kind_named

MAKE_DUE = """
UPDATE jobs_outbox AS job SET dead_at = NULL, attempts = 0, starts = 0, unknown_since = NULL,
    relayed_at = NULL, entry_id = NULL, letter_id = '',
    due_at = statement_timestamp() + (number - 1) * make_interval(secs => %s),
    available_at = statement_timestamp() + (number - 1) * make_interval(secs => %s)
FROM unnest(%s::bigint[]) WITH ORDINALITY AS chosen (id, number) WHERE job.id = chosen.id
"""
"""`due_at` too: the age tells how long the queue lets jobs lie, not how long people did."""


@dataclass(frozen=True)
class Deed:
    """Who does it, and what else belongs into the same transaction: a line of the staff log.

    `note` is told how many jobs were changed, and their batch.
    """

    by: str
    note: Callable[[int, int | None], None] = lambda number, batch: None


@dataclass(frozen=True)
class Taken:
    """The jobs that were changed, the letters to take away, the batch where they are one."""

    keys: list[int] = field(default_factory=list)
    letters: list[str] = field(default_factory=list)
    batch: int | None = None


def replay(
    outbox_ids: Sequence[int], seen: datetime, deed: Deed, *,
    together: bool = False, twice_is_fine: bool = False,
) -> Taken:  # fmt: skip
    """Make these jobs due again, as far as they were dead at `seen` and still are.

    `together`: as a batch, REPLAYS_PER_SECOND of them, the longest dead first. `twice_is_fine`:
    the person was told that something may happen twice. Raises a database error: nothing is
    changed then.
    """
    with transaction.atomic(durable=True):
        locked = within_retention(lock(outbox_ids, seen))
        if not locked:
            return Taken()
        ids = [row.pk for row in locked]
        if twice_is_fine:
            consent(locked)
        batch = _batch(len(ids), deed.by) if together else None
        make_due(ids)
        events.note_all(ids, What.REPLAYED, deed.by, batch=batch)
        deed.note(len(ids), batch)
        failpoint("replay.made_due")
        outbox.wake_relay_on_commit()
    failpoint("replay.committed")
    return Taken(ids, _letters(locked), batch)


def discard(keys: Sequence[int], seen: datetime, deed: Deed, reason: str) -> Taken:
    """Nobody waits for these any more: dead jobs, or, under minus their ids, refused entries.

    The rows stay, so that a late delivery of them is still known.
    """
    with transaction.atomic(durable=True):
        locked = lock([key for key in keys if key > 0], seen)
        ids = [row.pk for row in locked]
        OutboxRow.objects.filter(pk__in=ids).update(discarded_at=Now(), letter_id="")
        events.note_all(ids, What.DISCARDED, deed.by, reason)
        refused = lock_refused([-key for key in keys if key < 0], seen)
        settled = [entry.pk for entry in refused]
        RefusedEntry.objects.filter(pk__in=settled).update(
            settled_at=Now(), settled_by=deed.by, settled_reason=storable(reason), letter_id=""
        )
        taken = ids + [-key for key in settled]
        if taken:
            deed.note(len(taken), None)
    failpoint("replay.committed")
    return Taken(taken, _letters([*locked, *refused]))


def lock(outbox_ids: Sequence[int], seen: datetime) -> list[OutboxRow]:
    """Those of these that were dead at `seen` and still are, in the caller's transaction."""
    # A row that is locked is being finished by a worker this moment, or replayed by somebody else.
    # Without the traceback: those of 10,000 jobs are 50 MB.
    dead = OutboxRow.objects.dead().filter(pk__in=outbox_ids, dead_at__lte=seen).defer("traceback")
    return list(dead.order_by("dead_at", "pk").select_for_update(skip_locked=True))


def within_retention(rows: Iterable[OutboxRow]) -> list[OutboxRow]:
    """Those of which it is still known what they have done."""
    return [row for row in rows if not beyond_retention(row.created_at)]


def lock_refused(ids: Sequence[int], seen: datetime) -> list[RefusedEntry]:
    """Those of these entries that nobody has settled yet, in the caller's transaction."""
    open_ones = RefusedEntry.objects.filter(pk__in=ids, settled_at=None, refused_at__lte=seen)
    slim = open_ones.defer("raw")
    return list(slim.order_by("pk").select_for_update(skip_locked=True))


def _letters(settled: Sequence[OutboxRow | RefusedEntry]) -> list[str]:
    return [one.letter_id for one in settled if one.letter_id]


def make_due(outbox_ids: Sequence[int]) -> None:
    """Dead jobs are live again, in the caller's transaction: one now, the others after it."""
    pause = 1 / settings.JOBS["REPLAYS_PER_SECOND"]
    with connection.cursor() as cursor:
        cursor.execute(MAKE_DUE, [pause, pause, list(outbox_ids)])


def _batch(number: int, by: str) -> int:
    last = timedelta(seconds=(number - 1) / settings.JOBS["REPLAYS_PER_SECOND"])
    batch = ReplayBatch.objects.create(
        by=by, request_id=request_id(), number=number, last_due_at=Now() + last
    )
    return batch.pk


def consent(rows: Iterable[OutboxRow]) -> None:
    """In the caller's transaction: the person was told that some of these may happen twice.

    Only for those that may, as it is now: what is safe must stay as it is.
    """
    by_id = {row.pk: row for row in rows}
    found = foresight.foresee(
        [Asked(row.pk, row.kind, row.args, row.created_at) for row in by_id.values()]
    )
    args: defaultdict[str, list[Any]] = defaultdict(list)
    for pk, prognosis in found.items():
        if prognosis.effect is Effect.MAY_REPEAT:
            row = by_id[pk]
            args[row.kind].append(foresight.parsed(row.kind, row.args).args)
    for kind, of_kind in args.items():
        told = kind_named(kind).consent
        if told is not None:
            told(of_kind)


class Instead(enum.Enum):
    """What a dead job has become, where there is nothing to replay or discard."""

    DONE = "it was done"
    DISCARDED = "it was discarded"
    LIVE = "it is not dead any more: it was replayed"
    AGAIN = "it has died again since you looked"
    TOO_OLD = "it is so old that it is not known any more what it has done: discard it"
    BUSY = "a worker or somebody else is at it this moment: look again"
    GONE = "there is no such job"


def instead(outbox_id: int, seen: datetime) -> tuple[Instead, datetime | None]:
    """Why a job that was dead at `seen` could not be taken, and since when it is so."""
    row = OutboxRow.objects.filter(pk=outbox_id).first()
    if row is None:
        done = ProcessedJob.objects.filter(pk=outbox_id).first()
        return (Instead.DONE, done.processed_at) if done else (Instead.GONE, None)
    if row.discarded_at is not None:
        return Instead.DISCARDED, row.discarded_at
    if row.dead_at is None:
        return Instead.LIVE, row.due_at
    if row.dead_at > seen:
        return Instead.AGAIN, row.dead_at
    return (Instead.TOO_OLD if beyond_retention(row.created_at) else Instead.BUSY), row.dead_at


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a batch is: `done`, `dead` again, `discarded` and `open` (due, running) add up."""

    done: int
    dead: int
    discarded: int
    open: int


def progress(batch: int) -> Progress:
    """Where the jobs of a batch are now, in one look."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT count(*) FILTER (WHERE job.id IS NULL),
                count(*) FILTER (WHERE dead_at IS NOT NULL AND discarded_at IS NULL),
                count(*) FILTER (WHERE discarded_at IS NOT NULL),
                count(*) FILTER (WHERE job.id IS NOT NULL AND dead_at IS NULL)
            FROM jobs_event AS event LEFT JOIN jobs_outbox AS job ON job.id = event.outbox_id
            WHERE batch_id = %s
            """,
            [batch],
        )
        return Progress(*cursor.fetchone())
