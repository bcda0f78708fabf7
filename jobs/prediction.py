"""One look at the queue for predictions: what is due, what jobs cost lately, who works."""

import math
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from django.conf import settings
from django.db import connection

from . import holds, registry
from .capacity import Cost, Fleet
from .holds import Hold
from .outlook import Outlook, Queued
from .registry import Lane
from .tally import State, Tally

LINE = """
SELECT kind, lane, min(due_at), count(*) FROM jobs_outbox
WHERE dead_at IS NULL AND due_at <= statement_timestamp()
    AND available_at <= statement_timestamp()
GROUP BY kind, lane, date_bin('10 s', due_at, 'epoch')
"""
"""Of jobs that came due within the same 10 s it is the same who comes first."""
FLEET = """
SELECT statement_timestamp(), coalesce(array_agg(slots), '{}') FROM jobs_process
WHERE role = 'worker' AND seen_at > statement_timestamp() - make_interval(secs => %s)
"""
COSTS = """
SELECT kind, avg(duration_ms)::float8 / 1000
FROM (SELECT kind, duration_ms FROM jobs_processed ORDER BY outbox_id DESC LIMIT %s) AS newest
GROUP BY kind
"""
JOB = """
SELECT due_at FROM jobs_outbox
WHERE subject = %s AND kind = %s AND dead_at IS NULL AND available_at <= statement_timestamp()
ORDER BY id LIMIT 1
"""
NEWEST = 5_000
"""Processed rows whose mean counts, by the primary key: a night's, as long as it is young."""
OVERHEAD = 0.008
"""Seconds in a slot beside the handler: 8 slots do 1,037 jobs/s that do nothing
(`benchmarks/results/jobs.json`)."""


def outlook() -> Outlook:
    """The queue as it is. Raises a database error.

    Costs are as the newest jobs had them: a wait for a core is in them, and is so foreseen.
    """
    with connection.cursor() as cursor:
        cursor.execute(LINE)
        line = [Queued(due, kind, n, lane == Lane.BULK) for kind, lane, due, n in cursor.fetchall()]
    return _outlook(line, holds.in_force())


def drain(tally: Tally, held: Sequence[Hold]) -> Outlook:
    """The same of a count: enough for when all is done, not for who comes before whom."""
    due = tally.of(State.DUE, State.HELD, State.RELAYED)
    line = [
        Queued(datetime.fromtimestamp(one.due_at, UTC), one.kind, one.number, one.lane == Lane.BULK)
        for one in due
    ]
    return _outlook(line, held)


def drained_at(tally: Tally, held: Sequence[Hold]) -> float:
    """When all that is due will be done, in seconds since 1970; infinite: never, as things are."""
    at = drain(tally, held).drained_at()
    return math.inf if at is None else at.timestamp()


def _outlook(line: Sequence[Queued], held: Sequence[Hold]) -> Outlook:
    until = {hold.kind: hold.until for hold in held}
    services = {kind.name: kind.outside for kind in registry.all_kinds()}
    with connection.cursor() as cursor:
        cursor.execute(FLEET, [3 * settings.JOBS["HEARTBEAT"]])
        now, slots = cursor.fetchone()
        cursor.execute(COSTS, [NEWEST])
        costs = {
            kind: Cost(seconds + OVERHEAD, service=services.get(kind, ""))
            for kind, seconds in cursor.fetchall()
        }
    return Outlook(
        at=now,
        queued=[one for one in line if one.kind not in until],
        costs=costs,
        fleet=Fleet.of(slots),
        then={kind.name: kind.then for kind in registry.all_kinds() if kind.then},
        held={one.kind: until[one.kind] for one in line if one.kind in until},
    )


def seconds_left(subject: str, kind: str) -> float | None:
    """Until the job of `kind` about `subject` is done, as far as can be foreseen; None: it cannot.

    It cannot where there is none, where it failed and waits, where its kind is held, and where
    nobody works.
    """
    with connection.cursor() as cursor:
        cursor.execute(JOB, [subject, kind])
        found = cursor.fetchone()
    now = lately() if found else None
    seconds = now.seconds_until_done(kind, found[0]) if now else math.inf
    return seconds if seconds < math.inf else None


class Lately:
    """The outlook for pages that many ask for at once: of one look for some seconds of all.

    Whoever comes while another looks is given the last one.
    """

    def __init__(self) -> None:
        self._looking = threading.Lock()
        self._last: Outlook | None = None
        self._until = 0.0

    def outlook(self) -> Outlook | None:
        """At most `JOBS_OUTLOOK` seconds old; None where nobody has looked yet."""
        if time.monotonic() >= self._until and self._looking.acquire(blocking=False):
            try:
                self._last = outlook()
                self._until = time.monotonic() + settings.JOBS["OUTLOOK"]
            finally:
                self._looking.release()
        return self._last


lately = Lately().outlook
