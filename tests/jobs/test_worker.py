"""The worker's loop on a real stream: reading, sorting, acknowledging, draining, outages."""

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import redis as redis_client
from django.conf import settings as django_settings
from django.db import connection, transaction

from jobs import processes, publishing
from jobs.exits import Exit
from jobs.job import Job
from jobs.models import OutboxRow, ProcessedJob, RefusedEntry
from jobs.outbox import enqueue
from jobs.pool import Pool
from jobs.pulse import TICK, Pulse
from jobs.runner import Runner
from jobs.sorting import Sorter
from jobs.stream import Letters, RelayStream, WorkerStream
from jobs.worker import Worker
from tests import servers
from tests.conftest import MailFolder, Register
from tests.people import buy, new_type
from tests.processes import Product, compute_processes, wait_for

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class Args:
    number: int


class Gate:
    """Holds handlers until it is opened, and counts who came."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self.open = threading.Event()

    def pass_through(self, number: int) -> None:
        self.came.append(number)
        assert self.open.wait(60)


@pytest.fixture
def gate(kind: Register) -> Gate:
    made = Gate()

    @kind("gated")
    def gated(job: Job[Args]) -> None:
        made.pass_through(job.args.number)
        with job.effects():
            pass

    return made


@pytest.fixture
def fast(settings: Any) -> None:
    """Short times: the shipped ones are for people."""
    short = {"BLOCK": 1.0, "NAME_TTL": 1.0, "NAME_WAIT": 0.3, "BACKOFF_MAX": 0.5}
    settings.JOBS = {**settings.JOBS, **short}


@pytest.fixture
def stream(redis: redis_client.Redis, fast: None) -> RelayStream:
    made = RelayStream(django_settings.REDIS_URL)
    made.ensure_group()
    return made


class Running:
    """A worker in a thread of the test."""

    def __init__(self, name: str, slots: int, grace: float) -> None:
        self.exit: Exit | None = None
        self.pulse = Pulse(TICK)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._work(name, slots, grace)))
        self._thread.start()
        assert self._ready.wait(10)

    async def _work(self, name: str, slots: int, grace: float) -> None:
        self._loop = asyncio.get_running_loop()
        stream = WorkerStream(django_settings.REDIS_URL, name)
        letters = Letters(django_settings.REDIS_URL)
        self._worker = Worker(
            stream, Runner(name, Pool(0), letters), Sorter(letters, name),
            slots=slots, grace=grace, pulse=self.pulse,
        )  # fmt: skip
        self._ready.set()
        self.exit = await self._worker.run()

    def hang(self, until: threading.Event) -> None:
        """Something in the loop does not give it back."""
        self._loop.call_soon_threadsafe(until.wait, 60)

    def ask_to_stop(self) -> None:
        if not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._worker.stop)

    def stop(self) -> Exit | None:
        self.ask_to_stop()
        return self.ended()

    def let_go(self) -> None:
        """What the end of its process does for a worker that left jobs unfinished."""
        self._worker._threads.close()

    def ended(self) -> Exit | None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.exit


@contextlib.contextmanager
def working(name: str = "worker-1", slots: int = 8, grace: float = 30) -> Iterator[Running]:
    running = Running(name, slots, grace)
    try:
        yield running
    finally:
        running.stop()


def put(count: int = 1, kind: str = "gated") -> None:
    with transaction.atomic():
        for number in range(count):
            enqueue(kind, number=number)


def pending(redis: redis_client.Redis) -> int:
    with contextlib.suppress(redis_client.ResponseError):
        return int(redis.xpending("jobs", "workers")["pending"])
    return 0


def test_it_never_holds_more_entries_than_it_has_slots(
    gate: Gate, stream: RelayStream, redis: redis_client.Redis
) -> None:
    put(20)
    publishing.step(stream, 500)
    with working(slots=3):
        wait_for(lambda: len(gate.came) == 3, "three running jobs")
        assert pending(redis) == 3
        gate.open.set()
        wait_for(lambda: ProcessedJob.objects.count() == 20, "all jobs done")
        wait_for(lambda: pending(redis) == 0, "all acknowledged")
    assert len(gate.came) == 20


def test_stopping_finishes_what_runs_and_takes_nothing_new(
    gate: Gate, stream: RelayStream, redis: redis_client.Redis
) -> None:
    put(5)
    publishing.step(stream, 500)
    with working(slots=2) as worker:
        wait_for(lambda: len(gate.came) == 2, "two running jobs")
        worker.ask_to_stop()
        gate.open.set()
        assert worker.ended() is Exit.DRAINED
    assert len(gate.came) == 2
    assert ProcessedJob.objects.count() == 2
    assert pending(redis) == 0


def test_a_loop_that_hangs_is_ill_and_one_that_drains_is_not(
    gate: Gate, stream: RelayStream
) -> None:
    put()
    publishing.step(stream, 500)
    back = threading.Event()
    with working() as worker:
        wait_for(lambda: gate.came, "a running job")
        worker.hang(back)
        wait_for(lambda: worker.pulse.trouble(2 * TICK), "illness")
        back.set()
        wait_for(lambda: not worker.pulse.trouble(2 * TICK), "health")
        worker.ask_to_stop()
        asked = time.monotonic()
        while time.monotonic() < asked + 3 * TICK:
            assert not worker.pulse.trouble(2 * TICK)
        gate.open.set()


TAKES_UP = "takes up what a worker left unfinished: "


def test_what_is_unfinished_at_the_end_of_the_grace_stays_pending_and_runs_again(
    gate: Gate, stream: RelayStream, redis: redis_client.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "jobs.reading")
    put()
    publishing.step(stream, 500)
    with working(grace=0.1) as worker:
        wait_for(lambda: gate.came, "a running job")
        assert worker.stop() is Exit.UNFINISHED
    assert pending(redis) == 1
    entry = OutboxRow.objects.get().entry_id or ""
    assert not any(line.startswith(TAKES_UP) for line in caplog.messages)
    with working():
        wait_for(lambda: len(gate.came) == 2, "the job running again")
        gate.open.set()
        wait_for(lambda: pending(redis) == 0, "the job acknowledged")
    worker.let_go()
    [told] = [line for line in caplog.messages if line.startswith(TAKES_UP)]
    assert told == TAKES_UP + entry
    assert ProcessedJob.objects.count() == 1


def test_an_idle_worker_stops_without_waiting_for_its_blocking_read(
    stream: RelayStream, redis: redis_client.Redis, settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "BLOCK": 60.0}
    with working() as worker:
        wait_for(lambda: reader_is_blocked(redis), "a blocked reader")
        worker.ask_to_stop()
        wait_for(lambda: worker.exit is Exit.DRAINED, "the end", seconds=10)


def reader_is_blocked(redis: redis_client.Redis) -> bool:
    return any("b" in client["flags"] for client in redis.client_list())


NO_JOBS: dict[str, tuple[dict[Any, Any], str]] = {
    "no kind": ({"nonsense": "x"}, "malformed: kind: is missing"),
    "no number": (
        {"kind": "gated", "number": "x", "outbox_id": "1", "request_id": "", "trace": ""},
        "malformed: number: is not a whole number: 'x'",
    ),
    "no UTF-8": (
        {"kind": b"\xff", "number": "1", "outbox_id": "1", "request_id": "", "trace": ""},
        "malformed: kind: is not UTF-8",
    ),
    "unknown kind": (
        {"kind": "from a newer build", "outbox_id": "1", "request_id": "", "trace": ""},
        "UnknownJob: no outbox row 1",
    ),
    "no row": (
        {"kind": "gated", "number": "1", "outbox_id": "999999", "request_id": "", "trace": ""},
        "UnknownJob: no outbox row 999999",
    ),
}


@pytest.mark.parametrize("name", NO_JOBS)
def test_an_entry_that_is_no_job_is_refused_and_its_neighbours_are_done(
    name: str, gate: Gate, stream: RelayStream, redis: Any
) -> None:
    fields, reason = NO_JOBS[name]
    gate.open.set()
    put()
    publishing.step(stream, 500)
    entry_id = redis.xadd("jobs", fields)
    put()
    publishing.step(stream, 500)
    with working():
        wait_for(lambda: ProcessedJob.objects.count() == 2, "the good jobs done")
        wait_for(lambda: RefusedEntry.objects.exists(), "the bad one kept")
        wait_for(lambda: pending(redis) == 0, "nothing pending")
    refused = RefusedEntry.objects.get()
    assert (refused.entry_id, refused.reason) == (entry_id.decode(), reason)
    assert [bytes(part) for part in refused.raw] == [
        part if isinstance(part, bytes) else part.encode()
        for pair in fields.items()
        for part in pair
    ]
    [(_, letter)] = redis.xrange("jobs:dead")
    assert letter[b"error"].decode() == reason
    assert letter[b"entry_id"] == entry_id


def test_an_entry_of_a_done_job_is_acknowledged_and_not_run(
    gate: Gate, stream: RelayStream, redis: redis_client.Redis
) -> None:
    gate.open.set()
    put()
    publishing.step(stream, 500)
    [(_, fields)] = redis.xrange("jobs") or []
    redis.xadd("jobs", fields)  # type: ignore[arg-type]
    with working(slots=1):
        wait_for(lambda: ProcessedJob.objects.exists(), "the job done")
        wait_for(lambda: pending(redis) == 0, "both entries acknowledged")
    assert len(gate.came) == 1


@pytest.mark.parametrize("column", ["dead_at", "available_at"])
def test_an_entry_whose_row_is_dead_or_waits_is_acknowledged_and_not_run(
    column: str, gate: Gate, stream: RelayStream, redis: redis_client.Redis
) -> None:
    gate.open.set()
    put()
    publishing.step(stream, 500)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE jobs_outbox SET {column} = now() + interval '1 hour'")
    with working():
        wait_for(lambda: redis.xinfo_groups("jobs")[0]["lag"] == 0, "the entry read")
        wait_for(lambda: pending(redis) == 0, "the entry acknowledged")
    assert gate.came == []
    assert OutboxRow.objects.exists()


def test_stopping_while_an_entry_is_handed_over_loses_nothing(
    gate: Gate, stream: RelayStream, redis: redis_client.Redis
) -> None:
    """The stop meets the blocked read just as it is given an entry, each time a little later."""
    gate.open.set()
    for delay in range(24):
        with working(grace=5) as worker:
            wait_for(lambda: reader_is_blocked(redis), "a blocked reader")
            stop = threading.Timer(delay / 4000, worker.ask_to_stop)
            put()
            stop.start()
            publishing.step(stream, 500)
            assert worker.ended() in (Exit.DRAINED, Exit.UNFINISHED)
            stop.join()
        unread = int(redis.xinfo_groups("jobs")[0]["lag"])
        assert ProcessedJob.objects.count() + pending(redis) + unread == delay + 1
        with working():
            wait_for(lambda d=delay: ProcessedJob.objects.count() == d + 1, "the job done")  # type: ignore[misc]
            wait_for(lambda: pending(redis) == 0, "the job acknowledged")
    assert set(ProcessedJob.objects.values_list("attempts", flat=True)) == {0}


def test_a_stop_that_meets_the_moment_before_a_read_reads_no_more(
    gate: Gate, stream: RelayStream, redis: redis_client.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most slots are busy: the loop lets others gather, and finds the stop when it wakes."""
    monkeypatch.setattr("jobs.worker.GATHER", 0.5)
    put(3)
    publishing.step(stream, 500)
    with working(slots=4) as worker:
        wait_for(lambda: len(gate.came) == 3, "three running jobs")
        reads = reads_so_far(redis)
        worker.ask_to_stop()
        gate.open.set()
        assert worker.ended() is Exit.DRAINED
    assert reads_so_far(redis) == reads


