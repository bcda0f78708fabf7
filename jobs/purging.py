"""Takes away what its time is over for: small batches, each a transaction of its own (T15).

What is cut between two of them is taken up by the next run: to delete is to reach a state.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from .failpoint import failpoint
from .shelves import Shelf

LOCK_WAIT = "200ms"
"""A row that somebody works with is worth no wait: its batch is tried again later."""

SEEN = """
    SELECT {key} AS key, {born} AS born FROM {table}
    WHERE {key} > %(after)s AND {open} ORDER BY {key} LIMIT %(size)s
"""
OFFER = "SELECT key FROM ({seen}) AS seen WHERE born < %(until)s"
TAKE = """
WITH seen AS ({seen}), gone AS ({act} RETURNING 1)
SELECT max(key), count(*) FILTER (WHERE born < %(until)s), (SELECT count(*) FROM gone) FROM seen
"""
DELETE = """
DELETE FROM {table} AS row USING seen
WHERE row.{key} = seen.key AND seen.born < %(until)s AND ({past})
"""
CHANGE = """
UPDATE {table} AS row SET {change} FROM seen
WHERE row.{key} = seen.key AND seen.born < %(until)s AND ({past})
"""
NOTE = """
INSERT INTO jobs_purge (shelf, until, rows, at) VALUES (%s, %s, %s, now())
ON CONFLICT (shelf) DO UPDATE SET until = greatest(jobs_purge.until, excluded.until),
    rows = jobs_purge.rows + excluded.rows, at = now()
"""


@dataclass(frozen=True, slots=True)
class Batch:
    """`last`: the greatest key that was looked at; None: nothing behind it is old enough."""

    last: int | None
    rows: int


def until_of(shelf: Shelf, now: datetime) -> datetime:
    """What of the shelf is older than this may go."""
    return now - timedelta(days=shelf.days())


def sweep(shelf: Shelf, after: int, now: datetime) -> int | None:
    """Batch after batch from the key `after` on, see `in_steps`. Raises a database error: what was
    committed stays."""

    def step(last: int) -> int | None:
        batch = take(shelf, last, until_of(shelf, now))
        failpoint("purging.committed")
        return batch.last

    return in_steps(step, after)


def in_steps(step: Callable[[int], int | None], start: int) -> int | None:
    """`step` from `start` on, each from where the one before says, for PURGE_SECONDS; where to go
    on, None where it is done."""
    ends = time.monotonic() + settings.JOBS["PURGE_SECONDS"]
    place: int | None = start
    while place is not None:
        place = step(place)
        if time.monotonic() >= ends:
            break
    return place


def take(shelf: Shelf, after: int, until: datetime) -> Batch:
    """T15: one batch of what is older than `until`, and word of it for the audit."""
    size = min(settings.JOBS["PURGE_BATCH"], shelf.most or math.inf)
    names: dict[str, Any] = {"after": after, "until": until, "size": size}
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_WAIT}'")
        if shelf.choose is not None:
            cursor.execute(_filled(OFFER, shelf), names)
            names["chosen"] = shelf.choose([key for (key,) in cursor.fetchall()], until)
        # A statement of its own: it sees what was committed before those rows were chosen.
        cursor.execute(_filled(TAKE, shelf), names)
        last, old, gone = cursor.fetchone()
        cursor.execute(NOTE, [shelf.name, until, gone])
    return Batch(last if old else None, gone)


def _filled(sql: str, shelf: Shelf) -> str:
    chosen = f" AND row.{shelf.key} = ANY(%(chosen)s)" if shelf.choose else ""
    parts = {
        "table": shelf.table, "key": shelf.key, "open": shelf.open, "past": shelf.past + chosen,
        "change": shelf.change, "born": shelf.born or "'-infinity'::timestamptz",
    }  # fmt: skip
    act = (CHANGE if shelf.change else DELETE).format(**parts)
    return sql.format(seen=SEEN.format(**parts), act=act)


def beyond_retention(created_at: datetime) -> bool:
    """Whether what a job of that age may have done is not known any more."""
    return created_at < retained_since()


def retained_since() -> datetime:
    """What jobs that were created earlier may have done is not known any more."""
    return timezone.now() - timedelta(days=settings.JOBS["RETENTION_DAYS"])
