"""How many: outbox rows by kind and state, processes by role, refused entries."""

from collections import Counter
from dataclasses import dataclass

from django.conf import settings
from django.db import connection

from jobs.registry import all_kinds
from jobs.tally import State, Tally

ROLES = ("worker", "relay", "scheduler")
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


def read_counts(tally: Tally) -> Counts:
    """Raises a database error."""
    with connection.cursor() as cursor:
        cursor.execute(PROCESSES, [3 * settings.JOBS["HEARTBEAT"]])
        processes = dict(cursor.fetchall())
        cursor.execute(REFUSED)
        [refused] = cursor.fetchone()
    alive = {**dict.fromkeys(ROLES, 0), **processes}
    return Counts(_by_kind_and_state(tally), alive, refused)


def _by_kind_and_state(tally: Tally) -> dict[tuple[str, str], int]:
    kinds = {kind.name for kind in all_kinds()} | {rows.kind for rows in tally.rows}
    counted = Counter({(kind, str(state)): 0 for kind in sorted(kinds) for state in State})
    for rows in tally.rows:
        counted[rows.kind, rows.state] += rows.number
    return dict(counted)
