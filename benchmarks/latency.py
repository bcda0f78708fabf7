"""From commit to handler start, 50 jobs a second, beside the bare way of the same news.

A handler's start is noted by the handler, a commit's end by who commits, both by the machine's
clock. Both ways are idle while the other is measured.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import psycopg
from django.db import transaction

from jobs.outbox import enqueue

from .abba import alternate
from .backlog import fill
from .courier import CHANNEL, GROUP, NAME, STREAM
from .machinery import Servers, machinery
from .options import Options
from .place import Place, wait_until
from .report import PERCENTILES, Result, Series, percentile_of, quotients
from .tables import MOMENT

RATE = 50
"""Jobs a second."""

type Way = Callable[[int], tuple[int, int]]
"""Commits a job; gives its outbox id, and when the commit was done, in ns."""

PRODUCT, BARE = "relay and worker", "bare NOTIFY, XADD, XREADGROUP"
LISTENS = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = %s AND query LIKE 'LISTEN%%')
"""


def measure(place: Place, options: Options) -> list[Result]:
    """Both ways stand ready all the time; each job is committed at its planned moment."""
    number = max(10, int(options.seconds * RATE))
    with machinery(place) as at_work, couriers(place, at_work):
        found = both_ways(at_work.connection, number, options.rounds, (PRODUCT, BARE))
    how = (
        f"commit to handler start, {number} jobs at {RATE} a second, nothing else running; bare: "
        "the id in the NOTIFY, one XADD, the return of a blocked XREADGROUP, no look at the row"
    )
    return [result_of("latency", how, found)]


@contextmanager
def couriers(place: Place, at_work: Servers) -> Iterator[None]:
    """The bare way stands ready: its relay, and the reader of its stream."""
    at_work.redis.delete(STREAM)  # what another part has left
    with place.module("courier", "relay"), reader_of(STREAM, place, at_work):
        wait_until(lambda: _listens(at_work.connection), "courier")
        yield


@contextmanager
def reader_of(stream: str, place: Place, at_work: Servers) -> Iterator[None]:
    """A bare reader, in a group of its own, of what comes from now on."""
    at_work.redis.xgroup_create(stream, GROUP, id="$", mkstream=True)
    with place.module("courier", "reader", stream):
        yield


def both_ways(
    connection: psycopg.Connection, number: int, rounds: int, names: tuple[str, str]
) -> dict[str, list[list[float]]]:
    """Milliseconds of each job of each round by the product's way and by the bare one."""
    ways: list[Way] = [_enqueue, partial(_post, connection)]
    for way in ways:
        _latencies(connection, RATE, way)  # warm
    sides = {
        name: partial(_latencies, connection, number, way)
        for name, way in zip(names, ways, strict=True)
    }
    return alternate(sides, rounds)


def _listens(connection: psycopg.Connection) -> bool:
    return connection.execute(LISTENS, [NAME]).fetchone() == (True,)


def _enqueue(number: int) -> tuple[int, int]:
    """Outbox id of a job of the product's, and when its commit was done (before the NOTIFY)."""
    moments: list[int] = []
    with transaction.atomic(durable=True):
        transaction.on_commit(lambda: moments.append(time.time_ns()))
        outbox_id = enqueue(MOMENT, number=number)
    return outbox_id, moments[0]


def _post(connection: psycopg.Connection, _: int) -> tuple[int, int]:
    """The same of a row that the relay leaves alone, and whose id goes out with the NOTIFY."""
    with connection.transaction():
        [(outbox_id, *_rest)] = fill(connection, MOMENT, 1, relayed=True)
    committed = time.time_ns()
    connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(outbox_id)])
    return outbox_id, committed


def _latencies(connection: psycopg.Connection, number: int, commit: Way) -> list[float]:
    """Milliseconds from each commit to the start of what it caused."""
    connection.execute("TRUNCATE jobs_outbox, bench_moment")
    start = time.perf_counter() + 0.1
    committed = {}
    for one in range(number):
        time.sleep(max(0.0, start + one / RATE - time.perf_counter()))
        outbox_id, committed[outbox_id] = commit(one)
    wait_until(lambda: len(_moments(connection)) == number, "handlers")
    started = _moments(connection)
    return [(started[outbox_id] - moment) / 1e6 for outbox_id, moment in committed.items()]


def _moments(connection: psycopg.Connection) -> dict[int, int]:
    return dict(connection.execute("SELECT outbox_id, started_ns FROM bench_moment").fetchall())


def result_of(name: str, how: str, found: dict[str, list[list[float]]]) -> Result:
    """Of what `both_ways()` found: percentiles, and their ratios product to bare."""
    product, bare = found
    cuts = {
        side: {cut: [percentile_of(one, cut) for one in rounds] for cut in PERCENTILES}
        for side, rounds in found.items()
    }
    ratios = [
        Series(name=f"p{cut}, {product} / {bare}", rounds=quotients(above, cuts[bare][cut]))
        for cut, above in cuts[product].items()
    ]
    figures = [
        Series(name=f"{side}: p{cut}", rounds=rounds, unit="ms")
        for side, by_cut in cuts.items()
        for cut, rounds in by_cut.items()
    ]
    return Result(name=name, how=how, ratios=ratios, figures=figures)
