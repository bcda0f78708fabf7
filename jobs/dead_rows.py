"""What stands in the database behind the letters on `jobs:dead`: dead rows, refused entries.

Each goes by a key that its letter tells too: the outbox id, or the id of the refused entry.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import connection

from .job import Fields
from .models import OutboxRow, RefusedEntry

LETTERS_LOCK = 731_732
"""An advisory lock: one relay at a time looks at every letter."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A letter out of the database: the fields of its entry, and what is to be said of them."""

    fields: Fields
    about: dict[str, str]


def count() -> int:
    """Letters that there should be."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT (SELECT count(*) FROM jobs_outbox
                    WHERE dead_at IS NOT NULL AND discarded_at IS NULL)
                + (SELECT count(*) FROM jobs_refused_entry WHERE settled_at IS NULL)
            """
        )
        return int(cursor.fetchone()[0])


def newest(limit: int) -> dict[str, bool]:
    """The keys of the newest; True: dead for long enough for its letter to be there."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT key, at < statement_timestamp() - make_interval(secs => %s) FROM (
                SELECT id::text AS key, dead_at AS at FROM jobs_outbox
                WHERE dead_at IS NOT NULL AND discarded_at IS NULL
                UNION ALL
                SELECT entry_id, refused_at FROM jobs_refused_entry WHERE settled_at IS NULL
            ) AS dead ORDER BY at DESC LIMIT %s
            """,
            [settings.JOBS["RECONCILE_AFTER"], limit],
        )
        return dict(cursor.fetchall())


def note_letter(key: str, letter_id: str, *, deliveries: int = 0, again: bool = False) -> bool:
    """Write down which letter is of `key`, for the one who settles it to take away.

    False where nothing dead goes by that key any more, or, unless `again`, it has a letter.
    """
    dead = (
        RefusedEntry.objects.filter(entry_id=key, settled_at=None)
        if "-" in key
        else OutboxRow.objects.dead().filter(pk=key)
    )
    without = dead if again else dead.filter(letter_id="")
    if deliveries:
        return without.update(letter_id=letter_id, deliveries=deliveries) > 0
    return without.update(letter_id=letter_id) > 0


@contextlib.contextmanager
def alone() -> Iterator[bool]:
    """Whether no other process is at this now; it saves work, and protects nothing."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LETTERS_LOCK])
        [alone] = cursor.fetchone()
        try:
            yield alone
        finally:
            if alone:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [LETTERS_LOCK])


def letter_of(key: str) -> Letter | None:
    """The letter of what is dead under `key`; None where nothing is any more."""
    return _of_refused(key) if "-" in key else _of_row(int(key))


def _of_row(outbox_id: int) -> Letter | None:
    row = OutboxRow.objects.dead().filter(pk=outbox_id).first()
    if row is None:
        return None
    named = {"kind": row.kind, **(row.args if isinstance(row.args, dict) else {})}
    named |= {"outbox_id": row.pk, "request_id": row.request_id, "trace": row.trace}
    about = {
        "error": row.last_error or row.dead_reason,
        "traceback": row.traceback,
        "failed_at": _when(row.dead_at),
        "attempts": str(row.attempts),
        "deliveries": str(row.deliveries),
        "worker": row.dead_by,
        "entry_id": "",
        "row": str(row.pk),
    }
    fields = [(name.encode(), str(value).encode()) for name, value in named.items()]
    return Letter(fields, about)


def _of_refused(entry_id: str) -> Letter | None:
    entry = RefusedEntry.objects.filter(entry_id=entry_id, settled_at=None).first()
    if entry is None:
        return None
    raw = [bytes(part) for part in entry.raw]
    about = {
        "error": entry.reason,
        "traceback": "",
        "failed_at": _when(entry.refused_at),
        "attempts": "0",
        "deliveries": str(entry.deliveries),
        "worker": entry.worker,
        "entry_id": entry_id,
        "row": "",
    }
    return Letter(list(zip(raw[::2], raw[1::2], strict=True)), about)


def _when(moment: datetime | None) -> str:
    return moment.isoformat(timespec="milliseconds") if moment else ""
