"""Sorts what was read before it is run: one look at the database for the whole batch."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import metrics, outbox
from .job import Job, MalformedJob
from .registry import Kind, UnknownKind, kind_named, parse_entry
from .stream import Entry

logger = logging.getLogger(__name__)

type Runnable = tuple[Job[Any], Kind[Any]]


@dataclass
class Sorted:
    """Entry ids by what is to be done with them.

    `runnable` are jobs to run, `concluded` need only be acknowledged, `set_aside` stay pending:
    they are no job that this build can run.
    """

    runnable: dict[str, Runnable] = field(default_factory=dict)
    concluded: list[str] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)


def sort_entries(entries: Sequence[Entry]) -> Sorted:
    """Parse the entries and look their rows up. Raises a database error; nothing is lost then."""
    found = Sorted()
    parsed = {entry.id: runnable for entry in entries if (runnable := _parse(entry, found))}
    ids = {job.outbox_id for job, _ in parsed.values()}
    states = outbox.row_states(list(ids)) if ids else {}
    gone = ids - states.keys()
    # In this order: rows move from the outbox to the processed table, never back.
    done = outbox.processed_among(gone) if gone else set()
    for entry_id, (job, kind) in parsed.items():
        state = states.get(job.outbox_id)
        if state is None and job.outbox_id not in done:
            _refuse(entry_id, "unknown job", f"no outbox row {job.outbox_id}", found)
        elif state is None or state.dead or state.waiting:
            found.concluded.append(entry_id)
        else:
            found.runnable[entry_id] = job, kind
    return found


def _parse(entry: Entry, found: Sorted) -> Runnable | None:
    if not entry.fields:
        _refuse(entry.id, "trimmed", "the stream cut it off before it was read", found)
        return None
    try:
        job = parse_entry(entry.fields)
    except MalformedJob as error:
        _refuse(entry.id, "malformed", str(error), found)
    except UnknownKind as error:
        _refuse(entry.id, "unknown kind", str(error), found)
    else:
        return job, kind_named(job.kind)
    return None


def _refuse(entry_id: str, reason: str, text: str, found: Sorted) -> None:
    found.set_aside.append(entry_id)
    metrics.ENTRIES_REFUSED.labels(reason).inc()
    logger.error(
        "entry left pending, %s: %s", reason, text,
        extra={"action": "refused", "entry_id": entry_id, "result": reason},
    )  # fmt: skip
