"""Each due time fires once: whoever is at it, whatever is cut, wherever the clock jumps."""

import contextlib
import dataclasses
import random
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, OperationalError, connection

from jobs import cursors, filling
from jobs.failpoint import FAILPOINTS
from jobs.job import Job
from jobs.models import OutboxRow, ScheduleCursor, ScheduledRun, SchedulePause
from jobs.schedule import ONCE, SKIP, Schedule, all_
from jobs.scheduler import Scheduler, Step, step
from tests.books import books_are_in_order
from tests.conftest import Arm, Register
from tests.jobs.scheduled import MINUTELY, START, Numbered, after, each_fired_once, fired, story

pytestmark = pytest.mark.django_db(transaction=True)
PLACES = [place for place in FAILPOINTS if place.startswith("scheduler.")]


@pytest.fixture(autouse=True)
def _kind(kind: Register) -> None:
    @kind("example")
    def handle(job: Job[Numbered]) -> None:
        with job.effects():
            pass


def begin(*schedules: Schedule) -> None:
    """The schedules appear at START."""
    step(schedules, "first", START)


def go(seconds: float, *schedules: Schedule, by: str = "one") -> list[str]:
    """One step so long after START; what it wrote, in words."""
    done = step(schedules or [MINUTELY], by, after(seconds))
    return [f"{slot.due_at:%H:%M} {slot.result}" for _, slot in done.written]


def test_a_due_time_becomes_a_slot_and_a_job_that_knows_it() -> None:
    begin(MINUTELY)
    assert go(30.4) == ["16:00 on time"]
    slot, row = ScheduledRun.objects.get(), OutboxRow.objects.get()
    assert (slot.outbox_id, slot.by) == (row.pk, "one")
    assert slot.seconds_late == pytest.approx(0.4)
    assert row.scheduled_for == slot.due_at == slot.last_due_at == after(30)
    assert (row.kind, row.args, row.lane) == ("example", {"number": 1}, "tickets")
    assert row.request_id
    assert row.trace


def test_the_same_step_again_and_again_fires_nothing_more() -> None:
    begin(MINUTELY)
    assert go(30) == ["16:00 on time"]
    assert go(30) == go(30.001) == go(89) == []
    assert each_fired_once()


def test_a_schedule_that_appears_for_the_first_time_fires_nothing_of_the_past() -> None:
    begin(MINUTELY)
    assert story() == []
    assert not OutboxRow.objects.exists()


def test_first_seen_just_before_a_due_time_and_stopped_it_is_made_up_for() -> None:
    """Also the first appearance is written down: 15:59:59 and 16:00:16, two processes."""
    schedule = dataclasses.replace(MINUTELY, cron="0 16 * * *")
    step([schedule], "one", after(29))
    assert go(46, schedule, by="two") == ["16:00 on time"]
    assert ScheduledRun.objects.get().seconds_late == 16


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        (SKIP, ["16:00-15:58 5759 skipped", "15:59 on time"]),
        (ONCE, ["16:00-15:57 5758 skipped", "15:58 caught up", "15:59 on time"]),
        (
            all_(2),
            ["16:00-15:56 5757 skipped", "15:57 caught up", "15:58 caught up", "15:59 on time"],
        ),
    ],
)  # fmt: skip
def test_four_days_down_is_made_up_for_as_the_schedule_says_in_one_go(
    policy: Any, found: list[str]
) -> None:
    schedule = dataclasses.replace(MINUTELY, catch_up=policy, grace=45.0)
    begin(schedule)
    step([schedule], "one", START + timedelta(days=4))
    assert story() == found
    assert each_fired_once()
    assert go(4 * 86400 + 1, schedule) == []


def test_skipped_due_times_in_a_row_share_a_row() -> None:
    schedule = dataclasses.replace(MINUTELY, catch_up=SKIP, grace=0.0)
    begin(schedule)
    for minutes in range(1, 5):
        go(minutes * 60, schedule)
    go(4 * 60 + 30, schedule)
    go(6 * 60, schedule)
    assert story() == ["16:00-16:03 4 skipped", "16:04 on time", "16:05 skipped"]
    assert not OutboxRow.objects.exclude(scheduled_for=after(4 * 60 + 30)).exists()
    told = story()
    ScheduleCursor.objects.update(decided_until=START)
    assert go(6 * 60, schedule) == []
    assert story() == told, "none is counted twice"


