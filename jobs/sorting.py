"""Sorts what was read before it is run: one look at the database for the whole batch.

What is no job that can run is concluded here: nothing stays pending without a slot.
"""

import dataclasses
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from django.conf import settings

from . import concluded, conclusion, dead_letters, rows
from .concluded import About
from .conclusion import Failure
from .job import MalformedJob, parse_outbox_id
from .registry import UnknownKind, kind_named, parse_entry
from .rows import RowState
from .slot import Slot
from .stream import Entry, Letters

logger = logging.getLogger(__name__)


@dataclass
class Sorted:
    """`runnable` are jobs to run; `concluded` are ids that need only be acknowledged."""

    runnable: list[Slot] = field(default_factory=list)
    concluded: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Stranger:
    """A job of a kind that this build does not know: a deploy in progress."""

    entry: Entry
    outbox_id: int
    reason: str


class Sorter:
    """Decides what becomes of entries; `worker` is named where one is buried."""

    def __init__(self, letters: Letters, worker: str) -> None:
        self._letters = letters
        self._worker = worker

    def sort(self, entries: Sequence[Entry], redelivered: bool) -> Sorted:
        """Parse the entries and look their rows up; `redelivered` ones are suspects.

        Raises a database error: nothing is lost, and sorting them all again does no harm.
        """
        self._make_trimmed_due([entry.id for entry in entries if not entry.fields])
        parsed = list(self._parsed(entries))
        ids = {item.outbox_id for item in parsed}
        states = rows.row_states(list(ids)) if ids else {}
        gone = ids - states.keys()
        # In this order: rows move from the outbox to the processed table, never back.
        done = rows.processed_among(gone) if gone else set()
        found = Sorted()
        for item in parsed:
            state = states.get(item.outbox_id)
            if result := self._concluded(item, state, item.outbox_id in done):
                self._note(item, state, result)
            elif isinstance(item, Slot):
                found.runnable.append(_told(item, state, redelivered))
        running = {slot.entry.id for slot in found.runnable}
        found.concluded = [entry.id for entry in entries if entry.id not in running]
        return found

    def _make_trimmed_due(self, entry_ids: Sequence[str]) -> None:
        if entry_ids:
            found = rows.make_due_again(entry_ids)
            logger.warning("%d entries were trimmed, %d rows are due again", len(entry_ids), found)

    def _parsed(self, entries: Sequence[Entry]) -> Iterator[Slot | _Stranger]:
        for entry in entries:
            try:
                if entry.fields:
                    yield _parse(entry)
            except MalformedJob as error:
                dead_letters.bury_malformed(self._letters, entry, error, self._worker)
                concluded.note_unrun(About(entry_id=entry.id, worker=self._worker), "dead")

    def _concluded(self, item: Slot | _Stranger, state: RowState | None, done: bool) -> str:
        """What became of it without a run; empty where it is to be run."""
        if state is None and done:
            return "duplicate"
        if state is None:
            reason = f"UnknownJob: no outbox row {item.outbox_id}"
            dead_letters.refuse(self._letters, item.entry, reason, self._worker)
            return "dead"
        if state.dead or state.waiting:
            return "concluded elsewhere"
        if state.held:
            conclusion.put_back(item.outbox_id, item.entry.id)
            return "later"
        return "" if isinstance(item, Slot) else self._wait_for_build(item)

    def _note(self, item: Slot | _Stranger, state: RowState | None, result: str) -> None:
        if isinstance(item, Slot):
            item.attempts = state.attempts if state else 0
            job = item.job
            concluded.note_unrun(item.about(self._worker), result, job.request_id, job.trace)
        else:
            about = About(entry_id=item.entry.id, worker=self._worker, outbox_id=item.outbox_id)
            concluded.note_unrun(about, result)

    def _wait_for_build(self, stranger: _Stranger) -> str:
        delay, limit = settings.JOBS["UNKNOWN_DELAY"], settings.JOBS["UNKNOWN_LIMIT"]
        if conclusion.wait_for_build(stranger.outbox_id, stranger.entry.id, delay, limit):
            logger.warning("waits %g s for a build that knows it: %s", delay, stranger.reason)
            return "later"
        reason = f"{stranger.reason} for {limit:g} s"
        failure = Failure(reason, "", self._worker)
        buried = dead_letters.bury(
            self._letters, stranger.entry, stranger.outbox_id, reason, failure
        )
        return "dead" if buried else "concluded elsewhere"


def _told(slot: Slot, state: RowState | None, redelivered: bool) -> Slot:
    if state:
        slot.starts, slot.probe, slot.attempts = state.starts, state.probe, state.attempts
        slot.job = dataclasses.replace(slot.job, scheduled_for=state.scheduled_for)
    slot.suspect = redelivered or slot.starts > 0
    return slot


def _parse(entry: Entry) -> Slot | _Stranger:
    try:
        job = parse_entry(entry.fields)
    except UnknownKind as error:
        outbox_id = parse_outbox_id(entry.fields)
        if outbox_id is None:
            raise MalformedJob("outbox_id", "is missing or out of range") from error
        return _Stranger(entry, outbox_id, f"no build knows the kind {error}")
    return Slot(entry, job, kind_named(job.kind))
