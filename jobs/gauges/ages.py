"""Since when the oldest job of each reason waits, by PostgreSQL's clock: a few index look-ups."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from jobs.holds import Hold
from jobs.models import KindHold
from jobs.registry import Lane

OLDEST = """
SELECT due_at FROM jobs_outbox
WHERE dead_at IS NULL AND due_at <= statement_timestamp() AND lane = %s
    AND available_at <= statement_timestamp() AND kind <> ALL(%s)
ORDER BY due_at LIMIT 1
"""
"""Down the index of ages, over the rows that are parked."""
# FILTER on purpose: a bare min() would be sought down the index of ages, which holds every live
# row, where the index of what no relay has taken holds a few.
BULK = """
SELECT min(due_at) FILTER (WHERE kind <> ALL(%s)) FROM jobs_outbox
WHERE relayed_at IS NULL AND dead_at IS NULL AND lane = %s
    AND available_at <= statement_timestamp()
"""
NOT_RELAYED = """
SELECT available_at FROM jobs_outbox
WHERE relayed_at IS NULL AND dead_at IS NULL AND lane = %s
    AND available_at <= statement_timestamp() AND kind <> ALL(%s)
ORDER BY available_at, id LIMIT 1
"""
RETRY_WAIT = """
SELECT min(due_at) FILTER (WHERE due_at <= statement_timestamp()) FROM jobs_outbox
WHERE relayed_at IS NULL AND dead_at IS NULL AND lane = ANY(%s)
    AND available_at > statement_timestamp()
"""
HELD = """
SELECT min(due_at) FILTER (WHERE kind = ANY(%s)) FROM jobs_outbox
WHERE relayed_at IS NULL AND dead_at IS NULL AND lane = ANY(%s)
    AND available_at <= statement_timestamp()
"""
AGES = "SELECT extract(epoch FROM statement_timestamp())::float8" + "".join(  # noqa: S608
    f", extract(epoch FROM ({one}))::float8"
    for one in (OLDEST, BULK, NOT_RELAYED, RETRY_WAIT, HELD, HELD)
)
"""One statement, so that all are of one moment."""


@dataclass(frozen=True, slots=True)
class Ages:
    """Times in seconds since 1970 by PostgreSQL's clock, `now`; None where there is no such job.

    `tickets`: when the oldest live job of the lane was due, of those that are not parked and that
    no person holds; `bulk`: the same of those that wait for their turn. `not_relayed`: since when
    a ticket's row waits for a relay. `retry_wait`, `held`, `paused`: when the oldest job was due of
    those that wait for their next try, whose kind the breaker holds, whose kind a person holds.
    """

    now: float
    tickets: float | None
    bulk: float | None
    not_relayed: float | None
    retry_wait: float | None
    held: float | None
    paused: float | None


def read_ages(held: Sequence[Hold]) -> Ages:
    """`held` is `holds.in_force()`. Raises a database error."""
    by_breaker = [hold.kind for hold in held if hold.by == KindHold.BREAKER]
    # What a person holds is late on purpose; what the breaker holds is late.
    by_person = [hold.kind for hold in held if hold.by != KindHold.BREAKER]
    lanes = [str(lane) for lane in Lane]
    values: list[Any] = [
        Lane.TICKETS, by_person, by_person, Lane.BULK, Lane.TICKETS, by_breaker + by_person,
        lanes, by_breaker, lanes, by_person, lanes,
    ]  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(AGES, values)
        return Ages(*cursor.fetchone())