def reads_so_far(redis: redis_client.Redis) -> int:
    """How many XREADGROUP the server has been sent."""
    return int(redis.info("commandstats")["cmdstat_xreadgroup"]["calls"])


def test_a_second_worker_of_one_name_is_refused_and_robs_nothing(
    gate: Gate, stream: RelayStream, redis: redis_client.Redis
) -> None:
    put()
    publishing.step(stream, 500)
    with working("same") as first:
        wait_for(lambda: gate.came, "a running job")
        with working("same") as second:
            assert second.ended() is Exit.NAME_TAKEN
        gate.open.set()
        wait_for(lambda: pending(redis) == 0, "the job done")
        assert first.stop() is Exit.DRAINED
    assert len(gate.came) == 1


def test_a_lost_stream_and_group_are_made_again_under_a_blocked_read(
    gate: Gate, stream: RelayStream, redis: redis_client.Redis
) -> None:
    gate.open.set()
    with working():
        wait_for(lambda: reader_is_blocked(redis), "a blocked reader")
        redis.flushall()
        put()
        stream.rebuilt_at = float("-inf")
        publishing.step(stream, 500)
        wait_for(lambda: ProcessedJob.objects.exists(), "the job done")


def test_redis_gone_in_mid_job_costs_nothing(
    gate: Gate, stream: RelayStream, redis: redis_client.Redis
) -> None:
    put()
    publishing.step(stream, 500)
    with working():
        wait_for(lambda: gate.came, "a running job")
        servers.REDIS.kill()
        gate.open.set()
        wait_for(lambda: ProcessedJob.objects.exists(), "the job done without Redis")
        servers.REDIS.start()
        put()
        RelayStream(django_settings.REDIS_URL).ensure_group()
        stream.rebuilt_at = float("-inf")
        publishing.step(stream, 500)
        wait_for(lambda: ProcessedJob.objects.count() == 2, "the next job done")


