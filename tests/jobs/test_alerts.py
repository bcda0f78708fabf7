"""What a scrape tells, and what the shipped alerts make of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis as redis_client
from prometheus_client import generate_latest

from jobs import processes
from jobs.gauges import QueueCollector
from tests import servers
from tests.alerts import age, check_alerts, samples

from .looks import about, ago, deliver, near, publish, put, shift

pytestmark = pytest.mark.django_db(transaction=True)
LATE = {"StagedoorTicketsLate", "StagedoorTicketsVeryLate"}
OTHERS = {
    "StagedoorNoWorker", "StagedoorNoRelay", "StagedoorDeadJobs", "StagedoorUnaccountedRows",
    "StagedoorProbeFailing", "StagedoorBlind",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _well(redis: redis_client.Redis) -> None:
    redis.xgroup_create("jobs", "workers", "0", mkstream=True)
    for role in ("worker", "relay", "scheduler"):
        processes.say_alive(role, f"{role}-1", "x")


@pytest.fixture
def queue() -> Iterator[QueueCollector]:
    made = QueueCollector()
    yield made
    made.close()


def page(queue: QueueCollector) -> str:
    return generate_latest(queue).decode()


def test_nothing_to_do_wakes_nobody(queue: QueueCollector, tmp_path: Path) -> None:
    check_alerts(page(queue), tmp_path, fires=set(), silent=LATE | OTHERS)


def test_a_retry_that_is_parked_for_ten_hours_wakes_nobody(
    queue: QueueCollector, tmp_path: Path
) -> None:
    [row] = put()
    shift("due_at", row, -36_000)
    shift("available_at", row, 36_000)
    told = page(queue)
    found = samples(told)
    parked = found["stagedoor_oldest_by_reason_timestamp_seconds", "retry_wait", "postgresql"]
    assert found["stagedoor_clock_timestamp_seconds", "postgresql"] - parked == near(36_000)
    check_alerts(told, tmp_path, fires=set(), silent=LATE | OTHERS)


def test_a_job_that_waits_for_five_minutes_pages(
    queue: QueueCollector, redis: redis_client.Redis, tmp_path: Path
) -> None:
    [row] = put()
    shift("due_at", row, -300)
    publish(redis, row, ago(redis, 300))
    check_alerts(page(queue), tmp_path, fires=LATE, silent=OTHERS)


def test_a_queue_that_is_drained_is_quiet_at_the_next_scrape(
    queue: QueueCollector, redis: redis_client.Redis, tmp_path: Path
) -> None:
    [row] = put()
    shift("due_at", row, -300)
    entry = publish(redis, row, ago(redis, 300))
    deliver(redis)
    assert age(page(queue)) == near(300)
    about(row).delete()
    redis.xack("jobs", "workers", entry)
    told = page(queue)
    assert age(told) == 0
    check_alerts(told, tmp_path, fires=set(), silent=LATE | OTHERS)


def test_while_redis_is_away_the_probe_alerts_and_the_age_still_rises(
    queue: QueueCollector, tmp_path: Path
) -> None:
    [row] = put()
    shift("due_at", row, -300)
    servers.REDIS.kill()
    try:
        first = page(queue)
        shift("due_at", row, -310)
        second = page(queue)
    finally:
        servers.REDIS.start()
    assert samples(second)["stagedoor_probe_success", "redis"] == 0
    assert age(second) - age(first) == pytest.approx(10, abs=1)
    fires = {*LATE, "StagedoorProbeFailing"}
    check_alerts(second, tmp_path, fires=fires, silent=OTHERS - fires)