def test_the_second_showing_of_a_time_of_day_has_a_row_and_no_job() -> None:
    schedule = dataclasses.replace(MINUTELY, cron="30 2 * * *", tz="Europe/Berlin")
    night = datetime.fromisoformat("2026-10-25T00:00+00:00")
    for minutes in range(0, 180, 10):
        step([schedule], "one", night + timedelta(minutes=minutes))
    assert story() == ["00:30 on time", "01:30 suppressed"]
    assert OutboxRow.objects.count() == 1


# What is paused, removed, changed.


def pause(since: float, until: float | None = None) -> None:
    end = None if until is None else after(until)
    SchedulePause.objects.create(
        name="minutely", since=after(since), until=end, reason="a test", by="ann"
    )


def test_due_times_in_a_pause_have_a_row_and_no_job_and_are_not_made_up_for() -> None:
    begin(MINUTELY)
    pause(20, until=160)
    for seconds in (30, 95, 155, 165, 210):
        go(seconds)
    assert story() == ["16:00-16:02 3 paused", "16:03 on time"]
    assert each_fired_once()


def test_a_pause_made_since_a_scheduler_looked_counts() -> None:
    begin(MINUTELY)
    [known] = cursors.read([MINUTELY], after(0)).values()
    pause(20)
    assert filling.fill_slots(MINUTELY, known, after(30), "one") is None
    assert go(31) == ["16:00 paused"]


def test_a_pause_that_began_and_ended_while_no_scheduler_ran_counts_all_the_same() -> None:
    begin(MINUTELY)
    pause(80, until=160)
    assert go(330) == [
        "16:00 caught up", "16:01 paused", "16:03 caught up", "16:04 on time", "16:05 on time",
    ]  # fmt: skip
    assert each_fired_once()


def test_a_changed_expression_goes_on_from_where_the_old_one_was() -> None:
    begin(MINUTELY)
    go(30)
    changed = dataclasses.replace(MINUTELY, cron="*/2 * * * *")
    assert go(150, changed) == ["16:02 on time"]
    assert each_fired_once()


def test_two_builds_with_different_expressions_take_no_due_time_from_each_other() -> None:
    """The old one looks first, finds nothing due, and must not put the time behind both."""
    odd = dataclasses.replace(MINUTELY, cron="1-59/2 * * * *")
    even = dataclasses.replace(MINUTELY, cron="*/2 * * * *")
    begin(odd)
    begin(even)
    for seconds in range(0, 300, 15):
        go(seconds + 0.1, odd)
        go(seconds + 0.2, even)
    assert [f"{due:%M}" for due in fired()] == ["00", "01", "02", "03", "04"]
    assert each_fired_once()


def test_an_expression_that_is_put_back_goes_on_from_where_the_other_was() -> None:
    """A deploy was taken back: what it was there for is not made up for a second time."""
    before = dataclasses.replace(MINUTELY, cron="*/2 * * * *")
    changed = dataclasses.replace(MINUTELY, cron="1-59/2 * * * *")
    begin(before)
    go(31, before)
    for seconds in range(45, 376, 15):
        go(seconds, changed)
    assert go(395, before) == ["16:06 on time"]
    assert [f"{due:%M}" for due in fired()] == ["00", "01", "03", "05", "06"]


def test_beside_another_expression_a_build_may_be_away_for_a_moment() -> None:
    even = dataclasses.replace(MINUTELY, cron="*/2 * * * *")
    odd = dataclasses.replace(MINUTELY, cron="1-59/2 * * * *")
    begin(even)
    go(15, even)
    for seconds in (15, 30, 44):
        go(seconds, odd)
    assert go(44.5, even) == ["16:00 on time"]


def test_a_schedule_that_was_removed_and_comes_again_starts_anew() -> None:
    other = dataclasses.replace(MINUTELY, name="other")
    begin(MINUTELY, other)
    assert cursors.forget([other], after(3600), 3600) == 0
    assert cursors.forget([other], after(3601), 3600) == 1
    assert cursors.forget([other], after(9999), 3600) == 0, "its own are never forgotten"
    assert go(7200) == []
    assert go(7230) == ["18:00 on time"]


