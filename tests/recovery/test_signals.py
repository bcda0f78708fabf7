"""Stopping, pausing and asking a worker, by the signals that its operators send."""

import signal

import pytest

from jobs.exits import Exit
from tests.processes import SHIPPED, wait_for
from tests.recovery.conftest import Drill

GRACE, SHORT_JOB, LONG_JOB = (30, 10_000, 120_000) if SHIPPED else (4, 1_000, 20_000)
"""Seconds of grace; milliseconds of a job that ends within it and of one that does not."""


def test_within_the_grace_all_is_finished(drill: Drill) -> None:
    jobs = drill.put(8, ms=SHORT_JOB)
    more = drill.put(8)
    worker = drill.product.plain_worker("one", "--grace", str(GRACE))
    worker.wait_until_it_runs("drill_row", 8)
    assert worker.stop() == Exit.DRAINED
    assert drill.effects() == jobs
    assert drill.pending() == 0
    drill.product.plain_worker("two")
    drill.all_done_once(jobs + more)


def test_what_outlasts_the_grace_is_handed_back_and_runs_elsewhere_at_once(drill: Drill) -> None:
    jobs = drill.put(8, ms=LONG_JOB)
    worker = drill.product.plain_worker("one", "--grace", "1")
    worker.wait_until_it_runs("drill_row", 8)
    assert worker.stop() == Exit.UNFINISHED
    assert worker.said("8 jobs handed back unfinished")
    assert worker.said("drill_row handed_back", times=8)
    idle = [entry["time_since_delivered"] for entry in pending_entries(drill)]
    assert len(idle) == 8
    drill.open_gate()
    drill.product.plain_worker("two")
    drill.all_done_once(jobs)


def test_what_was_read_and_never_started_is_handed_back_uncounted(drill: Drill) -> None:
    """Suspects wait for each other: at the end one runs, seven have only been read."""
    jobs = drill.put(8, ms=LONG_JOB)
    dead = drill.product.plain_worker("one")
    dead.wait_until_it_runs("drill_row", 8)
    dead.kill()
    worker = drill.product.plain_worker("one", "--grace", "1")
    worker.wait_until_it_runs("drill_row", 1)
    wait_for(lambda: sum(drill.starts(job) for job in jobs) == 1, "one noted start")
    assert worker.stop() == Exit.UNFINISHED
    assert {drill.starts(job) for job in jobs} == {0}
    drill.open_gate()
    drill.product.plain_worker("two")
    drill.all_done_once(jobs)


def test_a_second_signal_leaves_at_once(drill: Drill) -> None:
    jobs = drill.put(3, ms=LONG_JOB)
    worker = drill.product.plain_worker("one", "--grace", "600")
    worker.wait_until_it_runs("drill_row", 3)
    worker.signal(signal.SIGINT)
    worker.wait_until_said("stopping, 3 running")
    worker.signal(signal.SIGTERM)
    assert worker.ended(5) == Exit.UNFINISHED
    drill.open_gate()
    drill.product.plain_worker("one")
    drill.all_done_once(jobs)


def test_usr1_reads_no_more_and_stays(drill: Drill) -> None:
    jobs = drill.put(2, ms=60_000)
    worker = drill.product.plain_worker("one")
    worker.wait_until_it_runs("drill_row", 2)
    worker.signal(signal.SIGUSR1)
    worker.wait_until_said("reads no more, 2 held")
    later = drill.put(3)
    drill.open_gate()
    wait_for(lambda: drill.effects() == jobs, "what ran is finished")
    other = drill.product.plain_worker("two")
    drill.all_done_once(jobs + later)
    assert other.said("drill_row done", times=3)
    assert worker.popen.poll() is None
    assert worker.stop() == Exit.DRAINED


def test_usr2_says_what_every_slot_is_doing(drill: Drill) -> None:
    [job] = drill.put(ms=60_000)
    worker = drill.product.plain_worker("one")
    worker.wait_until_it_runs("drill_row")
    assert worker.said(f"drill_row, outbox row {job}, held for")
    assert worker.said("in write_row")


def test_drain_leaves_once_nothing_is_due(drill: Drill) -> None:
    jobs = drill.put(30, ms=10)
    assert drill.product.plain_worker("one", "--drain").ended() == Exit.DRAINED
    drill.all_done_once(jobs)
    assert drill.product.plain_worker("one", "--drain").ended() == Exit.DRAINED


@pytest.mark.parametrize("grace", ["26", "30"])
def test_a_grace_that_the_service_manager_would_cut_is_refused(drill: Drill, grace: str) -> None:
    worker = drill.product.worker("one", "--grace", grace, STOP_TIMEOUT="30")
    assert worker.ended() == 2
    assert worker.said("STOP_TIMEOUT=30 s")


def pending_entries(drill: Drill) -> list[dict[str, int]]:
    """What XPENDING says of each pending entry."""
    found: list[dict[str, int]] = drill.redis.xpending_range("jobs", "workers", "-", "+", 100)
    return found