def test_postgresql_gone_in_mid_job_counts_no_attempt_and_the_job_runs_again(
    gate: Gate, stream: RelayStream, redis: redis_client.Redis
) -> None:
    put()
    publishing.step(stream, 500)
    with working():
        wait_for(lambda: gate.came, "a running job")
        servers.POSTGRES.kill()
        gate.open.set()
        connection.close()
        servers.POSTGRES.start()
        wait_for(lambda: len(gate.came) >= 2, "the job running again")
        wait_for(_one_is_done, "the job done")
        wait_for(lambda: pending(redis) == 0, "the job acknowledged")
    assert ProcessedJob.objects.get().attempts == 0


def _one_is_done() -> bool:
    return ProcessedJob.objects.count() == 1


def test_a_failed_job_waits_in_the_outbox_and_is_published_again(
    kind: Register, stream: RelayStream, redis: redis_client.Redis
) -> None:
    ran: list[int] = []

    @kind("second_time")
    def second_time(job: Job[Args]) -> None:
        ran.append(job.outbox_id)
        if len(ran) == 1:
            raise ValueError("once")
        with job.effects():
            pass

    put(kind="second_time")
    publishing.step(stream, 500)
    with working():
        wait_for(lambda: OutboxRow.objects.filter(attempts=1).exists(), "the retry noted")
        wait_for(lambda: pending(redis) == 0, "the failed delivery acknowledged")
        assert publishing.step(stream, 500) == 0
        OutboxRow.objects.update(available_at="2020-01-01T00:00Z")
        assert publishing.step(stream, 500) == 1
        wait_for(_one_is_done, "the job done")
    assert ProcessedJob.objects.get().attempts == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--slots", "0"), "a whole number from 1 to 100"),
        (("--grace", "-1"), "a whole number from 0 to 3600"),
        (("--render-processes", "many"), "a whole number from 0 to 64"),
        (("--name", "two words"), "without spaces"),
    ],
)
def test_a_bad_option_is_named_with_what_it_takes(
    options: tuple[str, ...], message: str, product: Product
) -> None:
    process = product.worker("bad", *options)
    assert process.ended() == 2
    assert message in process.log()