def test_a_schedule_that_is_put_back_soon_makes_up_for_the_time_between() -> None:
    begin(MINUTELY)
    cursors.forget([], after(150), 3600)
    assert go(151) == ["16:00 caught up", "16:01 caught up", "16:02 on time"]


# Clocks.


def test_a_clock_that_jumps_back_fires_nothing_twice_and_nothing_is_left_out() -> None:
    begin(MINUTELY)
    go(30)
    go(95)
    assert go(20) == []
    assert go(31) == go(91) == []
    assert go(150) == ["16:02 on time"]
    assert each_fired_once()


def test_one_of_two_clocks_is_three_seconds_ahead(caplog: Any) -> None:
    begin(MINUTELY)
    for second in range(0, 300, 3):
        go(second + 3.2, by="ahead")
        go(second + 0.1, by="right")
    assert [f"{due:%H:%M}" for due in fired()] == [f"16:0{n}" for n in range(5)]
    assert set(ScheduledRun.objects.values_list("result", flat=True)) == {"on time"}
    assert each_fired_once()
    assert "the clock went back" not in caplog.text, "another looked a moment later"


def test_a_clock_that_was_days_ahead_for_a_moment_does_not_silence_a_schedule() -> None:
    begin(MINUTELY)
    step([dataclasses.replace(MINUTELY, catch_up=SKIP)], "ahead", START + timedelta(days=3))
    go(0)
    assert go(30) == [], "the row of what was skipped begins with it"
    assert go(90) == ["16:01 on time"]


def test_another_build_that_was_days_ahead_for_a_moment_silences_no_schedule() -> None:
    """It is gone, and nobody sets its cursor back."""
    begin(MINUTELY)
    step([dataclasses.replace(MINUTELY, cron="0 0 1 1 *")], "gone", START + timedelta(days=3))
    assert go(30) == ["16:00 on time"]
    assert go(90) == ["16:01 on time"]


def test_what_another_has_decided_meanwhile_is_not_moved() -> None:
    begin(MINUTELY)
    known = cursors.read([MINUTELY], after(0))
    go(30)
    cursors.move([MINUTELY], known, after(20))
    assert ScheduleCursor.objects.get().decided_until == after(30)


def test_no_clock_but_postgresqls_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        before = cursor.fetchone()[0]
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert before < step([MINUTELY], "one").now < before + timedelta(seconds=30)
    assert ScheduleCursor.objects.get().decided_until > before


@pytest.mark.parametrize(
    ("seconds", "wait"), [(0, 10.0), (22, 8.0), (29.5, 0.5), (30, 10.0), (85, 5.0)]
)
def test_a_scheduler_wakes_at_the_next_due_time_and_looks_every_ten_seconds(
    seconds: float, wait: float
) -> None:
    scheduler = Scheduler(
        [MINUTELY, dataclasses.replace(MINUTELY, name="yearly", cron="0 0 1 1 *")]
    )
    assert scheduler._seconds_after(Step(after(seconds))) == pytest.approx(wait, abs=0.1)
    busy = scheduler._seconds_after(Step(after(seconds), busy=True))
    assert busy == pytest.approx(0.5, abs=0.1)
    began = time.monotonic() - 20
    assert scheduler._seconds_after(Step(after(22), began=began)) == 0.0
    assert Scheduler([])._seconds_after(Step(after(0))) == 10.0


# Locks and cuts.


