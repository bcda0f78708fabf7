"""SIGKILL at every failpoint of the worker; afterwards every job is done, and done once."""

import signal
from pathlib import Path

import pytest

from tests.cuts import Cut
from tests.processes import wait_for
from tests.recovery.conftest import Drill

MANY = 12
"""More jobs than slots: some are running, some waiting when the worker dies."""


@pytest.mark.parametrize(
    "place",
    [
        "worker.read",
        "worker.sorted",
        "runner.before_effects/drill_row",
        "runner.moved/drill_row",
        "runner.before_commit/drill_row",
        "runner.committed/drill_row",
        "acknowledger.before",
        "acknowledger.after",
    ],
)
def test_the_same_worker_started_again_finishes(place: str, drill: Drill, tmp_path: Path) -> None:
    cut = Cut(place, tmp_path / "mark")
    jobs = drill.put(MANY)
    cut.was_hit_by(drill.product.plain_worker("one", **cut.environment()))
    drill.product.plain_worker("one")
    drill.all_done_once(jobs)
    assert drill.attempts() == {0}


def test_another_worker_finishes_what_a_dead_one_left(drill: Drill, tmp_path: Path) -> None:
    """The taker dies too, just after it took the entries over: a third one finishes."""
    cut = Cut("worker.reclaimed", tmp_path / "mark")
    jobs = drill.put(4, ms=60_000)
    dead = drill.product.plain_worker("dead")
    dead.wait_until_it_runs("drill_row", 4)
    dead.kill()
    drill.open_gate()
    cut.was_hit_by(drill.product.plain_worker("taker", **cut.environment()))
    drill.product.plain_worker("third")
    drill.all_done_once(jobs)


def test_a_worker_that_dies_while_it_renews_its_leases(drill: Drill, tmp_path: Path) -> None:
    cut = Cut("worker.renewed", tmp_path / "mark")
    jobs = drill.put(4, ms=60_000)
    cut.was_hit_by(drill.product.plain_worker("one", **cut.environment()))
    drill.open_gate()
    drill.product.plain_worker("two")
    drill.all_done_once(jobs)


def test_a_worker_that_dies_while_it_hands_back(drill: Drill, tmp_path: Path) -> None:
    cut = Cut("worker.handed_back", tmp_path / "mark")
    jobs = drill.put(4, ms=60_000)
    one = drill.product.plain_worker("one", "--grace", "0", **cut.environment())
    one.wait_until_it_runs("drill_row", 4)
    one.signal(signal.SIGTERM)
    cut.was_hit_by(one)
    drill.open_gate()
    drill.product.plain_worker("two")
    drill.all_done_once(jobs)


def test_a_start_that_was_noted_and_not_run_counts_once(drill: Drill, tmp_path: Path) -> None:
    cut = Cut("runner.start_noted/drill_row", tmp_path / "mark")
    jobs = drill.put(3, ms=60_000)
    one = drill.product.plain_worker("one")
    one.wait_until_it_runs("drill_row", 3)
    one.kill()
    cut.was_hit_by(drill.product.plain_worker("one", **cut.environment()))
    assert sorted(drill.starts(job) for job in jobs) == [0, 0, 1]
    drill.open_gate()
    drill.product.plain_worker("one")
    drill.all_done_once(jobs)


@pytest.mark.parametrize(
    "place", ["runner.failure_counted/drill_fail", "dead_letters.marked", "dead_letters.posted"]
)
def test_a_failing_job_ends_dead_after_its_attempts_whatever_is_cut(
    place: str, drill: Drill, tmp_path: Path
) -> None:
    cut = Cut(place, tmp_path / "mark")
    [failing] = drill.put(kind="drill_fail")
    jobs = drill.put(3)
    cut.was_hit_by(drill.product.plain_worker("one", **cut.environment()))
    drill.product.plain_worker("one")
    drill.all_done_once(jobs)
    assert drill.dead() == {failing: "failed 2 times"}
    # Burial commits before it writes the letter: where it was cut in between, the relay adds it.
    wait_for(lambda: drill.redis.xlen("jobs:dead") == 1, "the letter")
