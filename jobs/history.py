"""What past nights were like, from the processed rows. Knows no sale, only kinds."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby

from django.db import connection

NIGHTS = """
SELECT (processed_at - interval '12 hours')::date AS night, kind, count(*),
    avg(duration_ms)::float8 / 1000,
    extract(epoch FROM percentile_cont(0.95) WITHIN GROUP (ORDER BY processed_at - due_at))::float8
FROM jobs_processed WHERE processed_at > statement_timestamp() - make_interval(days => %s)
GROUP BY night, kind ORDER BY night DESC, kind
"""
"""A night is from noon to noon, UTC: midnight does not cut it."""
BUSIEST = """
SELECT night, max(number) FROM (
    SELECT (processed_at - interval '12 hours')::date AS night, count(*) AS number
    FROM jobs_processed
    WHERE kind = %s AND processed_at > statement_timestamp() - make_interval(days => %s)
    GROUP BY night, date_trunc('minute', due_at)
) AS minutes GROUP BY night
"""


@dataclass(frozen=True, slots=True)
class KindThen:
    """Of one kind in one night: how many, their mean seconds, and within how many seconds of
    being due 95 % were done."""

    kind: str
    number: int
    seconds: float
    within: float


@dataclass(frozen=True, slots=True)
class Night:
    """`busiest`: how many jobs of the kind that was asked for came due in one minute, at most."""

    date: date
    kinds: Sequence[KindThen]
    busiest: int

    def of(self, kind: str) -> KindThen | None:
        """What was done of `kind`."""
        return next((one for one in self.kinds if one.kind == kind), None)


def nights(kind: str, days: int) -> list[Night]:
    """Those of the last days with jobs of `kind`, the newest first. Raises a database error."""
    with connection.cursor() as cursor:
        cursor.execute(NIGHTS, [days])
        rows = cursor.fetchall()
        cursor.execute(BUSIEST, [kind, days])
        busiest = dict(cursor.fetchall())
    found = groupby(rows, key=lambda row: row[0])
    return [
        Night(night, [KindThen(*row[1:]) for row in kinds], busiest[night])
        for night, kinds in found
        if night in busiest
    ]
