"""Jobs that do harm: to their worker, to a render process, to the time of others."""

import os
import signal

import pytest

from jobs.models import OutboxRow, RefusedEntry
from jobs.worker import Exit
from tests.processes import compute_processes, wait_for
from tests.recovery.conftest import Drill

DIED = "worker died 3 times"


def ended_workers(drill: Drill, number: int, *options: str) -> list[int]:
    """The exit codes of so many workers of one name, each started after the last one's end."""
    return [drill.product.plain_worker("one", *options).ended() for _ in range(number)]


def test_a_job_that_kills_its_worker_is_dead_after_three_and_takes_nobody_along(
    drill: Drill,
) -> None:
    [killer] = drill.put(kind="drill_kill", ms=300)
    neighbours = drill.put(7, ms=600)
    codes = ended_workers(drill, 1)
    while killer not in drill.dead():
        worker = drill.product.plain_worker("one")
        wait_for(lambda w=worker: w.popen.poll() is not None or drill.dead(), "its end")  # type: ignore[misc]
        if worker.popen.poll() is not None:
            codes.append(worker.ended())
    assert codes == [-signal.SIGKILL] * 3
    drill.all_done_once(neighbours)
    assert drill.dead() == {killer: DIED}
    assert drill.attempts() == {0}
    [(_, letter)] = drill.redis.xrange("jobs:dead")
    assert letter[b"error"] == DIED.encode()
    assert int(letter[b"deliveries"]) >= 3


def test_two_killers_at_once_take_nobody_along(drill: Drill) -> None:
    killers = drill.put(2, kind="drill_kill", ms=300)
    neighbours = drill.put(6, ms=500)
    for _ in range(12):
        if len(drill.dead()) == 2:
            break
        worker = drill.product.plain_worker("one")
        wait_for(
            lambda w=worker: w.popen.poll() is not None or len(drill.dead()) == 2,  # type: ignore[misc]
            "an end",
        )
    drill.all_done_once(neighbours)
    assert drill.dead() == dict.fromkeys(killers, DIED)


def test_a_job_that_crashes_its_render_process_is_dead_and_its_neighbours_are_done(
    drill: Drill,
) -> None:
    [crasher] = drill.put(kind="drill_segfault")
    neighbours = drill.put(6, kind="drill_compute", ms=50)
    worker = drill.product.worker("one")
    drill.all_done_once(neighbours)
    assert drill.dead() == {crasher: DIED}
    assert worker.popen.poll() is None
    assert drill.attempts() == {0}


def test_a_killed_render_process_costs_a_second_run_and_no_attempt(drill: Drill) -> None:
    worker = drill.product.worker("one")
    worker.wait_until_said("is ready")
    [child] = wait_for(lambda: compute_processes(worker.popen.pid), "a render process")
    jobs = drill.put(3, kind="drill_compute", ms=60_000)
    worker.wait_until_it_runs("drill_compute")
    os.kill(child, signal.SIGKILL)
    worker.wait_until_said("a process died under its job")
    drill.open_gate()
    drill.all_done_once(jobs)
    assert drill.attempts() == {0}


def test_a_job_that_allocates_without_end_fails_alone(drill: Drill) -> None:
    [glutton] = drill.put(kind="drill_allocate")
    neighbours = drill.put(4, kind="drill_compute", ms=20)
    worker = drill.product.worker("one")
    drill.all_done_once(neighbours)
    assert drill.dead() == {glutton: "failed 2 times"}
    assert "MemoryError" in OutboxRow.objects.get(pk=glutton).last_error
    assert worker.popen.poll() is None


def test_a_job_that_never_returns_ends_its_worker_with_the_stacks_and_is_dead_after_three(
    drill: Drill,
) -> None:
    [stuck] = drill.put(kind="drill_hang")
    neighbours = drill.put(4, ms=2000)
    first = drill.product.plain_worker("one")
    assert first.ended() == Exit.STUCK
    assert first.said(f"drill_hang, outbox row {stuck}, held for")
    assert first.said("in hang")
    assert drill.effects() == neighbours, "the rest is finished first"
    assert ended_workers(drill, 2) == [Exit.STUCK] * 2
    drill.product.plain_worker("one")
    drill.all_done_once(neighbours)
    assert drill.dead() == {stuck: DIED}


