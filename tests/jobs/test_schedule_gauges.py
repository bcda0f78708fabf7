"""What any process tells of schedules: when they fire and fired, how late, how often not, why."""

import dataclasses
from collections.abc import Iterator
from datetime import timedelta

import pytest
import redis as redis_client
from django.utils import timezone

from jobs import schedule
from jobs.gauges import Looker
from jobs.gauges.collector import families
from jobs.job import Job
from jobs.models import OutboxRow, ProcessedJob, ScheduledRun, SchedulePause
from jobs.scheduler import step
from jobs.testing import drain
from tests.conftest import Arm, Register
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
    return all_told(looker).get(name)


def all_told(looker: Looker) -> dict[str, float]:
    """All of it; of due times by their result: `due_times_total skipped`."""
    return {
        " ".join([sample.name.removeprefix("stagedoor_schedule_"), *labels]): sample.value
        for family in families(looker.look())
        for sample in family.samples
        if sample.labels.get("schedule") == "minutely"
        for labels in [[value for key, value in sample.labels.items() if key != "schedule"]]
    }


def counted(looker: Looker) -> dict[str, float]:
    """Due times by result, those of which there were any."""
    found = all_told(looker).items()
    return {name.partition(" ")[2]: value for name, value in found if value and " " in name}


def test_a_schedule_that_no_scheduler_has_seen_tells_nothing(looker: Looker) -> None:
    assert all_told(looker) == {
        "paused": 0.0,
        **{
            f"due_times_total {result}": 0.0
            for result in ("on time", "caught up", "skipped", "paused", "suppressed")
        },
    }


def test_the_next_due_time_stays_until_somebody_decides_it(looker: Looker) -> None:
    step([MINUTELY], "one", START)
    assert told(looker, "next_due_timestamp_seconds") == after(30).timestamp()
    assert told(looker, "fired_timestamp_seconds") is None
    step([MINUTELY], "one", after(32.5))
    assert told(looker, "next_due_timestamp_seconds") == after(90).timestamp()
    assert told(looker, "fired_timestamp_seconds") == after(30).timestamp()
    assert told(looker, "late_seconds") == pytest.approx(2.5)


def test_a_process_of_the_build_before_knows_that_another_decides(looker: Looker) -> None:
    step([MINUTELY], "one", START)
    step([dataclasses.replace(MINUTELY, cron="*/2 * * * *")], "two", after(300))
    assert told(looker, "next_due_timestamp_seconds") == after(330).timestamp()


def test_of_due_times_that_did_not_fire_the_last_that_did_is_told(looker: Looker) -> None:
    step([MINUTELY], "one", START)
    step([MINUTELY], "one", after(31))
    schedule.forget("minutely")
    skips = dataclasses.replace(MINUTELY, catch_up=schedule.SKIP, grace=1)
    schedule.declare(skips)
    step([skips], "one", after(290))
    assert told(looker, "fired_timestamp_seconds") == after(30).timestamp()
    assert told(looker, "next_due_timestamp_seconds") == after(330).timestamp()


def test_a_run_by_hand_is_no_due_time_that_fired(looker: Looker) -> None:
    step([MINUTELY], "one", START)
    step([MINUTELY], "one", after(31))
    by_hand = {"name": "minutely", "result": "by hand", "outbox_id": 1, "seconds_late": 0}
    ScheduledRun.objects.create(due_at=after(40), last_due_at=after(40), **by_hand)
    assert told(looker, "fired_timestamp_seconds") == after(30).timestamp()
    assert counted(looker) == {"on time": 1}


def test_due_times_are_counted_by_what_became_of_them_and_stay_counted(looker: Looker) -> None:
    schedule.forget("minutely")
    skips = dataclasses.replace(MINUTELY, catch_up=schedule.ONCE, grace=1)
    schedule.declare(skips)
    step([skips], "one", START)
    SchedulePause.objects.create(name="minutely", since=after(0), until=after(60), by="ann")
    step([skips], "one", after(330.5))
    step([skips], "one", after(600))
    found = {"paused": 1, "skipped": 6, "caught up": 2, "on time": 1}
    assert counted(looker) == found
    ScheduledRun.objects.all().delete()
    assert counted(looker) == found, "whatever is purged"


def test_due_times_that_are_decided_again_after_a_cut_are_counted_once(
    looker: Looker, at_failpoint: Arm
) -> None:
    step([MINUTELY], "one", START)

    def cut(reached: str) -> None:
        if reached == "scheduler.moved":
            raise ZeroDivisionError

    at_failpoint(cut)
    assert step([MINUTELY], "one", after(31)).failed == ["minutely"]
    at_failpoint(None)
    assert counted(looker) == {}
    step([MINUTELY], "one", after(31))
    step([MINUTELY], "one", after(31))
    assert counted(looker) == {"on time": 1}


def test_what_a_clock_that_was_set_back_decides_again_is_counted_once(looker: Looker) -> None:
    step([MINUTELY], "one", START)
    step([MINUTELY], "one", after(150))
    step([MINUTELY], "one", START)
    step([MINUTELY], "one", after(150))
    assert counted(looker) == {"caught up": 1, "on time": 2}


def test_the_last_success_is_that_of_the_newest_job_that_is_done(looker: Looker) -> None:
    step([MINUTELY], "one", START)
    for minute in range(3):
        step([MINUTELY], "one", after(31 + 60 * minute))
    assert told(looker, "succeeded_timestamp_seconds") is None
    OutboxRow.objects.filter(scheduled_for=after(150)).update(
        available_at=timezone.now() + timedelta(hours=1)
    )
    drain()
    done = ProcessedJob.objects.get(scheduled_for=after(90))
    assert told(looker, "succeeded_timestamp_seconds") == done.processed_at.timestamp()


def test_a_paused_schedule_says_since_when(looker: Looker) -> None:
    step([MINUTELY], "one", START)
    SchedulePause.objects.create(name="minutely", since=after(0), until=after(10), by="ann")
    assert told(looker, "paused") == 0
    assert told(looker, "paused_since_timestamp_seconds") is None
    SchedulePause.objects.create(name="minutely", since=after(20), by="ann")
    assert told(looker, "paused") == 1
    assert told(looker, "paused_since_timestamp_seconds") == after(20).timestamp()
