"""How many: outbox rows by kind and state, processes by role, refused entries."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import connection

from jobs.holds import Hold
from jobs.registry import all_kinds

STATES = ("due", "held", "retry_wait", "scheduled", "relayed", "dead", "discarded")
"""A row is in one of them. Due: a relay should publish it. Scheduled: its time is still to come."""
ROLES = ("worker", "relay", "scheduler")
ROWS = """
SELECT kind, CASE
    WHEN discarded_at IS NOT NULL THEN 'discarded'
    WHEN dead_at IS NOT NULL THEN 'dead'
    WHEN relayed_at IS NOT NULL THEN 'relayed'
    WHEN due_at > statement_timestamp() THEN 'scheduled'
    WHEN available_at > statement_timestamp() THEN 'retry_wait'
    ELSE 'due' END AS state, count(*)
FROM jobs_outbox GROUP BY 1, 2
"""
"""Grows with what is not done, not with what was: about 1 ms for 1,000 rows (`make bench`)."""
PROCESSES = """
SELECT role, count(*) FROM jobs_process
WHERE seen_at > statement_timestamp() - make_interval(secs => %s) GROUP BY role
"""
REFUSED = "SELECT count(*) FROM jobs_refused_entry WHERE settled_at IS NULL"


@dataclass(frozen=True, slots=True)
class Counts:
    """`rows`: by (kind, state), 0 for each kind that this build knows. `processes`: by role, seen
    within three heartbeats. `refused`: entries without a row that nobody has settled.
    """

    rows: dict[tuple[str, str], int]
    processes: dict[str, int]
    refused: int


def read_counts(held: Sequence[Hold]) -> Counts:
    """`held` is `holds.in_force()`. Raises a database error."""
    with connection.cursor() as cursor:
        cursor.execute(ROWS)
        rows = cursor.fetchall()
        cursor.execute(PROCESSES, [3 * settings.JOBS["HEARTBEAT"]])
        processes = dict(cursor.fetchall())
        cursor.execute(REFUSED)
        [refused] = cursor.fetchone()
    alive = {**dict.fromkeys(ROLES, 0), **processes}
    return Counts(_by_kind_and_state(rows, {hold.kind for hold in held}), alive, refused)


def _by_kind_and_state(
    rows: Sequence[tuple[str, str, int]], held: set[str]
) -> dict[tuple[str, str], int]:
    kinds = {kind.name for kind in all_kinds()} | {kind for kind, _, _ in rows}
    counted = Counter({(kind, state): 0 for kind in sorted(kinds) for state in STATES})
    for kind, state, number in rows:
        counted[kind, "held" if state == "due" and kind in held else state] += number
    return dict(counted)
