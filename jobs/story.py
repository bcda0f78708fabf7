"""What became of jobs, told for people: enqueued, tried, dead, replayed, done. Reads only."""

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q
from django.utils import timezone

from .models import JobEvent, KindHold, OutboxRow, ProcessedJob, What


class State(enum.StrEnum):
    """What a happening says beside the words of `models.What`; all but the first: where a job is.

    `WITH_WORKERS`: published; a worker runs it, or will as soon as a slot is free.
    """

    ENQUEUED = "enqueued"
    DUE = "due"
    WAITING = "waiting for retry"
    HELD = "held"
    WITH_WORKERS = "with the workers"
    DEAD = "dead"
    DISCARDED = "discarded"
    DONE = "done"


UNFINISHED = (State.DUE, State.WAITING, State.HELD, State.WITH_WORKERS)
"""Where a job is that goes on by itself. `at` is when it can: of a retry or hold, in the future."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One line of a story. `what` is a `State` or a `models.What`; `by` a worker or a person."""

    at: datetime
    outbox_id: int
    kind: str
    what: str
    by: str = ""
    note: str = ""


def story_of(subject: str) -> list[Happening]:
    """What happened to every job about `subject`, the oldest first; where each is comes last."""
    return _told(Q(subject=subject))


def story_of_job(outbox_id: int) -> list[Happening]:
    """The same of one job; empty where there is none."""
    return _told(Q(outbox_id=outbox_id), Q(pk=outbox_id))


def whereabouts(outbox_ids: Collection[int]) -> dict[int, Happening]:
    """Where each of these jobs is now; none for one that is not known any more."""
    # The outbox first, as below.
    rows = list(OutboxRow.objects.filter(pk__in=outbox_ids).defer("traceback"))
    done = ProcessedJob.objects.in_bulk(outbox_ids)
    left = [row for row in rows if row.pk not in done]
    return {line.outbox_id: line for line in [*map(_done, done.values()), *_standing(left)]}


def _told(of: Q, in_outbox: Q | None = None) -> list[Happening]:
    # The outbox first: rows move only that way, and one that moved meanwhile is found in both.
    rows = list(OutboxRow.objects.filter(in_outbox or of))
    done = {job.outbox_id: job for job in ProcessedJob.objects.filter(of)}
    rows = [row for row in rows if row.pk not in done]
    past = [_enqueued(job.outbox_id, job) for job in done.values()]
    past += [_enqueued(row.pk, row) for row in rows]
    past += _events({line.outbox_id: line.kind for line in past})
    present = [*map(_done, done.values()), *_standing(rows)]
    return _in_order(past, {line.outbox_id: line for line in present})


def _in_order(past: Sequence[Happening], present: Mapping[int, Happening]) -> list[Happening]:
    """All lines by time; where a job is stands after all else that happened to it."""
    last = {line.outbox_id: line for line in past}
    keyed = [(line.at, line) for line in past if not _is_burial_of(line, last, present)]
    # Not by its time alone: PostgreSQL has a clock of the statement and one of the moment.
    keyed += [
        (max(line.at, last[pk].at), line)
        for pk, line in present.items()
        if line.what != last[pk].what
    ]
    return [line for _, line in sorted(keyed, key=lambda pair: pair[0])]


def _is_burial_of(
    line: Happening, last: Mapping[int, Happening], present: Mapping[int, Happening]
) -> bool:
    """Whether the job is dead, which tells the same with its reason."""
    dead = present[line.outbox_id].what == State.DEAD
    return dead and line.what == What.BURIED and line is last[line.outbox_id]


def _enqueued(outbox_id: int, job: OutboxRow | ProcessedJob) -> Happening:
    note = f"request {job.request_id}" if job.request_id else ""
    return Happening(job.created_at, outbox_id, job.kind, State.ENQUEUED, note=note)


def _events(kinds: dict[int, str]) -> list[Happening]:
    return [
        Happening(
            event.at, event.outbox_id, kinds[event.outbox_id], event.what, event.by, event.note
        )
        for event in JobEvent.objects.filter(outbox_id__in=kinds).order_by("at", "id")
    ]


def _done(job: ProcessedJob) -> Happening:
    told = [] if job.result == "done" else [job.result]
    told += [_runs(job.attempts)] if job.attempts else []
    told.append(f"{job.duration_ms} ms")
    note = ", ".join(told)
    return Happening(job.processed_at, job.outbox_id, job.kind, State.DONE, job.worker, note)


def _runs(attempts: int) -> str:
    return f"after {attempts} failed {'run' if attempts == 1 else 'runs'}"


def _standing(rows: Sequence[OutboxRow]) -> Iterator[Happening]:
    kinds = {row.kind for row in rows if row.dead_at is None}
    holds = _holds(kinds) if kinds else {}
    for row in rows:
        yield _where(row, holds.get(row.kind))


def _holds(kinds: Iterable[str]) -> dict[str, KindHold]:
    in_force = Q(until__gt=timezone.now()) | Q(by=KindHold.BREAKER)
    found = KindHold.objects.filter(in_force, kind__in=kinds)
    return {hold.kind: hold for hold in found}


def _where(row: OutboxRow, hold: KindHold | None) -> Happening:
    if row.discarded_at is not None:
        return _line(row, row.discarded_at, State.DISCARDED, row.dead_reason)
    if row.dead_at is not None:
        return _line(row, row.dead_at, State.DEAD, row.dead_reason, row.dead_by)
    if row.relayed_at is not None:
        return _line(row, row.relayed_at, State.WITH_WORKERS)
    if hold is not None:
        return _line(row, hold.until, State.HELD, hold.reason, hold.by)
    if row.available_at > timezone.now():
        return _line(row, row.available_at, State.WAITING, row.last_error)
    return _line(row, row.available_at, State.DUE)


def _line(row: OutboxRow, at: datetime, what: State, note: str = "", by: str = "") -> Happening:
    runs = _runs(row.attempts) if row.attempts else ""
    return Happening(at, row.pk, row.kind, what, by, ": ".join(filter(None, (runs, note))))


@dataclass(frozen=True, slots=True)
class OpenJob:
    """A job that is not done; a dead one waits for a person."""

    outbox_id: int
    args: dict[str, int | str]
    dead: bool


def open_jobs(subject: str, kind: str) -> list[OpenJob]:
    """Every job of `kind` about `subject` that is not done, the oldest first."""
    rows = OutboxRow.objects.about(subject).filter(kind=kind).order_by("pk")
    return [OpenJob(row.pk, row.args, row.dead_at is not None) for row in rows]
