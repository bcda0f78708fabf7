"""Who may run what: a live worker is not robbed, a dead one's jobs run elsewhere, once."""

import os
import signal
import time

from jobs.exits import Exit
from tests.conftest import MailFolder
from tests.people import buy, new_type
from tests.processes import compute_processes, duration, wait_for
from tests.recovery.conftest import Drill
from tickets.models import Delivery


def test_a_slow_job_is_not_robbed(drill: Drill) -> None:
    """It runs for more than two leases beside a worker that looks for stale ones."""
    jobs = drill.put(2, ms=int(2.5 * 1000 * duration("LEASE")))
    slow = drill.product.plain_worker("slow")
    slow.wait_until_it_runs("drill_row", 2)
    other = drill.product.plain_worker("other")
    drill.all_done_once(jobs)
    assert not other.said("drill_row")


def test_a_dead_workers_jobs_run_elsewhere_in_time_also_under_backlog(drill: Drill) -> None:
    stale = drill.put(3, ms=60_000)
    dead = drill.product.plain_worker("dead")
    dead.wait_until_it_runs("drill_row", 3)
    dead.kill()
    killed = time.monotonic()
    drill.open_gate()
    backlog = drill.put(300)
    drill.product.plain_worker("alive", "--slots", "1")
    wait_for(lambda: set(stale) <= set(drill.effects()), "the dead one's jobs", drill.takeover + 30)
    assert time.monotonic() - killed < drill.takeover + 5
    drill.all_done_once(stale + backlog)


def test_many_healthy_pending_entries_do_not_hide_a_stale_one(drill: Drill) -> None:
    """XAUTOCLAIM looks at ten entries for each that it may take: the cursor is followed."""
    healthy = drill.put(100, ms=60_000)
    holder = drill.product.plain_worker("holder", "--slots", "100")
    holder.wait_until_it_runs("drill_row", 100)
    [stale] = drill.put(ms=60_000)
    dead = drill.product.plain_worker("dead")
    dead.wait_until_it_runs("drill_row")
    dead.kill()
    drill.product.plain_worker("alive", "--slots", "1").wait_until_it_runs("drill_row")
    drill.open_gate()
    drill.all_done_once([*healthy, stale])


def test_a_stopped_worker_loses_its_jobs_and_wakes_without_harm(
    drill: Drill, mailbox: MailFolder
) -> None:
    """SIGSTOP in mid-render for longer than the lease: one set of tickets, one email."""
    sleeper = drill.product.worker("sleeper")
    sleeper.wait_until_said("is ready")
    [child] = wait_for(lambda: compute_processes(sleeper.popen.pid), "a render process")
    os.kill(child, signal.SIGSTOP)
    buy(new_type(), 2)
    sleeper.wait_until_it_runs("render_tickets")
    sleeper.signal(signal.SIGSTOP)
    drill.product.worker("taker")
    wait_for(lambda: mailbox.messages(), "the email, sent by the other worker")
    os.kill(child, signal.SIGCONT)
    sleeper.signal(signal.SIGCONT)
    wait_for(lambda: sleeper.said("duplicate") or sleeper.said("taken over"), "the late end")
    drill.all_done_once([])
    assert len(mailbox.messages()) == 1
    assert Delivery.objects.get().state == "sent"


def test_a_second_worker_of_one_name_leaves_and_robs_nothing(drill: Drill) -> None:
    jobs = drill.put(3, ms=60_000)
    first = drill.product.plain_worker("same")
    first.wait_until_it_runs("drill_row", 3)
    second = drill.product.plain_worker("same")
    assert second.ended() == Exit.NAME_TAKEN
    assert second.said("the name same is taken by another worker")
    drill.open_gate()
    drill.all_done_once(jobs)
    assert first.stop() == Exit.DRAINED


def test_a_worker_that_finds_another_under_its_name_leaves(drill: Drill) -> None:
    jobs = drill.put(3, ms=60_000)
    robbed = drill.product.plain_worker("same", "--grace", "1")
    robbed.wait_until_it_runs("drill_row", 3)
    robbed.signal(signal.SIGSTOP)
    wait_for(lambda: not drill.redis.exists("jobs:consumer:same"), "the name to expire")
    heir = drill.product.plain_worker("same")
    heir.wait_until_said("is ready")
    robbed.signal(signal.SIGCONT)
    assert robbed.ended() == Exit.NAME_TAKEN
    drill.open_gate()
    drill.all_done_once(jobs)


def test_two_names_on_one_host_share_the_work(drill: Drill) -> None:
    workers = [drill.product.plain_worker(name) for name in ("one", "two")]
    for worker in workers:
        worker.wait_until_said("is ready")
    jobs = drill.put(40, ms=50)
    drill.all_done_once(jobs)
    assert all(worker.said("drill_row done") for worker in workers)
