"""How many jobs are not done, by kind, lane and state, and since when: one scan of the outbox.

It grows with what is not done, to some 20 ms for 80,000 rows. So a relay, which has to count
every second, keeps a large count for whoever asks.
"""

import enum
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from django.db import connection

LARGE = 5_000
"""Rows from which on a count is kept; fewer are counted in 2 ms."""
KEPT = 10.0
"""Seconds for which a kept count is good. Relays count every second, or after BACKOFF_MAX: where
none is younger, none of them counts any more."""
COUNT = """
SELECT extract(epoch FROM statement_timestamp())::float8, coalesce(jsonb_agg(jsonb_build_array(
    kind, lane, CASE
        WHEN discarded THEN 'discarded'
        WHEN dead THEN 'dead'
        WHEN relayed THEN 'relayed'
        WHEN scheduled THEN 'scheduled'
        WHEN parked THEN 'retry_wait'
        ELSE 'due' END,
    number, extract(epoch FROM due), extract(epoch FROM available))), '[]')::text,
    EXISTS (SELECT FROM jobs_tally)
FROM (
    SELECT kind, lane, discarded_at IS NOT NULL AS discarded, dead_at IS NOT NULL AS dead,
        relayed_at IS NOT NULL AS relayed, due_at > statement_timestamp() AS scheduled,
        available_at > statement_timestamp() AS parked,
        count(*) AS number, min(due_at) AS due, min(available_at) AS available
    FROM jobs_outbox GROUP BY 1, 2, 3, 4, 5, 6, 7
) AS counted
"""
"""One statement: a row that moves on in between would be counted twice, or not at all. By facts,
not by their CASE: PostgreSQL would expect as many groups as rows, and sort them (4 times as long).
"""
KEEP = """
INSERT INTO jobs_tally (id, at, rows) VALUES (1, to_timestamp(%s), %s)
ON CONFLICT (id) DO UPDATE SET at = excluded.at, rows = excluded.rows
"""
LATELY = """
SELECT extract(epoch FROM statement_timestamp())::float8, rows::text FROM jobs_tally
WHERE at BETWEEN statement_timestamp() - make_interval(secs => %s) AND statement_timestamp()
"""
"""Not one of the future: a clock that is set back would keep it for as long."""


class State(enum.StrEnum):
    """Where an outbox row stands: in one of these.

    Due: a relay should publish it. Held: due, and kept back with its kind. Scheduled: its time is
    still to come.
    """

    DUE = "due"
    HELD = "held"
    RETRY_WAIT = "retry_wait"
    SCHEDULED = "scheduled"
    RELAYED = "relayed"
    DEAD = "dead"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True)
class Rows:
    """Some outbox rows of one kind, lane and state: how many, and the earliest of their times, in
    seconds since 1970 by PostgreSQL's clock.
    """

    kind: str
    lane: str
    state: str
    number: int
    due_at: float
    available_at: float


@dataclass(frozen=True, slots=True)
class Tally:
    """`now`: when somebody asked, by PostgreSQL's clock; `rows` are KEPT seconds older at most."""

    now: float
    rows: Sequence[Rows]

    def with_holds(self, kinds: Collection[str]) -> "Tally":
        """The same, where these kinds are held."""
        rows = (
            replace(one, state=State.HELD) if one.state == State.DUE and one.kind in kinds else one
            for one in self.rows
        )
        return replace(self, rows=list(rows))

    def of(self, *states: State) -> Iterator[Rows]:
        """Those in one of these states."""
        return (rows for rows in self.rows if rows.state in states)

    def number(self, *states: State) -> int:
        """How many are in one of these states."""
        return sum(rows.number for rows in self.of(*states))


def count() -> Tally:
    """As it is now. Raises a database error."""
    with connection.cursor() as cursor:
        cursor.execute(COUNT)
        now, rows, _ = cursor.fetchone()
    return _tally(now, rows)


def count_and_keep() -> Tally:
    """The same for a relay, which does so every second: others need not count many rows again.

    A count that has become small is not kept, nor the large one before it: it would hide for KEPT
    seconds that all is done.
    """
    with connection.cursor() as cursor:
        cursor.execute(COUNT)
        now, rows, kept = cursor.fetchone()
        counted = _tally(now, rows)
        if counted.number(*State) >= LARGE:
            cursor.execute(KEEP, [now, rows])
        elif kept:
            cursor.execute("DELETE FROM jobs_tally")
    return counted


def lately() -> Tally:
    """What a relay has kept, or as it is now where there is no such. Raises a database error."""
    with connection.cursor() as cursor:
        cursor.execute(LATELY, [KEPT])
        found = cursor.fetchone()
    return _tally(*found) if found else count()


def _tally(now: float, rows: str) -> Tally:
    return Tally(now, [Rows(*one) for one in json.loads(rows)])
