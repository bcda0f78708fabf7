"""Servers and networks that go away under a worker: nothing is counted, nobody restarts it."""

import re
import time
from collections.abc import Callable

import pytest
from django.db import connection

from jobs.exits import Exit
from stagedoor.embedded.server import HOST
from tests import servers
from tests.processes import Process, duration, wait_for
from tests.proxy import Proxy
from tests.recovery.conftest import Drill

LINES_A_SECOND = 5
"""Log lines of a worker in an outage, at most."""


def reader_is_blocked(drill: Drill) -> bool:
    return any("b" in client["flags"] for client in drill.redis.client_list())


def kill_redis() -> None:
    servers.REDIS.kill()


def start_redis() -> None:
    servers.REDIS.start()


def kill_postgres() -> None:
    connection.close()
    servers.POSTGRES.kill()


def start_postgres() -> None:
    servers.POSTGRES.start()


@pytest.mark.parametrize(
    ("kill", "start"),
    [(kill_redis, start_redis), (kill_postgres, start_postgres)],
    ids=["Redis", "PostgreSQL"],
)
def test_a_server_that_restarts_in_mid_job_costs_no_attempt_and_no_flood_of_lines(
    kill: Callable[[], None], start: Callable[[], None], drill: Drill
) -> None:
    jobs = drill.put(8, ms=60_000)
    worker = drill.product.plain_worker("one")
    worker.wait_until_it_runs("drill_row", 8)
    lines, began = worker.log().count("\n"), time.monotonic()
    kill()
    drill.open_gate()
    worker.wait_until_said("reads nothing for now")
    wait_for(lambda: time.monotonic() - began > 4, "some seconds of outage")
    written = worker.log().count("\n") - lines
    start()
    assert written < LINES_A_SECOND * 4
    more = drill.put(5)
    drill.all_done_once(jobs + more)
    assert drill.attempts() == {0}
    assert worker.popen.poll() is None
    assert worker.said("reads again after")


def test_every_database_session_ended_in_mid_job(drill: Drill) -> None:
    jobs = drill.put(8, ms=60_000)
    worker = drill.product.plain_worker("one")
    worker.wait_until_it_runs("drill_row", 8)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
    drill.open_gate()
    drill.all_done_once(jobs)
    assert drill.attempts() == {0}
    assert worker.popen.poll() is None


def test_every_connection_killed_twenty_times_while_jobs_flow(drill: Drill) -> None:
    worker = drill.product.plain_worker("one")
    worker.wait_until_said("is ready")
    jobs: list[int] = []
    for _ in range(20):
        jobs += drill.put(10, ms=5)
        done = len(drill.effects())
        drill.redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        wait_for(lambda d=done: len(drill.effects()) > d, "jobs that go on")  # type: ignore[misc]
    drill.all_done_once(jobs)
    assert drill.attempts() == {0}
    assert worker.popen.poll() is None


@pytest.mark.parametrize("loss", ["FLUSHALL", "DEL jobs", "XGROUP DESTROY jobs workers"])
def test_a_stream_lost_under_a_blocked_read(loss: str, drill: Drill) -> None:
    worker = drill.product.plain_worker("one")
    worker.wait_until_said("is ready")
    for _ in range(3):
        wait_for(lambda: reader_is_blocked(drill), "a blocked read")
        drill.redis.execute_command(*loss.split())
        done = drill.effects()
        jobs = drill.put(3)
        wait_for(lambda d=done, j=jobs: drill.effects() == sorted(d + j), "the next jobs")  # type: ignore[misc]
    drill.nothing_left()
    assert worker.popen.poll() is None
    assert worker.log().count("\n") < 60, "no flood of lines"


def proxied(drill: Drill) -> Proxy:
    return Proxy((HOST, servers.REDIS.port))


def test_a_connection_that_goes_silent_ends_the_worker_or_is_left_behind(drill: Drill) -> None:
    """Half-open: nothing fails, nothing comes. All of it silent is an outage, waited out."""
    with proxied(drill) as proxy:
        worker = drill.product.plain_worker("one", REDIS_URL=proxy.url(servers.REDIS.url(0)))
        worker.wait_until_said("is ready")
        before = drill.put(3)
        wait_for(lambda: drill.effects() == before, "the first jobs")
        proxy.silent.set()
        later = drill.put(3)
        worker.wait_until_said("reads nothing for now")
        proxy.cut()
        proxy.silent.clear()
        drill.all_done_once(before + later)
        assert worker.popen.poll() is None


def test_blocking_reads_that_hang_while_the_server_answers_end_the_worker(drill: Drill) -> None:
    """CLIENT PAUSE would stop PING too: only connections that block are led into silence."""
    with proxied(drill) as proxy:
        worker = drill.product.plain_worker("one", REDIS_URL=proxy.url(servers.REDIS.url(0)))
        worker.wait_until_said("is ready")
        proxy.silence_blocking_reads()
        patience = 4 * (duration("BLOCK") + duration("HUNG_AFTER")) + 20
        assert worker.ended(patience) == Exit.HUNG
        assert worker.said("3 blocking reads hung, PING is answered")
    jobs = drill.put(3)
    drill.product.plain_worker("one")
    drill.all_done_once(jobs)


def test_blocking_reads_that_fail_while_the_server_answers_are_tried_with_patience(
    drill: Drill,
) -> None:
    """As with no connection left for them: no spin, no flood, and it passes."""
    with proxied(drill) as proxy:
        worker = drill.product.plain_worker("one", REDIS_URL=proxy.url(servers.REDIS.url(0)))
        worker.wait_until_said("is ready")
        proxy.cut_blocking_reads = True
        worker.wait_until_said("reads nothing for now")
        began, lines = time.monotonic(), worker.log().count("\n")
        wait_for(lambda: time.monotonic() - began > 4, "some seconds")
        assert worker.log().count("\n") - lines < LINES_A_SECOND * 4
        proxy.cut_blocking_reads = False
        jobs = drill.put(5)
        drill.all_done_once(jobs)
        assert worker.popen.poll() is None


def test_half_a_second_more_for_every_call_is_an_outage_and_passes(drill: Drill) -> None:
    """Calls time out after 100 ms, their outcome unknown: nothing is lost, nothing doubled."""
    with proxied(drill) as proxy:
        worker = drill.product.plain_worker("one", REDIS_URL=proxy.url(servers.REDIS.url(0)))
        worker.wait_until_said("is ready")
        jobs = drill.put(20, ms=20)
        wait_for(lambda: drill.effects(), "the first jobs")
        proxy.delay = 0.5
        jobs += drill.put(20, ms=20)
        began, lines = time.monotonic(), worker.log().count("\n")
        wait_for(lambda: time.monotonic() - began > 5, "some seconds of delay")
        assert outage_lines(worker, lines) < LINES_A_SECOND * 5
        proxy.delay = 0.0
        drill.all_done_once(jobs)
        assert drill.attempts() == {0}
        assert worker.popen.poll() is None


def outage_lines(worker: Process, skip: int) -> int:
    """Lines after the first `skip` that are not the plain way of a job."""
    return sum(
        not re.search(r"drill_row (done|duplicate)", line)
        for line in worker.log().splitlines()[skip:]
    )
