"""PostgreSQL: its version, its clock, and what its processed rows say of the lease."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db import connection

from .clocks import seconds_ahead
from .finding import Finding, Level

POSTGRES_LEAST = 15
LEASE_RENDERS = 5
"""How many times the P95 of a kind's runs the lease should be."""
NEWEST, NEWEST_OF_KIND = 20_000, 1_000
"""Processed rows that are looked at, in all and of each kind."""
P95 = """
SELECT percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms) / 1000 AS seconds, kind
FROM (
    SELECT kind, duration_ms, row_number() OVER (PARTITION BY kind ORDER BY outbox_id DESC) AS place
    FROM (SELECT * FROM jobs_processed ORDER BY outbox_id DESC LIMIT %s) AS newest
) AS numbered
WHERE place <= %s GROUP BY kind ORDER BY seconds DESC
"""
"""Without an index on the kind: by the primary key, and never through the whole table."""


def database(ahead: dict[str, float]) -> Iterator[Finding]:
    """Every finding about it; notes in `ahead` how its clock goes. Raises a database error."""
    # Before the clock is read: the first question waits for the connection.
    yield version(int(_one("SHOW server_version_num")))
    ahead["PostgreSQL"] = seconds_ahead(_clock)
    yield _lease()


def _clock() -> float:
    return float(_one("SELECT extract(epoch FROM clock_timestamp())::float8"))


def _one(statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


def version(number: int) -> Finding:
    """Of PostgreSQL's own number, e.g. 180001."""
    name = f"PostgreSQL {number // 10_000}.{number % 10_000}"
    if number // 10_000 >= POSTGRES_LEAST:
        return Finding(Level.OK, name)
    return Finding(
        Level.WRONG, f"{name} is too old", f"Use PostgreSQL {POSTGRES_LEAST} or later."
    )  # fmt: skip


def _lease() -> Finding:
    with connection.cursor() as cursor:
        cursor.execute(P95, [NEWEST, NEWEST_OF_KIND])
        slowest = cursor.fetchone()
    lease = settings.JOBS["LEASE"]
    if slowest is None:
        return Finding(Level.OK, f"a lease of {lease:g} s; no job was processed yet")
    seconds, kind = slowest
    what = f"a lease of {lease:g} s, and 95 % of {kind}, the slowest kind, take {seconds:.2g} s"
    if lease >= LEASE_RENDERS * seconds:
        return Finding(Level.OK, what)
    return Finding(
        Level.WARNING,
        f"{what}: less than {LEASE_RENDERS} times that, a worker that renews late is robbed",
        f"Set JOBS_LEASE to {LEASE_RENDERS * seconds:.0f} s or more, or see why it takes so long.",
    )