def test_a_bad_address_of_redis_is_named(product: Product) -> None:
    process = product.plain_worker("one", REDIS_URL="http://127.0.0.1:1")
    assert process.ended() == 2
    assert "REDIS_URL" in process.log()
    assert "Traceback" not in process.log()


def test_a_wrong_password_ends_the_worker_loudly(product: Product) -> None:
    address = django_settings.REDIS_URL.replace("@", "wrong@")
    process = product.worker(REDIS_URL=address)
    assert process.ended() == Exit.REFUSED
    assert "refused by a server" in process.log()


def test_a_refusal_of_what_helpers_do_ends_the_worker_rather_than_half_of_it(
    stream: RelayStream, redis: redis_client.Redis
) -> None:
    """Without its name, or without acknowledgements, a worker that reads on does harm."""
    with working() as worker:
        wait_for(lambda: reader_is_blocked(redis), "a blocked reader")
        redis.acl_setuser("default", enabled=True, commands=["-eval"], categories=None)
        try:
            assert worker.ended() is Exit.REFUSED
        finally:
            redis.acl_setuser("default", enabled=True, commands=["+eval"], categories=None)


def test_a_server_without_its_replicas_is_waited_for(
    gate: Gate, stream: RelayStream, redis: redis_client.Redis
) -> None:
    gate.open.set()
    put(2)
    publishing.step(stream, 500)
    redis.config_set("min-replicas-to-write", 1)
    try:
        with working() as worker:
            wait_for(
                lambda: redis.info("errorstats").get("errorstat_NOREPLICAS"), "a refused write"
            )
            redis.config_set("min-replicas-to-write", 0)
            wait_for(lambda: ProcessedJob.objects.count() == 2, "the jobs done")
            wait_for(lambda: pending(redis) == 0, "the jobs acknowledged")
            assert worker.stop() is Exit.DRAINED
    finally:
        redis.config_set("min-replicas-to-write", 0)


