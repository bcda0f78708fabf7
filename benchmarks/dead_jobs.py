"""The admin's pages of dead jobs with 10,000 of them, beside 50: what staff wait for."""

import statistics
import time
from collections.abc import Callable
from functools import partial

import psycopg
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from jobs.models import OutboxRow

from .abba import alternate
from .options import Options
from .past import ROWS
from .place import Place
from .report import Result, Series, quotients
from .tables import NOTHING, ROW

MANY, FEW = 10_000, 50
LOOKS = 5
"""Loads of a page in each round, of which the median counts."""
MOST_MS = 300.0
LIST = "/admin/jobs/deadjob/"
DEAD = """
INSERT INTO jobs_outbox (kind, args, subject, lane, request_id, trace, attempts, deliveries,
    due_at, dead_at, dead_reason, last_error, traceback, dead_by)
SELECT %(kind)s, jsonb_build_object('number', number), 'order:' || number, 'tickets',
    lpad(to_hex(number), 16, '0'), '', 5, 7, now() - interval '1 hour',
    now() - number * interval '1 s',
    'failed 5 times', 'ConnectionError: host ' || number %% 40 || ': seat ' || number || ' is gone',
    repeat('  File "somewhere.py", line 17, in something' || chr(10), 100), 'bench'
FROM generate_series(1, %(number)s) AS number
"""


def measure(place: Place, options: Options) -> list[Result]:
    """Every page in both states, in this process: middleware, views, templates, database."""
    User.objects.create_superuser("bench", "", "x")
    browser = Client(HTTP_HOST="127.0.0.1")
    browser.force_login(User.objects.get(username="bench"))
    with psycopg.connect(place.postgres.url("stagedoor"), autocommit=True) as connection:
        connection.execute(ROWS, {"kind": ROW, "number": options.history_rows})
        connection.execute("VACUUM (FREEZE, ANALYZE) jobs_processed")
        sides = {
            f"{name}, {number} dead": partial(_median, connection, number, load)
            for number in (FEW, MANY)
            for name, load in _pages(browser).items()
        }
        found = alternate(sides, options.rounds)
    return [_result(found, options)]


def _pages(browser: Client) -> dict[str, Callable[[], None]]:
    return {
        "list": partial(_get, browser, LIST),
        "list, filtered": partial(
            _get, browser, f"{LIST}?error_class=ConnectionError&kind={NOTHING}"
        ),
        "list, searched": partial(_get, browser, f"{LIST}?q=000000000000002a"),
        "last page": partial(_get, browser, f"{LIST}?p={FEW // 50}"),
        "one job": lambda: _get(browser, _page_of_one()),
        "asking before a replay of all": partial(_ask, browser),
        "any page, with its banner": partial(_get, browser, "/admin/"),
    }


def _page_of_one() -> str:
    return reverse("admin:jobs_deadjob_change", args=[OutboxRow.objects.dead().latest("pk").pk])


def _get(browser: Client, address: str) -> None:
    answer = browser.get(address)
    assert answer.status_code == 200, answer.status_code
    answer.content  # noqa: B018 (renders)


def _ask(browser: Client) -> None:
    form = {"action": "replay_many", "select_across": "1", "_selected_action": ["0"]}
    answer = browser.post(LIST, form)
    assert answer.status_code == 200, answer.status_code


def _median(connection: psycopg.Connection, number: int, load: Callable[[], None]) -> float:
    if OutboxRow.objects.dead().count() != number:
        connection.execute("TRUNCATE jobs_outbox")
        connection.execute(DEAD, {"kind": NOTHING, "number": number})
        connection.execute("VACUUM (ANALYZE) jobs_outbox")
    load()
    return statistics.median(_milliseconds(load) for _ in range(LOOKS))


def _milliseconds(load: Callable[[], None]) -> float:
    started = time.perf_counter()
    load()
    return (time.perf_counter() - started) * 1000


def _result(found: dict[str, list[float]], options: Options) -> Result:
    names = [
        name.removesuffix(f", {MANY} dead") for name in found if name.endswith(f", {MANY} dead")
    ]
    return Result(
        name="dead-jobs",
        how=f"pages of the admin with {MANY} dead jobs and with {FEW}, beside "
        f"{options.history_rows} rows of processed jobs; the median of {LOOKS} loads",
        ratios=[
            Series(
                name=f"{name}: {MANY} dead jobs / {FEW}",
                rounds=quotients(found[f"{name}, {MANY} dead"], found[f"{name}, {FEW} dead"]),
            )
            for name in names
        ],
        figures=[
            Series(
                name=name,
                rounds=rounds,
                unit="ms",
                most=MOST_MS if f"{MANY} dead" in name else None,
            )
            for name, rounds in found.items()
        ],
    )
