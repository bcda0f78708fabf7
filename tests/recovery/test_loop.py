"""The worker's loop: never starved by handlers, its lag measured, its name for the log."""

import signal
import time
import urllib.request

from stagedoor.embedded import free_port
from tests.processes import duration, wait_for
from tests.recovery.conftest import Drill


def lag(port: int) -> float:
    """What the worker exports, in seconds."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return next(float(x.split()[1]) for x in lines if x.startswith("stagedoor_loop_lag_seconds "))


def test_a_stopped_worker_says_how_late_its_loop_is(drill: Drill) -> None:
    worker = drill.product.plain_worker("one")
    worker.wait_until_said("is ready")
    worker.signal(signal.SIGSTOP)
    stopped = time.monotonic()
    wait_for(lambda: time.monotonic() - stopped > duration("LAG_LIMIT") + 1, "some seconds")
    worker.signal(signal.SIGCONT)
    worker.wait_until_said("s late: starved, or the process was stopped")
    jobs = drill.put(3)
    drill.all_done_once(jobs)


def test_handlers_that_compute_all_the_time_do_not_starve_the_loop(drill: Drill) -> None:
    """Eight threads that never wait: the loop still renews its leases, and says how late it is."""
    port = free_port()
    jobs = drill.put(8, kind="drill_spin", ms=int(duration("LEASE") * 1500))
    worker = drill.product.plain_worker("one", "--metrics-port", str(port))
    worker.wait_until_it_runs("drill_spin", 8)
    other = drill.product.plain_worker("two")
    seen: list[float] = []
    while len(drill.effects()) < 8:
        seen.append(lag(port))
    drill.all_done_once(jobs)
    assert max(seen) < duration("LAG_LIMIT")
    assert not other.said("drill_spin"), "no lease was lost"