def test_a_worker_of_a_wrong_database_password_says_so_and_ends(product: Product) -> None:
    address = "postgres://nobody:wrong@" + servers.POSTGRES.url("x").split("@")[1]
    process = product.worker(DATABASE_URL=address)
    assert process.ended() == Exit.REFUSED
    assert "authentication failed" in process.log()


def test_a_second_worker_that_is_refused_leaves_the_first_ones_sign_of_life(
    stream: RelayStream, redis: redis_client.Redis
) -> None:
    with working("same"):
        wait_for(lambda: processes.alive("worker") == 1, "the first worker's sign of life")
        with working("same") as second:
            assert second.ended() is Exit.NAME_TAKEN
        assert processes.alive("worker") == 1


def test_a_second_signal_leaves_at_once_and_loses_nothing(
    product: Product, redis: redis_client.Redis, mailbox: MailFolder
) -> None:
    product.relay()
    worker = product.worker("twice", "--grace", "60")
    worker.wait_until_said("is ready")
    [child] = wait_for(lambda: compute_processes(worker.popen.pid), "a render process")
    os.kill(child, signal.SIGSTOP)
    buy(new_type())
    worker.wait_until_it_runs("render_tickets")
    worker.signal(signal.SIGTERM)
    worker.wait_until_said("stopping, ")
    worker.signal(signal.SIGTERM)
    assert worker.ended(5) == Exit.UNFINISHED
    assert pending(redis) == 1
    product.worker("twice")
    wait_for(lambda: mailbox.messages(), "the tickets emailed after all")
