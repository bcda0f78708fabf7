"""A relay without a worker, beside its statements by bare psycopg and redis (carrier.py).

Rows a second, commit to entry, what a Redis that lost its memory costs, and what an idle relay
asks of the servers.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import redis
from django.conf import settings

from jobs import processes, tally
from jobs.tally import State

from .abba import alternate
from .backlog import fill, start_over
from .carrier import MAXLEN, publish_due
from .idling import asked_a_minute
from .latency import RATE, both_ways, couriers, reader_of, result_of
from .machinery import Servers, servers
from .options import Options
from .place import Place, wait_until
from .report import Result, Series, quotients
from .tables import ROW

ROWS_PER_SECOND = 3000
"""Rows published for each second asked for, of each side in each round."""
LATENCY_SHARE = 0.3
"""Of the seconds asked for: so much of them the latencies take."""
RECOVERIES = 2
"""Rounds at most: one takes 20 s."""
MARK = 200_000
"""Rows out at which the relay would hold: more than any side publishes."""
MOST_SECONDS, MOST_RATIO = 60.0, 1.5
MANY = 100_000
"""Rows of a recovery from which the ratio has a limit: of fewer, the look once a second tells."""
PRODUCT, BARE = "relay", "bare loop"
VISIBLE = ("commit to entry, relay", "bare NOTIFY, XADD")
SPEED = """
SELECT count(*) / extract(epoch FROM max(relayed_at) - %s::timestamptz)::float8 FROM jobs_outbox
"""


def measure(place: Place, options: Options) -> list[Result]:
    """The relay is new on each side; it stays for the latencies, and then idles."""
    with servers(place) as at:
        visible, idle = _standing(place, at, options)
        rates = _side_by_side(place, at, options)
        seconds = _recoveries(place, at, options)
    return [_result(rates, seconds, idle, options), visible]


@contextlib.contextmanager
def _relay(place: Place, at: Servers) -> Iterator[None]:
    """One that has looked at the epoch once, and does not hold."""
    also = {"JOBS_MARK": str(MARK), "JOBS_MAXLEN": str(MAXLEN)}
    with place.command("relay", also=also):
        wait_until(lambda: processes.alive("relay") > 0, "relay")
        wait_until(lambda: at.redis.exists(f"{_stream()}:epoch", _stream()) == 2, "epoch")
        yield


def _stream() -> str:
    return str(settings.JOBS["STREAM"])


def _standing(place: Place, at: Servers, options: Options) -> tuple[Result, dict[str, float]]:
    number = max(10, int(options.seconds * LATENCY_SHARE * RATE))
    with _relay(place, at):
        with couriers(place, at), reader_of(_stream(), place, at):
            found = both_ways(at.connection, number, options.rounds, VISIBLE)
        idle = asked_a_minute(place, at)
    how = (
        f"commit to the return of a blocked XREADGROUP, {number} rows at {RATE} a second, an idle "
        "relay, no worker; bare: the id in the NOTIFY, one XADD, the same reader"
    )
    return result_of("relay-latency", how, found), idle


def _side_by_side(place: Place, at: Servers, options: Options) -> dict[str, list[float]]:
    number = max(1000, int(options.seconds * ROWS_PER_SECOND))
    sides: dict[str, Callable[[], float]] = {
        PRODUCT: partial(_relayed, place, at, number),
        BARE: partial(_carried, at, number),
    }
    return alternate(sides, options.rounds)


def _relayed(place: Place, at: Servers, number: int) -> float:
    """Rows a second of a relay, from the one commit of them all."""
    _empty(at)
    with _relay(place, at):
        _fill(at, number)
        started = _now(at)
        at.connection.execute("NOTIFY jobs_outbox")
        _wait_published(at, number)
    return _speed(at, number, started)


def _carried(at: Servers, number: int) -> float:
    """Rows a second of the bare loop."""
    _empty(at)
    _fill(at, number)
    started = _now(at)
    publish_due(at.url, at.redis, _stream())
    return _speed(at, number, started)


def _recoveries(place: Place, at: Servers, options: Options) -> dict[str, list[float]]:
    sides: dict[str, Callable[[], float]] = {
        PRODUCT: partial(_recovered, place, at, options.relay_rows),
        BARE: partial(_carried_again, at, options.relay_rows),
    }
    return alternate(sides, min(RECOVERIES, options.rounds))


def _recovered(place: Place, at: Servers, number: int) -> float:
    """Seconds from the FLUSHALL until all rows, relayed before, are on the stream again."""
    _empty(at)
    with _relay(place, at):
        _fill(at, number, relayed=True)
        started = time.monotonic()
        at.redis.flushall()
        _wait_published(at, number)
        seconds = time.monotonic() - started
        wait_until(lambda: tally.count().number(State.RELAYED) == number, "marks")
    _check(at, number)
    return seconds


def _carried_again(at: Servers, number: int) -> float:
    """Seconds of the bare loop for as many rows that are due."""
    _empty(at)
    _fill(at, number)
    started = time.monotonic()
    publish_due(at.url, at.redis, _stream())
    seconds = time.monotonic() - started
    _check(at, number)
    return seconds


def _empty(at: Servers) -> None:
    start_over(at.connection)
    at.redis.delete(_stream())


def _fill(at: Servers, number: int, *, relayed: bool = False) -> None:
    with at.connection.transaction():
        fill(at.connection, ROW, number, relayed=relayed)
        # Now, and not by autovacuum in the middle of a side.
        at.connection.execute("ANALYZE jobs_outbox")


def _wait_published(at: Servers, number: int) -> None:
    wait_until(lambda: _length(at.redis) >= number, "entries", seconds=60 + number / 500)


def _length(client: redis.Redis) -> int:
    length: Any = client.xlen(_stream())
    return int(length)


def _speed(at: Servers, number: int, started: str) -> float:
    wait_until(lambda: tally.count().number(State.RELAYED) == number, "marks")
    _check(at, number)
    speed = at.connection.execute(SPEED, [started]).fetchone()
    assert speed is not None
    return float(speed[0])


def _check(at: Servers, number: int) -> None:
    # Every side leaves one entry for every row, and marks every row.
    length, relayed = _length(at.redis), tally.count().number(State.RELAYED)
    if (length, relayed) != (number, number):
        raise RuntimeError(f"{length} entries of {number} rows, {relayed} are marked")


def _now(at: Servers) -> str:
    row = at.connection.execute("SELECT clock_timestamp()::text").fetchone()
    assert row is not None
    return str(row[0])


def _result(
    rates: dict[str, list[float]],
    seconds: dict[str, list[float]],
    idle: dict[str, float],
    options: Options,
) -> Result:
    how = (
        f"{max(1000, int(options.seconds * ROWS_PER_SECOND))} due rows, no worker; recovery: "
        f"{options.relay_rows} relayed rows from a FLUSHALL until the last is on the stream again, "
        "beside the bare loop publishing as many"
    )
    ratios = [
        Series(
            name="rows a second, relay / bare loop", rounds=quotients(rates[PRODUCT], rates[BARE])
        ),
        Series(
            name="recovery, relay / bare loop",
            rounds=quotients(seconds[PRODUCT], seconds[BARE]),
            most=MOST_RATIO if options.relay_rows >= MANY else None,
        ),
    ]
    figures = [
        *(Series(name=f"{who}: rows", rounds=found, unit="/s") for who, found in rates.items()),
        *_seconds(seconds),
        *(Series(name=f"idle relay: {what}", rounds=[n], unit="/min") for what, n in idle.items()),
    ]
    return Result(name="relay", how=how, ratios=ratios, figures=figures)


def _seconds(found: dict[str, list[float]]) -> list[Series]:
    most = {PRODUCT: MOST_SECONDS}
    return [
        Series(name=f"{who}: recovery", rounds=rounds, unit="s", most=most.get(who))
        for who, rounds in found.items()
    ]
