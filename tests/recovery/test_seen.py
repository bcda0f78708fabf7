"""What metrics and health say while everything is killed, hangs, or only waits."""

import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from stagedoor.embedded import RedisServer, free_port
from tests.alerts import age, check_alerts, page, samples
from tests.processes import wait_for
from tests.recovery.conftest import Drill

LATE = {"StagedoorTicketsLate", "StagedoorTicketsVeryLate"}
NOBODY = {"StagedoorNoWorker", "StagedoorNoRelay"}
TURNS = {"JOBS_TURN_LIMIT": "1"}


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def processes_up(port: int, role: str) -> float:
    return samples(page(port))["stagedoor_processes_up", role]


def with_both(text: str) -> str:
    """The page, where a worker and a relay are up on it."""
    up = samples(text)
    both = all(up["stagedoor_processes_up", role] for role in ("worker", "relay"))
    return text if both else ""


def make_older(seconds: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_outbox SET due_at = due_at - make_interval(secs => %s)", [seconds]
        )


def test_with_every_worker_and_relay_killed_the_age_rises_and_alerts(
    unwatched: Drill, tmp_path: Path
) -> None:
    product, port = unwatched.product, free_port()
    product.web_as_deployed(port, 1)
    parts = [product.relay(), product.plain_worker("one"), product.plain_worker("two")]
    jobs = unwatched.put(5, ms=600_000)
    unwatched.wait_until_running(5)
    for part in parts:
        part.kill()

    asked = time.monotonic()
    before = age(page(port))
    wait_for(lambda: processes_up(port, "worker") == processes_up(port, "relay") == 0, "nobody")
    wait_for(lambda: time.monotonic() - asked > 10, "ten seconds")
    assert age(page(port)) - before == pytest.approx(time.monotonic() - asked, abs=1)
    make_older(300)
    told = page(port)
    assert samples(told)["stagedoor_outbox_rows", "drill_row", "relayed"] == 5
    assert samples(told)["stagedoor_pending_entries",] == 5
    check_alerts(told, tmp_path, fires=LATE | NOBODY, silent={"StagedoorProbeFailing"})

    unwatched.open_gate()
    product.relay()
    product.plain_worker("one")
    product.plain_worker("two")
    unwatched.all_done_once(jobs)
    told = wait_for(lambda: with_both(page(port)), "a worker and a relay that were just seen")
    assert age(told) == 0
    rows = [n for (name, *_), n in samples(told).items() if name == "stagedoor_outbox_rows"]
    assert sum(rows) == 0
    check_alerts(told, tmp_path, fires=set(), silent=LATE | NOBODY)


@pytest.fixture
def frozen() -> Iterator[list[int]]:
    """Processes of PostgreSQL that a test stopped; they go on after it."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def backends(name: str) -> list[int]:
    """The processes of PostgreSQL that serve sessions of this name."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s", [name])
        return [pid for (pid,) in cursor.fetchall()]


@pytest.mark.parametrize(("part", "connections"), [("relay", 2), ("schedule", 1)])
def test_a_part_whose_loop_stands_still_is_ill_until_it_turns_again(
    part: str, connections: int, unwatched: Drill, frozen: list[int]
) -> None:
    port, name = free_port(), "frozen"
    often = {**TURNS, "JOBS_SCHEDULE_POLL": "0.2"}
    unwatched.product.command(part, "--metrics-port", str(port), APPLICATION_NAME=name, **often)
    wait_for(lambda: get(port, "/healthz") == (200, "ok\n"), "a healthy part")
    wait_for(lambda: len(backends(name)) == connections, "its connections")
    for pid in backends(name):
        os.kill(pid, signal.SIGSTOP)
        frozen.append(pid)
    wait_for(lambda: get(port, "/healthz")[0] == 503, "illness")
    _, why = get(port, "/healthz")
    assert why.startswith("the loop has not turned for ")
    while frozen:
        os.kill(frozen.pop(), signal.SIGCONT)
    wait_for(lambda: get(port, "/healthz") == (200, "ok\n"), "a healthy part again")


def test_a_worker_that_is_full_paused_or_without_its_server_is_healthy(
    unwatched: Drill, stream_server: RedisServer
) -> None:
    port = free_port()
    unwatched.product.relay()
    full = ("--slots", "2", "--metrics-port", str(port))
    worker = unwatched.product.plain_worker("one", *full, **TURNS)
    jobs = unwatched.put(4, ms=600_000)
    unwatched.wait_until_running(2)
    stays_healthy(port)
    worker.signal(signal.SIGUSR1)
    worker.wait_until_said("reads no more")
    stays_healthy(port)
    stream_server.kill()
    stays_healthy(port)
    stream_server.start()
    unwatched.open_gate()
    unwatched.product.plain_worker("two")
    unwatched.all_done_once(jobs)


def stays_healthy(port: int) -> None:
    """For longer than a loop may stand still."""
    until = time.monotonic() + 2 * float(TURNS["JOBS_TURN_LIMIT"])
    while time.monotonic() < until:
        assert get(port, "/healthz") == (200, "ok\n")
