"""Jobs that do harm: to their worker, to a render process, to the time of others."""

import os
import signal
import threading
import time

import pytest
from django.db import connection, transaction

from jobs.exits import Exit
from jobs.models import OutboxRow, RefusedEntry
from jobs.outbox import enqueue
from tests.processes import compute_processes, duration, wait_for
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
    drill.wait_until_begun()
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


def test_a_signal_to_a_worker_that_ends_by_itself_does_not_cut_what_runs(drill: Drill) -> None:
    drill.put(kind="drill_hang")
    neighbours = drill.put(3, ms=4000)
    worker = drill.product.plain_worker("one")
    worker.wait_until_said("stuck, this worker ends")
    assert worker.stop() == Exit.STUCK
    assert drill.effects() == neighbours


def test_a_permission_that_is_missing_ends_the_worker_and_charges_no_job(drill: Drill) -> None:
    [job] = drill.put(kind="drill_forbidden")
    worker = drill.product.plain_worker("one")
    assert worker.ended() == Exit.REFUSED
    assert worker.said("refused by a server: ProgrammingError: permission denied")
    row = OutboxRow.objects.get(pk=job)
    assert (row.attempts, row.starts, row.dead_at) == (0, 0, None)


def test_a_row_that_others_lock_delays_its_own_job_alone(drill: Drill) -> None:
    """A lock that is not to be had decides nothing; the worker reads on meanwhile."""
    [locked] = drill.put(ms=60_000)
    worker = drill.product.plain_worker("one", LOCK_TIMEOUT_MS="200")
    drill.wait_until_begun()
    with transaction.atomic():
        OutboxRow.objects.select_for_update().get(pk=locked)
        drill.open_gate()
        others = committed_elsewhere(60)
        wait_for(lambda: len(drill.effects()) == 60, "the other jobs", seconds=20)
        wait_for(lambda: worker.said("undecided 2 times"), "some tries of the locked one")
    drill.all_done_once([locked, *others])
    assert drill.attempts() == {0}
    assert not worker.said("reads nothing for now")


def committed_elsewhere(count: int) -> list[int]:
    """New jobs, enqueued by another session than the test's own, which holds a transaction."""
    found: list[int] = []

    def put() -> None:
        with transaction.atomic():
            found.extend(enqueue("drill_row", number=n, ms=1) for n in range(count))
        connection.close()

    thread = threading.Thread(target=put)
    thread.start()
    thread.join()
    return found


def test_a_worker_that_was_stopped_for_long_is_not_taken_for_stuck(drill: Drill) -> None:
    """The kind's second is over while the whole process stands still: that is not its time."""
    [job] = drill.put(kind="drill_slow", ms=60_000)
    worker = drill.product.plain_worker("one")
    worker.wait_until_said("is ready")
    wait_for(lambda: drill.pending() == 1, "the job in work")
    worker.signal(signal.SIGSTOP)
    stopped = time.monotonic()
    wait_for(lambda: time.monotonic() - stopped > duration("LAG_LIMIT") + 1, "some seconds")
    drill.open_gate()
    worker.signal(signal.SIGCONT)
    drill.all_done_once([job])
    assert not worker.said("stuck")
    assert worker.stop() == Exit.DRAINED


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


def test_entries_trimmed_under_a_worker_at_work_are_published_again(drill: Drill) -> None:
    jobs = drill.put(8, ms=60_000)
    dead = drill.product.plain_worker("one")
    dead.wait_until_it_runs("drill_row", 8)
    dead.kill()
    worker = drill.product.plain_worker("one")
    worker.wait_until_it_runs("drill_row", 1)
    drill.redis.xtrim("jobs", maxlen=0, approximate=False)
    wait_for(lambda: drill.redis.xlen("jobs") >= 7, "what waits is published again")
    drill.open_gate()
    drill.all_done_once(jobs)
    assert drill.dead() == {}


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
