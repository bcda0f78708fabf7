"""What any process tells of schedules: the next due time, the last one that fired, how late."""

import dataclasses
from collections.abc import Iterator

import pytest
import redis as redis_client

from jobs import schedule
from jobs.gauges import Looker
from jobs.gauges.collector import families
from jobs.job import Job
from jobs.scheduler import step
from tests.conftest import Register
from tests.jobs.scheduled import MINUTELY, START, Numbered, after

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _declared(kind: Register, redis: redis_client.Redis) -> Iterator[None]:
    @kind("example")
    def handle(job: Job[Numbered]) -> None:
        with job.effects():
            pass

    schedule.declare(MINUTELY)
    yield
    schedule.forget("minutely")


def told(looker: Looker, name: str) -> float | None:
    """That gauge of the minutely schedule."""
    found = {
        sample.labels["schedule"]: sample.value
        for family in families(looker.look())
        if family.name == f"stagedoor_schedule_{name}"
        for sample in family.samples
    }
    return found.get("minutely")


def test_a_schedule_that_no_scheduler_has_seen_tells_nothing(looker: Looker) -> None:
    for name in ("next_due_timestamp_seconds", "fired_timestamp_seconds", "late_seconds"):
        assert told(looker, name) is None


def test_the_next_due_time_stays_until_somebody_decides_it(looker: Looker) -> None:
    step([MINUTELY], "one", START)
    assert told(looker, "next_due_timestamp_seconds") == after(30).timestamp()
    assert told(looker, "fired_timestamp_seconds") is None
    step([MINUTELY], "one", after(32.5))
    assert told(looker, "next_due_timestamp_seconds") == after(90).timestamp()
    assert told(looker, "fired_timestamp_seconds") == after(30).timestamp()
    assert told(looker, "late_seconds") == pytest.approx(2.5)


def test_of_due_times_that_did_not_fire_the_last_that_did_is_told(looker: Looker) -> None:
    step([MINUTELY], "one", START)
    step([MINUTELY], "one", after(31))
    schedule.forget("minutely")
    skips = dataclasses.replace(MINUTELY, catch_up=schedule.SKIP, grace=1)
    schedule.declare(skips)
    step([skips], "one", after(290))
    assert told(looker, "fired_timestamp_seconds") == after(30).timestamp()
    assert told(looker, "next_due_timestamp_seconds") == after(330).timestamp()
