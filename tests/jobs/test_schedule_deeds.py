"""What a person does with a schedule: once, whatever is cut, and no due time is lost by it."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection, transaction
from django.utils import timezone

from jobs import past_slots, schedule_deeds
from jobs.job import Job
from jobs.models import JobEvent, OutboxRow, ScheduledRun, SchedulePause
from jobs.scheduler import step
from tests.books import books_are_in_order
from tests.conftest import Arm, Register
from tests.jobs.scheduled import MINUTELY, START, Numbered, after, story
from tests.processes import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _kind(kind: Register) -> None:
    @kind("example")
    def handle(job: Job[Numbered]) -> None:
        with job.effects():
            pass


def run(seconds: float, by: str = "carla") -> tuple[ScheduledRun, bool]:
    """Press "run now" on a page that was made so long after START."""
    with transaction.atomic(durable=True):
        return schedule_deeds.run_now(MINUTELY, after(seconds), by)


def pause(by: str = "carla") -> bool:
    with transaction.atomic(durable=True):
        return schedule_deeds.pause("minutely", "a test", by)[1]


def resume(by: str = "dora") -> bool:
    with transaction.atomic(durable=True):
        return schedule_deeds.resume("minutely", by)


def go(*seconds: float) -> None:
    for each in seconds:
        step([MINUTELY], "one", after(each))


# Run now.


def test_a_run_by_hand_is_a_slot_a_job_and_a_line_of_its_story() -> None:
    slot, made = run(10.5)
    row = OutboxRow.objects.get()
    assert made
    assert (slot.outbox_id, slot.result, slot.by, slot.count) == (row.pk, "by hand", "carla", 1)
    assert (row.kind, row.args, row.scheduled_for) == ("example", {"number": 1}, after(10.5))
    told = JobEvent.objects.get(outbox_id=row.pk)
    assert (told.what, told.by, told.note) == ("run by hand", "carla", "schedule minutely")
    assert run(10.5, by="dora") == (slot, False), "the same page again is the same run"
    assert run(11.5)[1], "another page is another run"
    assert OutboxRow.objects.count() == JobEvent.objects.count() == 2


def test_of_many_who_press_at_once_on_one_page_one_runs_it() -> None:
    def press(number: int) -> tuple[int | None, bool]:
        try:
            slot, made = run(10.5, by=f"staff-{number}")
            return slot.outbox_id, made
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        pressed = list(pool.map(press, range(4)))
    assert sum(made for _, made in pressed) == 1
    assert {job for job, _ in pressed} == {OutboxRow.objects.get().pk}


def test_cut_between_slot_and_job_nothing_is_written(at_failpoint: Arm) -> None:
    class Cut(Exception):
        pass

    def cut(place: str, name: str) -> None:
        if name == place:
            raise Cut

    for place in ("scheduler.slot_written", "scheduler.job_written"):
        at_failpoint(partial(cut, place))
        with pytest.raises(Cut):
            run(10.5)
        for model in (ScheduledRun, OutboxRow, JobEvent):
            assert not model.objects.exists()
    at_failpoint(None)
    assert run(10.5)[1]


def test_a_page_made_at_the_very_moment_of_a_due_time_does_not_swallow_it() -> None:
    go(0)
    assert run(30)[1]
    assert not run(30)[1]
    go(31)
    assert story() == ["16:00 on time", "16:00 by hand"]
    assert OutboxRow.objects.count() == 2


def test_a_run_by_hand_neither_joins_due_times_that_did_not_fire_nor_parts_them() -> None:
    go(0)
    SchedulePause.objects.create(name="minutely", since=START, reason="a test", by="ann")
    go(31, 91)
    run(100)
    go(151)
    run(160)
    # A scheduler that is late comes to a due time that is older than the run by hand.
    run(230)
    go(240, 271)
    assert story() == ["16:00-16:04 5 paused", *["16:01 by hand", "16:02 by hand", "16:03 by hand"]]
    assert OutboxRow.objects.count() == 3


def test_whether_it_fires_by_itself_is_told_without_runs_by_hand() -> None:
    go(0, 30)
    run(45.5)
    [own], [last] = past_slots.last_fired(["minutely", "x"]), past_slots.last_run(["minutely", "x"])
    assert (own.due_at, last.due_at) == (after(30), after(45.5))
    books_are_in_order()


# Pause and resume.


def test_of_two_who_pause_at_once_one_has() -> None:
    def press(number: int) -> bool:
        try:
            return pause(f"staff-{number}")
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(press, range(4))) == 1
    assert SchedulePause.objects.get().until is None


def test_paused_and_resumed_what_was_due_between_does_not_fire_and_the_rest_does() -> None:
    now = timezone.now()
    step([MINUTELY], "one", now)
    assert pause()
    assert not pause("dora"), "it is paused already"
    SchedulePause.objects.update(since=now)
    step([MINUTELY], "one", now + timedelta(minutes=3))
    assert not OutboxRow.objects.exists()
    assert resume()
    assert not resume()
    kept = SchedulePause.objects.get()
    assert (kept.by, kept.reason, kept.resumed_by) == ("carla", "a test", "dora")
    SchedulePause.objects.update(until=now + timedelta(minutes=3))
    step([MINUTELY], "one", now + timedelta(minutes=4))
    assert ScheduledRun.objects.filter(result="paused").get().count == 3
    assert OutboxRow.objects.count() == 1


def someone_waits() -> bool:
    """Whether a transaction waits for an advisory lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
        )
        return bool(cursor.fetchone()[0])


@pytest.mark.parametrize("deed", [pause, resume])
def test_each_waits_for_a_scheduler_that_is_at_the_schedule(
    deed: Callable[[], bool], at_failpoint: Arm
) -> None:
    """Else a due time could fire, or not, against the moments that the pause says."""
    now = timezone.now()
    if deed is resume:
        pause()
        SchedulePause.objects.update(since=now)
    step([MINUTELY], "one", now)
    with ThreadPoolExecutor(1) as pool:
        pressed: list[Future[bool]] = []

        def press() -> bool:
            try:
                return deed()
            finally:
                connection.close()

        def meanwhile(place: str) -> None:
            if place == "scheduler.locked":
                pressed.append(pool.submit(press))
                wait_for(lambda: pressed[0].done() or someone_waits(), "the deed")

        at_failpoint(meanwhile)
        step([MINUTELY], "one", now + timedelta(minutes=1))
        assert pressed[0].result(10)
    kept = SchedulePause.objects.get()
    assert (kept.until or kept.since) > ScheduledRun.objects.get().decided_at