def test_an_overdue_job_may_be_taken_over_and_happens_once(drill: Drill) -> None:
    """Its lease is renewed up to the kind's timeout of a second; it sleeps for much longer."""
    [job] = drill.put(kind="drill_slow", ms=60_000)
    first = drill.product.plain_worker("one", "--grace", "60")
    first.wait_until_it_runs("drill_slow")
    drill.product.plain_worker("two")
    assert first.popen.poll() is None or first.ended() == Exit.STUCK
    wait_for(lambda: first.said("stuck, this worker ends"), "the first worker's verdict")
    drill.open_gate()
    drill.all_done_once([job])


def test_a_handler_without_effects_is_never_acknowledged_as_done(drill: Drill) -> None:
    [forgetful] = drill.put(kind="drill_no_effects")
    drill.product.plain_worker("one")
    drill.all_done_once([])
    assert drill.dead() == {forgetful: "failed 2 times"}
    assert "EffectsMissing" in OutboxRow.objects.get(pk=forgetful).last_error


def as_of_another_build(outbox_id: int) -> None:
    OutboxRow.objects.filter(pk=outbox_id).update(kind="drill_of_tomorrow")


def waits_for_a_build(outbox_id: int) -> bool:
    return OutboxRow.objects.filter(pk=outbox_id, unknown_since__isnull=False).exists()


def test_a_kind_of_another_build_waits_uncounted_and_is_done_by_the_right_one(
    drill: Drill,
) -> None:
    [job] = drill.put()
    as_of_another_build(job)
    drill.redis.delete("jobs")
    OutboxRow.objects.update(relayed_at=None, entry_id=None)
    drill.product.plain_worker("one")
    wait_for(lambda: waits_for_a_build(job), "the wait")
    row = OutboxRow.objects.get(pk=job)
    assert (row.attempts, row.starts, row.dead_at) == (0, 0, None)
    OutboxRow.objects.filter(pk=job).update(kind="drill_row")
    drill.all_done_once([job])


def test_a_kind_that_no_build_ever_knows_is_dead(drill: Drill) -> None:
    [job] = drill.put()
    as_of_another_build(job)
    drill.redis.delete("jobs")
    OutboxRow.objects.update(relayed_at=None, entry_id=None)
    drill.product.plain_worker("one", JOBS_UNKNOWN_LIMIT="1")
    drill.nothing_left()
    assert "no build knows the kind drill_of_tomorrow" in drill.dead()[job]
    assert drill.redis.xlen("jobs:dead") == 1


def test_a_payload_that_does_not_parse_is_dead_at_once_and_blocks_nothing(drill: Drill) -> None:
    [bad] = drill.put()
    OutboxRow.objects.filter(pk=bad).update(args={"number": "seven", "ms": 0})
    drill.redis.delete("jobs")
    OutboxRow.objects.update(relayed_at=None, entry_id=None)
    good = drill.put(3)
    drill.product.plain_worker("one")
    drill.all_done_once(good)
    assert drill.dead()[bad].startswith("malformed: number")
    assert not RefusedEntry.objects.exists()


@pytest.mark.parametrize("trimmed", ["read", "claimed"])
def test_a_trimmed_pending_entry_is_no_malformed_job(trimmed: str, drill: Drill) -> None:
    """It comes back without fields, or as deleted: its row is published again."""
    jobs = drill.put(4, ms=60_000)
    dead = drill.product.plain_worker("one")
    dead.wait_until_it_runs("drill_row", 4)
    dead.kill()
    drill.redis.xtrim("jobs", maxlen=0, approximate=False)
    drill.open_gate()
    drill.product.plain_worker("one" if trimmed == "read" else "two")
    drill.all_done_once(jobs)
    assert drill.dead() == {}
