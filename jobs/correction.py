"""T5 for what cannot be replayed as it is: a person types the arguments again.

They go through the parser that entries go through; what was there before is kept.
"""

import dataclasses
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from . import events, foresight, outbox, replay
from .job import Job
from .models import OutboxRow, What
from .registry import kind_named
from .replay import Deed, Taken


def arguments(kind: str) -> list[str]:
    """The names of the arguments of `kind`. Raises UnknownKind."""
    return [spec.name for spec in dataclasses.fields(kind_named(kind).args_type)]


def parsed(kind: str, typed: Mapping[str, str]) -> Job[Any]:
    """The job that these typed arguments make. Raises UnknownKind or MalformedJob."""
    return foresight.parsed(kind, {name: text.strip() for name, text in typed.items()})


def correct(
    outbox_id: int, seen: datetime, job: Job[Any], deed: Deed, *, twice_is_fine: bool = False
) -> Taken:
    """Give a dead job the arguments of `job` (see `parsed`) and make it due again.

    Nothing where it was not dead at `seen`, or is not any more.
    """
    with transaction.atomic(durable=True):
        for row in replay.within_retention(replay.lock([outbox_id], seen)):
            before, letters = row.args, [row.letter_id]
            row.args = job.args_by_name()
            row.subject = kind_named(row.kind).subject_of(row.args)
            row.save(update_fields=["args", "subject"])
            events.note(row.pk, What.CORRECTED, deed.by, f"the arguments were {json.dumps(before)}")
            if twice_is_fine:
                replay.consent([row])
            replay.make_due([row.pk])
            events.note(row.pk, What.REPLAYED, deed.by)
            deed.note(1, None)
            outbox.wake_relay_on_commit()
            return Taken([row.pk], letters)
    return Taken()


def make_job(
    refused_id: int, seen: datetime, job: Job[Any], deed: Deed, *, twice_is_fine: bool = False
) -> Taken:
    """Make a new job of a refused entry; the entry stays as it came, settled.

    Nothing where somebody has settled it already.
    """
    with transaction.atomic(durable=True):
        for entry in replay.lock_refused([refused_id], seen):
            letters = [entry.letter_id]
            made = outbox.put(job.kind, job.args_by_name())
            if twice_is_fine:
                replay.consent(OutboxRow.objects.filter(pk=made))
            events.note(made, What.CORRECTED, deed.by, f"made of the entry {entry.entry_id}")
            entry.settled_at, entry.settled_by = Now(), deed.by
            entry.outbox_id, entry.letter_id = made, ""
            entry.save(update_fields=["settled_at", "settled_by", "outbox_id", "letter_id"])
            deed.note(1, None)
            return Taken([made], letters)
    return Taken()
