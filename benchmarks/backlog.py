"""Jobs that are due all at once: how they come into the outbox, and how fast they are done."""

from typing import LiteralString

import psycopg

from .loop import BareJob, bare_loop
from .place import wait_until
from .tables import ROW

FILL = """
INSERT INTO jobs_outbox (kind, args, subject, lane, request_id, trace, relayed_at, entry_id,
    last_error, dead_reason, traceback, dead_by)
SELECT %(kind)s, jsonb_build_object('number', number), 'order:' || (10000000 + number), 'tickets',
    lpad(to_hex(number), 16, '0'), lpad(to_hex(number), 32, '0') || '-0000000000000001',
    %(relayed)s::timestamptz, %(entry)s::text, '', '', '', ''
FROM generate_series(1, %(number)s) AS number
RETURNING id, kind, args::text, request_id
"""
DONE = "SELECT count(*) FROM jobs_processed WHERE outbox_id > %s"
WITH_ROW = "SELECT count(*) FROM jobs_processed JOIN bench_row USING (outbox_id)"
RATE = """
SELECT count(*) / extract(epoch FROM max(processed_at) - %s::timestamptz)::float8
FROM jobs_processed WHERE outbox_id > %s
"""


def fill(
    connection: psycopg.Connection, kind: str, number: int, *, relayed: bool = False
) -> list[BareJob]:
    """`number` outbox rows. Those that are marked as relayed no relay takes, and bare loops may."""
    marks = {"relayed": "now" if relayed else None, "entry": "0-1" if relayed else None}
    return connection.execute(FILL, {"kind": kind, "number": number, **marks}).fetchall()


def by_product(connection: psycopg.Connection, kind: str, number: int) -> float:
    """Jobs a second; the clock runs from the one commit of them all, the relay's work included."""
    last = start_over(connection)
    with connection.transaction():
        fill(connection, kind, number)
        started = _now(connection)
    connection.execute("NOTIFY jobs_outbox")
    wait_done(connection, last, number)
    return _rate(connection, kind, number, last, started)


def by_psycopg(url: str, connection: psycopg.Connection, kind: str, number: int) -> float:
    """Jobs a second of the bare loop, which has them in its memory when the clock starts."""
    last = start_over(connection)
    jobs = fill(connection, kind, number, relayed=True)
    with bare_loop(url) as work_off:
        started = _now(connection)
        work_off(jobs)
    return _rate(connection, kind, number, last, started)


def start_over(connection: psycopg.Connection) -> int:
    """Empty the outbox and the handlers' rows; returns the id after which new jobs come."""
    connection.execute("TRUNCATE jobs_outbox, bench_row")
    connection.execute("CHECKPOINT")
    return _number(connection, "SELECT coalesce(max(outbox_id), 0) FROM jobs_processed")


def wait_done(connection: psycopg.Connection, last: int, number: int) -> None:
    """Return once `number` jobs after the id `last` are processed."""
    wait_until(lambda: _number(connection, DONE, last) >= number, "jobs", seconds=60 + number / 50)


def _rate(connection: psycopg.Connection, kind: str, number: int, last: int, started: str) -> float:
    # Every side leaves a processed row, and a row of the handler's, for every job and no other.
    left = _number(connection, "SELECT count(*) FROM jobs_outbox")
    done = _number(connection, DONE, last)
    rows = _number(connection, WITH_ROW)
    if (left, done, rows) != (0, number, number if kind == ROW else 0):
        raise RuntimeError(f"{done} of {number} jobs are done with {rows} rows, {left} are left")
    rate = connection.execute(RATE, [started, last]).fetchone()
    assert rate is not None
    return float(rate[0])


def _number(connection: psycopg.Connection, query: LiteralString, *values: int) -> int:
    row = connection.execute(query, values).fetchone()
    assert row is not None
    return int(row[0])


def _now(connection: psycopg.Connection) -> str:
    row = connection.execute("SELECT clock_timestamp()::text").fetchone()
    assert row is not None
    return str(row[0])
