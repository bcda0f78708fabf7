"""Jobs a second of relay and worker beside the same commits by bare psycopg on 8 connections."""

import contextlib
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg
from django.db import transaction
from django.utils import timezone

from jobs import processes
from jobs.models import OutboxRow

from .abba import alternate
from .handlers import INSERT, TABLE
from .place import Place, wait_until
from .report import Result, Series, quotients

SLOTS = 8
JOBS_PER_SECOND = 700
"""Jobs run for each second asked for, of each side in each round."""
PRODUCT, BARE = "relay and worker", "bare psycopg"

MOVE = """
WITH moved AS (
    DELETE FROM jobs_outbox WHERE id = %s AND kind = %s AND args = %s::jsonb AND request_id = %s
    RETURNING id, kind, args, subject, request_id, trace, created_at, due_at, attempts
)
INSERT INTO jobs_processed (outbox_id, kind, args, subject, request_id, trace,
    created_at, due_at, attempts, processed_at, worker, duration_ms, result)
SELECT moved.*, clock_timestamp(), 'bare', 0, 'done' FROM moved
"""
RATE = """
SELECT count(*) / extract(epoch FROM max(processed_at) - %s::timestamptz)::float8
FROM jobs_processed JOIN bench_row USING (outbox_id)
"""


def measure(place: Place, rounds: int, seconds: float) -> list[Result]:
    """A relay and one worker stand ready all the time; each side starts from empty tables."""
    number = max(100, int(seconds * JOBS_PER_SECOND))
    worker = ("runworker", "--name", "bench", "--slots", str(SLOTS), "--render-processes", "0")
    url = place.postgres.url("stagedoor")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLE)
        _empty(connection)
        with place.command("relay"), place.command(*worker):
            wait_until(lambda: processes.alive("worker") > 0, "worker")
            sides = {
                PRODUCT: partial(_one_side, connection, number, _by_product),
                BARE: partial(_one_side, connection, number, partial(_by_psycopg, url)),
            }
            _one_side(connection, 200, _by_product)  # warm
            found = alternate(sides, rounds)
    return [_result(found, number)]


def _one_side(
    connection: psycopg.Connection, number: int, run: Callable[[psycopg.Connection, int], str]
) -> float:
    _empty(connection)
    started = run(connection, number)
    # Both sides leave a processed row and a row of the handler's for every job, and no other.
    left = connection.execute("SELECT count(*) FROM jobs_outbox").fetchone()
    done = connection.execute(
        "SELECT count(*) FROM jobs_processed JOIN bench_row USING (outbox_id)"
    ).fetchone()
    if left != (0,) or done != (number,):
        raise RuntimeError(f"{done} of {number} jobs are done, {left} are left")
    rate = connection.execute(RATE, [started]).fetchone()
    assert rate is not None
    return float(rate[0])


def _empty(connection: psycopg.Connection) -> None:
    connection.execute("TRUNCATE jobs_outbox, jobs_processed, bench_row")
    connection.execute("CHECKPOINT")


def _now(connection: psycopg.Connection) -> str:
    row = connection.execute("SELECT clock_timestamp()::text").fetchone()
    assert row is not None
    return str(row[0])


def _rows(number: int, relayed: bool = False) -> list[OutboxRow]:
    return [
        OutboxRow(
            kind="bench_row", args={"number": one}, subject=f"bench:{one}",
            request_id=f"{one:016x}", trace=f"{one:032x}-{one:016x}",
            relayed_at=timezone.now() if relayed else None, entry_id="0-1" if relayed else None,
        )
        for one in range(number)
    ]  # fmt: skip


def _by_product(connection: psycopg.Connection, number: int) -> str:
    """Due all at once in one commit; the clock runs from there, the relay's work included."""
    with transaction.atomic(durable=True):
        OutboxRow.objects.bulk_create(_rows(number), batch_size=1000)
        started = _now(connection)
    connection.execute("NOTIFY jobs_outbox")
    wait_until(lambda: _done(connection) >= number, "jobs", seconds=60 + number / 50)
    return started


def _done(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT count(*) FROM bench_row").fetchone()
    assert row is not None
    return int(row[0])


def _by_psycopg(url: str, connection: psycopg.Connection, number: int) -> str:
    """8 threads with a connection each; the rows are marked as relayed, so no relay takes them."""
    rows = OutboxRow.objects.bulk_create(_rows(number, relayed=True), batch_size=1000)
    work = iter([(row.pk, row.kind, json.dumps(row.args), row.request_id) for row in rows])
    one_at_a_time = threading.Lock()

    def take() -> tuple[int, str, str, str] | None:
        with one_at_a_time:
            return next(work, None)

    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(psycopg.connect(url)) for _ in range(SLOTS)]
        slots = stack.enter_context(ThreadPoolExecutor(SLOTS))
        started = _now(connection)
        list(slots.map(partial(_work_off, take), connections))
    return started


def _work_off(
    take: Callable[[], tuple[int, str, str, str] | None], connection: psycopg.Connection
) -> None:
    while job := take():
        with connection.transaction():
            connection.execute(MOVE, job)
            connection.execute(INSERT, [job[0], json.loads(job[2])["number"]])


def _result(found: dict[str, list[float]], number: int) -> Result:
    how = f"{number} jobs that write one row each, {SLOTS} slots or connections, one process"
    ratio = Series(
        name=f"{PRODUCT} / {BARE}", rounds=quotients(found[PRODUCT], found[BARE]), least=0.3
    )
    figures = [Series(name=name, rounds=rounds, unit="/s") for name, rounds in found.items()]
    return Result(name="jobs", how=how, ratios=[ratio], figures=figures)
