"""Processes for CPU work: killed, crashed, recycled; the next piece of work finds a good one."""

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from jobs.compute_process import ComputeFailed, ComputeTimeout, ProcessDied
from jobs.pool import Pool, PoolBroken


def begun() -> None:
    """Told that the wait for a process is over."""


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    made = Pool(1, renders=1000)
    yield made
    made.close()


def double(number: int) -> int:
    return number * 2


def process_id() -> int:
    return os.getpid()


def end_by(number: int) -> None:
    os.kill(os.getpid(), number)


def spin() -> None:
    while True:
        pass


def fail() -> None:
    raise SystemExit("cannot")


def secret() -> str | None:
    return os.environ.get("SECRET_KEY")


def survives(number: int) -> int:
    os.kill(os.getpid(), number)
    return os.getpid()


def test_work_is_done_in_another_process(pool: Pool) -> None:
    assert pool.compute(60, begun, double, 21) == 42
    assert pool.compute(60, begun, process_id) != os.getpid()


def test_the_process_has_none_of_the_secrets(pool: Pool) -> None:
    assert os.environ["SECRET_KEY"]
    assert pool.compute(60, begun, secret) is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_process_that_dies_costs_its_own_work_only(pool: Pool, number: int) -> None:
    with pytest.raises(ProcessDied):
        pool.compute(60, begun, end_by, number)
    assert pool.compute(60, begun, double, 1) == 2


def test_work_past_its_limit_is_killed_with_its_process(pool: Pool) -> None:
    pid = pool.compute(60, begun, process_id)
    with pytest.raises(ComputeTimeout, match=r"more than 0\.2 s"):
        pool.compute(0.2, begun, spin)
    assert pool.compute(60, begun, process_id) != pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_an_error_keeps_its_process_and_its_traceback(pool: Pool) -> None:
    pid = pool.compute(60, begun, process_id)
    with pytest.raises(ComputeFailed, match="SystemExit: cannot"):
        pool.compute(60, begun, fail)
    assert pool.compute(60, begun, process_id) == pid


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_to_the_group_does_not_cut_the_work(pool: Pool, number: int) -> None:
    assert pool.compute(60, begun, survives, number) == pool.compute(60, begun, process_id)


def test_a_process_is_replaced_after_its_share_of_work() -> None:
    pool = Pool(1, renders=2)
    try:
        pids = [pool.compute(60, begun, process_id) for _ in range(4)]
    finally:
        pool.close()
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_each_process_does_one_thing_at_a_time() -> None:
    pool = Pool(2)
    both = threading.Barrier(2, timeout=30)
    pids: list[int] = []

    def work() -> None:
        both.wait()
        pids.append(pool.compute(60, begun, survives, signal.SIGINT))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pool.close()
    assert len(pids) == 2


def test_closing_ends_every_process() -> None:
    pool = Pool(2)
    pids = {pool.compute(60, begun, process_id) for _ in range(2)}
    started = time.monotonic()
    pool.close()
    assert time.monotonic() - started < 10
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_without_processes_the_caller_computes() -> None:
    assert Pool(0).compute(60, begun, process_id) == os.getpid()


def test_a_process_that_cannot_be_replaced_costs_one_call_and_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = Pool(1)
    try:
        with pytest.raises(ProcessDied):
            pool.compute(60, begun, end_by, signal.SIGKILL)
        start = pool._start
        failures = iter([OSError("Cannot allocate memory")] * 3)

        def start_or_fail() -> object:
            for failure in failures:
                raise failure
            return start()

        monkeypatch.setattr(pool, "_start", start_or_fail)
        with pytest.raises(PoolBroken):
            pool.compute(60, begun, double, 1)
        assert pool.compute(60, begun, double, 21) == 42
    finally:
        pool.close()


def test_the_limit_also_bounds_what_is_sent_to_a_stopped_process() -> None:
    pool = Pool(1)
    try:
        os.kill(pool.compute(60, begun, process_id), signal.SIGSTOP)
        with pytest.raises(ComputeTimeout):
            pool.compute(0.5, begun, len, b"x" * 5_000_000)
        assert pool.compute(60, begun, double, 21) == 42
    finally:
        pool.close()


def test_a_process_killed_while_idle_costs_the_next_work_nothing(pool: Pool) -> None:
    pid = pool.compute(60, begun, process_id)
    os.kill(pid, signal.SIGKILL)
    assert pool.compute(60, begun, double, 21) == 42


def test_a_warm_up_that_fails_is_the_pools_fault_and_not_the_works() -> None:
    pool = Pool(1, warm_up=["tests.jobs.test_pool.fail"])
    try:
        with pytest.raises(PoolBroken):
            pool.compute(60, begun, double, 21)
    finally:
        pool.close()


def unpicklable() -> object:
    return lambda: None


def test_a_result_that_cannot_be_sent_is_the_works_failure(pool: Pool) -> None:
    pid = pool.compute(60, begun, process_id)
    with pytest.raises(ComputeFailed, match="local object"):
        pool.compute(60, begun, unpicklable)
    assert pool.compute(60, begun, process_id) == pid


def allocate() -> int:
    return len(bytearray(400_000_000))


def test_a_process_may_allocate_so_much_and_no_more() -> None:
    pool = Pool(1, memory=300_000_000)
    try:
        with pytest.raises(ComputeFailed, match="MemoryError"):
            pool.compute(60, begun, allocate)
        assert pool.compute(60, begun, double, 21) == 42
    finally:
        pool.close()
