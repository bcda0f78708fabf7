"""One look at the queue for predictions: what is due, what jobs cost lately, who works."""

import math
import threading
import time

from django.conf import settings
from django.db import connection

from . import registry
from .capacity import Cost, Fleet
from .models import KindHold
from .outlook import Outlook, Queued
from .registry import Lane

LINE = """
SELECT kind, min(due_at), count(*), lane = %(bulk)s, max(held_until)
FROM (
    SELECT kind, due_at, lane, CASE
        WHEN until > statement_timestamp() OR by = %(breaker)s THEN until END AS held_until
    FROM jobs_outbox LEFT JOIN jobs_kind_hold USING (kind)
    WHERE dead_at IS NULL AND due_at <= statement_timestamp()
        AND available_at <= statement_timestamp()
) AS due
GROUP BY kind, lane, floor(extract(epoch FROM due_at) / 10), held_until IS NULL
"""
"""Of jobs that came due within the same 10 s it is the same who comes first."""
FLEET = """
SELECT statement_timestamp(), coalesce(sum(slots), 0) FROM jobs_process
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
        cursor.execute(FLEET, [3 * settings.JOBS["HEARTBEAT"]])
        now, slots = cursor.fetchone()
        cursor.execute(LINE, {"bulk": Lane.BULK, "breaker": KindHold.BREAKER})
        line = cursor.fetchall()
        cursor.execute(COSTS, [NEWEST])
        costs = {kind: Cost(seconds + OVERHEAD) for kind, seconds in cursor.fetchall()}
    return Outlook(
        at=now,
        queued=[
            Queued(due, kind, number, bulk) for kind, due, number, bulk, held in line
            if held is None
        ],
        costs=costs,
        fleet=Fleet(int(slots)),
        then={kind.name: kind.then for kind in registry.all_kinds() if kind.then},
        held={kind: held for kind, *_, held in line if held is not None},
    )  # fmt: skip


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