def test_of_schedulers_that_wake_together_one_does_the_work() -> None:
    begin(MINUTELY)
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s, hashtext('minutely'))", [filling.LOCK])
        done = step([MINUTELY], "two", after(30))
        assert (done.written, done.busy) == ([], True)
    assert go(31) == ["16:00 on time"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM pg_locks WHERE locktype = 'advisory'")
        assert not cursor.fetchall(), "it ends with its transaction"


def test_the_lock_saves_work_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, and with the cursor lost, the unique slot alone lets each fire once."""
    begin(MINUTELY)
    monkeypatch.setattr(filling, "_try_lock", lambda name: True)
    run_together(8, lambda number: go(30 + 60 * 20, by=f"scheduler {number}"))
    ScheduleCursor.objects.update(decided_until=START)
    go(30 + 60 * 20)
    assert len(fired()) == 21
    assert each_fired_once()


def run_together(number: int, work: Callable[[int], object]) -> None:
    """Call `work` in so many threads that start at once, each with its own connection."""
    barrier = threading.Barrier(number)
    raised: list[BaseException] = []

    def run(which: int) -> None:
        barrier.wait()
        try:
            work(which)
        except BaseException as error:
            raised.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[which]) for which in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert raised == []


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it, the transaction is left as it is."""


@pytest.mark.parametrize("schedulers", [2, 5])
@pytest.mark.parametrize("place", PLACES)
def test_several_at_once_and_one_killed_at_each_line(
    place: str, schedulers: int, at_failpoint: Arm
) -> None:
    begin(MINUTELY)
    killed = threading.Lock()

    def kill_first(reached: str) -> None:
        if reached == place and killed.acquire(blocking=False):
            raise Killed

    at_failpoint(kill_first)
    deaths = []

    def live(number: int) -> None:
        try:
            for minute in range(3):
                while step([MINUTELY], f"{number}", after(31 + 60 * minute)).busy:
                    pass
        except Killed:
            deaths.append(number)

    run_together(schedulers, live)
    assert len(deaths) == 1
    assert [f"{due:%H:%M}" for due in fired()] == ["16:00", "16:01", "16:02"]
    assert each_fired_once()


def test_a_slot_without_its_job_is_impossible(at_failpoint: Arm) -> None:
    begin(MINUTELY)

    def die(reached: str) -> None:
        if reached == "scheduler.slot_written":
            assert ScheduledRun.objects.count() == 1, "this transaction sees it"
            raise Killed

    at_failpoint(die)
    with pytest.raises(Killed):
        go(30)
    at_failpoint(None)
    assert not ScheduledRun.objects.exists()
    assert not OutboxRow.objects.exists()
    assert go(31) == ["16:00 on time"]
    assert each_fired_once()


@pytest.mark.parametrize("place", ["scheduler.locked", "scheduler.slot_written", "scheduler.moved"])
def test_the_locks_holder_is_terminated_and_another_fires(place: str, at_failpoint: Arm) -> None:
    begin(MINUTELY)

    def terminate(reached: str) -> None:
        if reached == place:
            at_failpoint(None)
            with psycopg.connect(**connection.get_connection_params(), autocommit=True) as other:
                [(holder,)] = other.execute(
                    "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"
                    " AND classid = %s",
                    [filling.LOCK],
                ).fetchall()
                other.execute("SELECT pg_terminate_backend(%s, 5000)", [holder])

    at_failpoint(terminate)
    with pytest.raises(OperationalError):
        go(30)
    connection.close()
    assert story() == []
    assert go(31, by="two") == ["16:00 on time"]
    assert each_fired_once()


def test_a_schedule_whose_job_cannot_be_written_keeps_the_others_from_nothing(caplog: Any) -> None:
    broken = dataclasses.replace(MINUTELY, name="broken", kind="nobody")
    begin(broken, MINUTELY)
    assert go(30, broken, MINUTELY) == ["16:00 on time"]
    assert "schedule broken cannot be decided" in caplog.text
    assert story("broken") == []
    mended = dataclasses.replace(broken, kind="example")
    assert go(60, mended) == ["16:00 on time"], "what it could not write is still to be decided"


def test_three_hundred_fires_among_kills_lost_connections_and_wrong_clocks(
    at_failpoint: Arm,
) -> None:
    begin(MINUTELY)
    minutes, ahead = 300, [0.0, 3.0, -2.0, 20.0, 0.5]
    mine, deaths = threading.local(), []
    together = threading.Barrier(len(ahead))

    def cut(reached: str) -> None:
        mine.left -= reached in PLACES
        if mine.left == 0:
            deaths.append(reached)
            if random.random() < 0.7:
                raise Killed
            connection.connection.close()

    def live(number: int) -> None:
        for minute in range(0, minutes, 6):
            together.wait(60)
            mine.left = random.choice([random.randint(1, 6), random.randint(1, 6), -1])
            with contextlib.suppress(Killed, DatabaseError, psycopg.Error):
                step([MINUTELY], f"{number}", after(60 * minute + ahead[number]))
                continue
            connection.close()

    at_failpoint(cut)
    run_together(len(ahead), live)
    at_failpoint(None)
    go(60 * minutes)
    assert len(deaths) > 10
    assert len(fired()) == ScheduledRun.objects.count() == minutes
    assert each_fired_once()
    books_are_in_order()
