"""A scrape of `/metrics` of a relay that has nothing to do: alone, after a season, on a night."""

import statistics
import time
import urllib.request
from functools import partial

import psycopg

from stagedoor.embedded import free_port

from .abba import alternate
from .machinery import Servers, servers
from .options import Options
from .past import Past
from .place import Place, wait_until
from .report import Result, Series, quotients

ENTRIES = 100_000
WAITING = 80_000
"""Jobs that are not done: more than relays let out."""
KINDS = 20
LOOKS = 21
"""Scrapes in each round, of which the median counts."""
MOST_MS = 20.0
ALONE, SEASON, NIGHT = "nothing else", "after a season", "a season and 80,000 jobs not done"
JOBS = """
INSERT INTO jobs_outbox (kind, args, subject, lane, request_id, trace, last_error, dead_reason,
    traceback, dead_by, relayed_at, entry_id, available_at, due_at)
SELECT 'kind_' || number %% %(kinds)s, jsonb_build_object('order_id', number), 'order:' || number,
    CASE WHEN number %% 2 = 0 THEN 'tickets' ELSE 'bulk' END, lpad(to_hex(number), 16, '0'),
    '', '', '', '', '', now(), '1-' || number, now(), now() - number * interval '1 ms'
FROM generate_series(1, %(number)s) AS number;
UPDATE jobs_outbox SET relayed_at = NULL, entry_id = NULL, available_at = now() + interval '1 hour'
WHERE id %% 3 = 0;
UPDATE jobs_outbox SET due_at = available_at WHERE id %% 30 = 0
"""
"""Relayed, waiting for a retry, to come: what a relay leaves where it is."""
COUNTED = "SELECT count(*) FROM jobs_tally WHERE at > now() - interval '1 s'"


def measure(place: Place, options: Options) -> list[Result]:
    """The same relay answers in all states."""
    port = free_port()
    relay = ("relay", "--metrics-port", str(port))
    with servers(place) as bare, place.command(*relay, also={"JOBS_RECONCILE": "3600"}):
        wait_until(lambda: bool(bare.redis.exists("jobs")), "the group")
        past = Past(bare.connection, bare.redis)
        full = (ENTRIES, options.history_rows)
        states = {ALONE: ((0, 0), 0), SEASON: (full, 0), NIGHT: (full, WAITING)}
        found = alternate(
            {
                name: partial(_median, bare, past, wanted, jobs, port)
                for name, (wanted, jobs) in states.items()
            },
            options.rounds,
        )
    return [_result(found, options)]


def _median(bare: Servers, past: Past, wanted: tuple[int, int], jobs: int, port: int) -> float:
    bare.connection.execute("TRUNCATE jobs_outbox")
    past.become(*wanted)
    _put(bare.connection, jobs)
    _milliseconds(port)
    return statistics.median(_milliseconds(port) for _ in range(LOOKS))


def _put(connection: psycopg.Connection, number: int) -> None:
    with psycopg.ClientCursor(connection) as cursor:
        cursor.execute(JOBS, {"kinds": KINDS, "number": number})
    connection.execute("VACUUM (ANALYZE) jobs_outbox")
    if number:
        wait_until(lambda: connection.execute(COUNTED).fetchone() == (1,), "the relay's count")


def _milliseconds(port: int) -> float:
    started = time.perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        page = answer.read()
    taken = (time.perf_counter() - started) * 1000
    for server in (b"postgresql", b"redis"):
        assert b'stagedoor_probe_success{server="%s"} 1.0' % server in page
    return taken


def _result(found: dict[str, list[float]], options: Options) -> Result:
    return Result(
        name="scrape",
        how=f"a scrape of a relay; a season: {options.history_rows} processed rows and {ENTRIES} "
        f"entries on the stream; besides, {WAITING} jobs of {KINDS} kinds that are relayed, parked "
        f"or to come; the median of {LOOKS}",
        ratios=[
            Series(name=f"{name} / {ALONE}", rounds=quotients(found[name], found[ALONE]))
            for name in (SEASON, NIGHT)
        ],
        figures=[
            Series(name=name, rounds=rounds, unit="ms", most=MOST_MS)
            for name, rounds in found.items()
        ],
    )
