"""What the service manager hears of real processes: ready last, fed by the loop, frozen noticed."""

import signal
from collections.abc import Callable, Iterator

import pytest
from django.db import connection

from jobs.exits import Exit
from jobs.schedule import declared
from tests import servers
from tests.manager import WATCHDOG, Manager
from tests.processes import Process, Product, duration, wait_for
from tests.recovery.conftest import Drill

type Start = Callable[..., Process]


def worker(product: Product) -> Start:
    return lambda **environment: product.plain_worker("one", **environment)


def relay(product: Product) -> Start:
    return product.relay


def scheduler(product: Product) -> Start:
    return lambda **environment: product.scheduler(**environment)


PARTS = pytest.mark.parametrize("part", [worker, relay, scheduler])


@pytest.fixture
def manager() -> Iterator[Manager]:
    """Hears what the test's processes say."""
    with Manager() as made:
        yield made


def group_exists(drill: Drill) -> bool:
    return bool(drill.redis.exists("jobs")) and bool(drill.redis.xinfo_groups("jobs"))


@PARTS
def test_ready_is_said_last_and_a_start_that_waits_for_a_server_is_not_cut_short(
    part: Callable[[Product], Start], drill: Drill, manager: Manager
) -> None:
    drill.product.started[0].stop()
    drill.redis.delete("jobs")
    connection.close()
    servers.POSTGRES.kill()
    started = part(drill.product)(**manager.environment)
    manager.wait_for("EXTEND_TIMEOUT_USEC=120000000", 3)
    assert not manager.heard("READY=1")
    assert not manager.heard("WATCHDOG=1")
    servers.POSTGRES.start()
    manager.wait_for("READY=1")
    assert group_exists(drill) or part is scheduler, "the stream is nothing to a scheduler"
    assert started.popen.poll() is None
    manager.wait_for("WATCHDOG=1")
    assert manager.heard("READY=1") == 1


@PARTS
def test_a_loop_that_stands_still_feeds_no_watchdog_and_one_that_backs_off_does(
    part: Callable[[Product], Start], drill: Drill, manager: Manager
) -> None:
    started = part(drill.product)(**manager.environment)
    manager.wait_for("WATCHDOG=1", 2)
    started.signal(signal.SIGSTOP)
    wait_for(lambda: "T" in state_of(started), "the process to stand still")
    assert manager.said
    assert manager.is_silent(1.5 * WATCHDOG)
    started.signal(signal.SIGCONT)
    manager.wait_for("WATCHDOG=1", 2)
    connection.close()
    servers.REDIS.kill()
    servers.POSTGRES.kill()
    manager.wait_for("STATUS=" + AWAY[part])
    manager.wait_for("WATCHDOG=1", 4)
    servers.REDIS.start()
    servers.POSTGRES.start()
    manager.wait_for("STATUS=" + WELL[part])
    assert started.stop() == 0
    assert manager.said[-1][0] == "STOPPING=1"


AWAY: dict[Callable[[Product], Start], str] = {
    worker: "0 of 8 slots busy, waits: ",
    relay: "backs off: ",
    scheduler: "backs off: ",
}
WELL: dict[Callable[[Product], Start], str] = {
    worker: "0 of 8 slots busy",
    relay: "relaying",
    scheduler: f"{len(declared())} schedules",
}


def state_of(process: Process) -> str:
    with open(f"/proc/{process.popen.pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_a_worker_whose_slots_are_full_says_so_and_is_no_frozen_one(
    drill: Drill, manager: Manager
) -> None:
    jobs = drill.put(9, ms=600_000)
    started = worker(drill.product)(**manager.environment)
    manager.wait_for("STATUS=8 of 8 slots busy, oldest job ")
    manager.wait_for("WATCHDOG=1", 4)
    drill.open_gate()
    drill.all_done_once(jobs)
    assert started.stop() == 0


def test_a_worker_with_a_job_past_twice_its_limit_feeds_no_watchdog_and_leaves(
    drill: Drill, manager: Manager
) -> None:
    """`drill_hang` has half a second; what runs beside it is finished within the grace."""
    patient = drill.put(1, ms=4_000)
    started = drill.product.plain_worker("one", "--grace", "20", **manager.environment)
    manager.wait_for("STATUS=1 of 8 slots busy")
    drill.put(1, kind="drill_hang")
    manager.wait_for("STOPPING=1")
    fed = manager.heard("WATCHDOG=1")
    assert started.ended() == Exit.STUCK
    assert manager.heard("WATCHDOG=1") == fed
    assert drill.effects() == patient


def test_a_worker_that_waits_for_its_name_is_given_the_time(drill: Drill, manager: Manager) -> None:
    first = worker(drill.product)()
    first.wait_until_said("is ready")
    second = drill.product.plain_worker("one", **manager.environment)
    manager.wait_for("EXTEND_TIMEOUT_USEC=")
    assert second.ended(duration("NAME_WAIT") + 20) == Exit.NAME_TAKEN
    assert not manager.heard("READY=1")


def test_a_manager_may_listen_at_an_abstract_socket_and_may_be_gone(drill: Drill) -> None:
    with Manager(abstract=True) as manager:
        started = worker(drill.product)(**manager.environment)
        manager.wait_for("WATCHDOG=1", 2)
    drill.all_done_once(drill.put(3))
    assert started.stop() == 0
