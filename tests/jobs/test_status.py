"""`manage.py jobs status`: what is there, what is wrong, and never nothing for not known."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client
from django.db import connection, transaction
from django.db.models.functions import Now

from jobs import holds, processes
from jobs.models import KindHold, OutboxRow, ProcessedJob, RefusedEntry
from jobs.outbox import enqueue
from jobs.status import clock, one_line, screen
from tests.drill.handlers import TABLE
from tests.processes import Process, Product, wait_for

from .looks import (
    AWAY,
    CLOSED,
    TOLERANCE,
    about,
    ago,
    deliver,
    idle_for,
    near,
    publish,
    put,
    run,
    shift,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _well(redis: redis_client.Redis) -> None:
    """A group, a worker, a relay and a scheduler: nothing is wrong."""
    redis.xgroup_create("jobs", "workers", "0", mkstream=True)
    processes.say_alive("worker", "worker-1", "reading")
    processes.say_alive("relay", "relay-1", "relaying")
    processes.say_alive("scheduler", "scheduler-1", "3 schedules")


def status() -> dict[str, Any]:
    """What scripts read; the exit code agrees with it, and so does the screen."""
    code, text, _ = run("status", "--json")
    found: dict[str, Any] = json.loads(text)
    assert code == (1 if found["problems"] else 0)
    assert run("status")[0] == code
    return found


def problem() -> str:
    """The one thing that is wrong; people read it too."""
    [found] = status()["problems"]
    code, text, _ = run("status")
    assert code == 1
    # The seconds in it go on.
    assert f"WRONG   {found[:20]}" in text
    return str(found)


# What is there


def test_an_empty_queue_is_well() -> None:
    found = status()
    assert found["problems"] == []
    assert found["books"]["kinds"] == []
    assert found["books"]["age"] is found["books"]["not_relayed"] is None
    assert found["stream"] == {
        "length": 0,
        "letters": 0,
        "group": True,
        "waiting": None,
        "running": None,
        "consumers": [],
    }
    code, text, _ = run("status")
    assert code == 0
    assert text.endswith("\nok\n")
    assert "oldest job -, oldest not relayed -" in text


def test_rows_are_counted_by_kind_and_state(redis: redis_client.Redis) -> None:
    _, retry, relayed, dead, discarded = put(5)
    put(2, "drill_slow")
    shift("available_at", retry, 3600)
    publish(redis, relayed)
    about(dead).update(dead_at=Now())
    about(discarded).update(dead_at=Now(), discarded_at=Now())
    books = status()["books"]
    states = {
        "due": 1,
        "held": 0,
        "waiting_for_retry": 1,
        "relayed": 1,
        "dead": 1,
        "discarded": 1,
    }
    slow = {**dict.fromkeys(states, 0), "due": 2}
    assert books["kinds"] == [{"kind": "drill_row", **states}, {"kind": "drill_slow", **slow}]
    assert books["total"] == {"kind": "all", **states, "due": 3}
    assert books["next_retry_at"].startswith(
        about(retry).get().available_at.isoformat()[:19]
    )  # fmt: skip
    text = run("status")[1]
    assert "\ndrill_row   1    0     1                  1        1     1\n" in text
    assert "\nall         3    0     1                  1        1     1\n" in text
    assert f"next retry at {about(retry).get().available_at:%Y-%m-%d %H:%M:%S} UTC\n" in text


def test_the_overall_age_counts_from_when_a_live_job_was_due(redis: redis_client.Redis) -> None:
    retry, relayed, dead, later = put(4)
    shift("due_at", retry, -200)
    shift("available_at", retry, 3600)
    shift("due_at", relayed, -100)
    publish(redis, relayed)
    shift("due_at", dead, -5000)
    about(dead).update(dead_at=Now(), discarded_at=Now())
    shift("due_at", later, 500)
    shift("available_at", later, 500)
    books = status()["books"]
    assert books["age"] == near(200)
    assert books["not_relayed"] is None
    put(kind="drill_slow")
    assert status()["books"]["age"] == near(200)


def test_not_relayed_is_the_oldest_that_a_relay_should_have_taken() -> None:
    old, retried = put(2)
    shift("available_at", old, -20)
    shift("due_at", retried, -200)
    shift("available_at", retried, -1)
    put(kind="drill_slow")
    assert status()["books"]["not_relayed"] == near(20)
    assert "oldest not relayed 2" in run("status")[1]


def test_waiting_and_running_count_from_the_ids_by_the_clock_of_redis(
    redis: redis_client.Redis,
) -> None:
    for row, age in zip(put(4), (80, 70, 30, 20), strict=True):
        publish(redis, row, ago(redis, age))
    deliver(redis, count=2)
    oldest: Any = redis.xpending_range("jobs", "workers", "-", "+", 1)
    stream = status()["stream"]
    assert stream["running"] == near(80)
    assert stream["waiting"] == near(30)
    assert stream["length"] == 4
    redis.xack("jobs", "workers", oldest[0]["message_id"])
    deliver(redis, count=10)
    stream = status()["stream"]
    assert stream["running"] == near(70)
    assert stream["waiting"] is None


def test_pending_is_shown_by_consumer_with_the_longest_idle(redis: redis_client.Redis) -> None:
    entries = [publish(redis, row) for row in put(4)]
    deliver(redis, "worker-1", 3)
    deliver(redis, "worker-2")
    idle_for(redis, "worker-1", entries[1], 50)
    first, second = status()["stream"]["consumers"]
    assert first == {"name": "worker-1", "pending": 3, "idle": near(50)}
    assert second == {"name": "worker-2", "pending": 1, "idle": near(0)}
    text = run("status")[1]
    assert "stream 4 entries, 4 pending; 0 dead letters\n" in text
    assert "  worker-1  3 pending  longest idle 5" in text


def test_more_pending_entries_than_one_answer_holds_are_all_counted(
    redis: redis_client.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.stream.looking.PAGE", 3)
    for row in put(8):
        publish(redis, row)
    deliver(redis, count=8)
    [consumer] = status()["stream"]["consumers"]
    assert consumer["pending"] == 8
    assert len(run("pending")[1].splitlines()) == 9


def test_letters_and_refused_entries_are_counted(redis: redis_client.Redis) -> None:
    for number in range(3):
        redis.xadd("jobs:dead", {"kind": "gone"})
        RefusedEntry.objects.create(entry_id=f"{number}-1", raw=[], reason="malformed")
    found = status()
    assert (found["stream"]["letters"], found["books"]["refused"]) == (3, 3)


def test_real_processes_and_a_job_that_runs_are_shown(
    product: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis: redis_client.Redis
) -> None:
    gate = tmp_path / "gate"
    monkeypatch.setenv("DRILL_GATE", str(gate))
    processes.say_gone("worker", "worker-1")
    processes.say_gone("relay", "relay-1")
    product.relay()
    product.plain_worker("worker-7")
    with transaction.atomic():
        row = enqueue("drill_row", number=1, ms=600_000)
    wait_for(Path(f"{gate}-begun").exists, "a job at the gate")
    found = status()
    alive = {process["role"]: process for process in found["books"]["processes"]}
    assert found["problems"] == []
    assert alive.keys() == {"worker", "relay", "scheduler"}
    assert alive["worker"]["name"] == "worker-7"
    assert found["stream"]["running"] is not None
    assert [one["name"] for one in found["stream"]["consumers"]] == ["worker-7"]
    code, text, _ = run("pending")
    assert code == 0
    assert text.splitlines()[1].split()[1:4] == [str(row), "drill_row", "worker-7"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.04, "0.0 s"), (59.9, "59.9 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_a_time_is_written_for_people(seconds: float | None, text: str) -> None:
    assert screen.span(seconds) == text


# Kinds that are held


BY_BREAKER = "drill_row is held: its jobs fail one after the other: ConnectionRefusedError: 111"


def trip(kind: str = "drill_row", times: int = 1) -> None:
    """The breaker holds the kind, so many times in a row."""
    for number in range(times):
        if number:
            KindHold.objects.filter(kind=kind).update(until=Now() - timedelta(seconds=1))
        holds.trip(kind, "ConnectionRefusedError: 111")


def test_rows_of_a_held_kind_are_held_and_in_no_other_state(redis: redis_client.Redis) -> None:
    _, retry, relayed, dead, discarded = put(5)
    put(2, "drill_slow")
    shift("available_at", retry, 3600)
    publish(redis, relayed)
    about(dead).update(dead_at=Now())
    about(discarded).update(dead_at=Now(), discarded_at=Now())
    holds.pause("drill_row", 60, "provider moves", "ann@desk")
    books = status()["books"]
    assert books["kinds"][0] == {
        "kind": "drill_row",
        "due": 0,
        "held": 1,
        "waiting_for_retry": 1,
        "relayed": 1,
        "dead": 1,
        "discarded": 1,
    }
    assert (books["kinds"][1]["due"], books["kinds"][1]["held"]) == (2, 0)
    assert (books["total"]["due"], books["total"]["held"]) == (2, 1)
    assert "\ndrill_row   0    1     1                  1        1     1\n" in run("status")[1]


@pytest.mark.parametrize(
    ("by", "left", "held"),
    [
        (KindHold.BREAKER, 60, 1),
        (KindHold.BREAKER, -60, 1),
        ("ann@desk", 60, 1),
        ("ann@desk", -60, 0),
    ],
)
def test_a_breakers_hold_that_is_over_still_keeps_rows_back_and_a_persons_does_not(
    by: str, left: float, held: int
) -> None:
    put()
    until = Now() + timedelta(seconds=left)
    KindHold.objects.create(kind="drill_row", until=until, reason="why", by=by)
    books = status()["books"]
    assert (books["total"]["held"], books["total"]["due"]) == (held, 1 - held)
    assert [one["kind"] for one in books["holds"]] == ["drill_row"] * held


def test_not_relayed_leaves_held_rows_out() -> None:
    [held] = put()
    [due] = put(kind="drill_slow")
    shift("available_at", held, -200)
    shift("available_at", due, -20)
    assert status()["books"]["not_relayed"] == near(200)
    trip()
    assert status()["books"]["not_relayed"] == near(20)
    holds.pause("drill_slow", 60, "why", "ann@desk")
    assert status()["books"]["not_relayed"] is None


def test_a_breakers_hold_is_wrong_and_shown_with_how_often() -> None:
    trip()
    assert problem() == BY_BREAKER
    [until] = KindHold.objects.values_list("until", flat=True)
    line = f"held drill_row until {clock(until)} by the breaker: ConnectionRefusedError: 111"
    assert f"\n{line}\n" in run("status")[1]
    trip(times=3)
    [hold] = status()["books"]["holds"]
    assert (hold["by"], hold["times"], hold["probing"]) == ("the breaker", 3, False)
    assert " by the breaker, 3rd time: ConnectionRefusedError: 111\n" in run("status")[1]


def test_a_breakers_hold_that_is_over_tries_one_job_at_a_time_and_is_still_wrong() -> None:
    trip(times=2)
    KindHold.objects.update(until=Now())
    assert problem() == BY_BREAKER
    assert status()["books"]["holds"][0]["probing"] is True
    line = "held drill_row by the breaker, 2nd time, tries one job at a time: Connection"
    assert f"\n{line}" in run("status")[1]
    holds.release("drill_row")
    assert (status()["problems"], status()["books"]["holds"]) == ([], [])


def test_a_persons_pause_is_shown_and_is_not_wrong() -> None:
    until = holds.pause("drill_row", 86_400, "provider moves", "ann@desk")
    found = status()
    assert found["problems"] == []
    [hold] = found["books"]["holds"]
    assert (hold["kind"], hold["reason"], hold["by"]) == ("drill_row", "provider moves", "ann@desk")
    assert hold["until"].startswith(until.isoformat()[:19])
    code, text, _ = run("status")
    assert code == 0
    assert f"\nheld drill_row until {until:%Y-%m-%d %H:%M:%S} UTC by ann@desk: provider" in text


def test_what_a_person_holds_is_late_on_purpose_and_its_age_is_shown_all_the_same() -> None:
    [paused] = put()
    [other] = put(kind="drill_slow")
    shift("due_at", paused, -1000)
    holds.pause("drill_row", 60, "why", "ann@desk")
    found = status()
    assert found["problems"] == []
    assert found["books"]["age"] == near(1000)
    shift("due_at", other, -500)
    assert problem().startswith("the oldest job has been due for 50")
    holds.resume("drill_row")
    assert problem().startswith("the oldest job has been due for 1")


def test_what_stands_in_a_reason_is_safe_to_show() -> None:
    assert one_line("\x1b[31mé\n") == r"\x1b[31mé\n"
    assert one_line("x" * 999) == "x" * 199 + "…"


def test_a_moment_of_another_day_is_shown_with_its_date() -> None:
    now = datetime.now(UTC)
    assert clock(now) == f"{now:%H:%M:%S} UTC"
    assert clock(now + timedelta(days=2)) == f"{now + timedelta(days=2):%Y-%m-%d %H:%M:%S} UTC"


@pytest.mark.parametrize(
    ("number", "words"), [(2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (21, "21st")]
)
def test_how_often_is_written_for_people(number: int, words: str) -> None:
    trip()
    KindHold.objects.update(level=number - 1)
    assert f"by the breaker, {words} time: " in run("status")[1]


# What is wrong


@pytest.mark.parametrize("role", ["worker", "relay", "scheduler"])
def test_none_at_work_is_wrong(role: str) -> None:
    processes.say_gone(role, f"{role}-1")
    assert problem() == f"no {role} was seen in the last 30 s: start one"


def test_a_process_that_was_silent_for_three_heartbeats_is_not_alive() -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_process SET seen_at = seen_at - interval '31 seconds'")
    assert len(status()["problems"]) == 3
    assert "workers alive 0\n" in run("status")[1]


def test_a_job_that_is_late_is_wrong(redis: redis_client.Redis) -> None:
    [row] = put()
    shift("due_at", row, -(240 - 2 * TOLERANCE))
    assert status()["problems"] == []
    shift("due_at", row, -241)
    assert problem().startswith("the oldest job has been due for 24")


def test_dead_jobs_are_wrong_until_they_are_discarded() -> None:
    OutboxRow.objects.filter(pk__in=put(2)).update(dead_at=Now())
    assert problem() == "dead jobs wait for somebody: 2"
    OutboxRow.objects.update(discarded_at=Now())
    assert status()["problems"] == []


def test_refused_entries_are_wrong_until_somebody_settles_them() -> None:
    for number in range(3):
        RefusedEntry.objects.create(entry_id=f"{number}-1", raw=[], reason="malformed")
    assert problem() == "refused entries wait for somebody: 3"
    RefusedEntry.objects.filter(entry_id="1-1").update(settled_at=Now())
    assert problem() == "refused entries wait for somebody: 2"
    assert "\nrefused entries 2\n" in run("status")[1]
    RefusedEntry.objects.update(settled_at=Now())
    found = status()
    assert (found["books"]["refused"], found["problems"]) == (0, [])


def test_an_entry_that_nobody_takes_over_is_wrong(redis: redis_client.Redis, settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "LEASE": 60.0, "RECLAIM": 30.0}
    entry = publish(redis, put()[0])
    deliver(redis, "worker-9")
    idle_for(redis, "worker-9", entry, 95 - 2 * TOLERANCE)
    assert status()["problems"] == []
    idle_for(redis, "worker-9", entry, 95.1)
    assert "an entry of consumer worker-9 has been idle for 9" in problem()
    assert "more than 95 s" in problem()


def without_group(redis: redis_client.Redis) -> None:
    redis.xgroup_destroy("jobs", "workers")


def without_stream(redis: redis_client.Redis) -> None:
    redis.flushall()


@pytest.mark.parametrize("lose", [without_group, without_stream])
def test_a_missing_group_is_wrong(lose: Any, redis: redis_client.Redis) -> None:
    lose(redis)
    assert "no group 'workers'" in problem()
    assert run("pending") == (0, "nothing is in flight\n", "")


def test_without_redis_the_rows_are_shown_and_nothing_of_the_stream(settings: Any) -> None:
    put(2)
    settings.REDIS_URL = CLOSED
    assert problem().startswith("Redis does not answer as it should: StreamAway")
    found = status()
    assert found["stream"] is None
    assert found["books"]["total"]["due"] == 2
    text = run("status")[1]
    assert "\nstream: not known\n" in text
    assert "letters" not in text


def test_a_redis_that_refuses_or_answers_something_else_is_not_shown_as_nothing(
    redis: redis_client.Redis, settings: Any
) -> None:
    redis.delete("jobs")
    redis.set("jobs", "no stream")
    assert "WRONGTYPE" in problem()
    settings.REDIS_URL = settings.REDIS_URL.replace("@", "x@")
    assert "StreamRefused" in problem()
    settings.REDIS_URL = "nonsense"
    assert "ValueError" in problem()
    assert status()["stream"] is None


def test_without_postgresql_the_stream_is_shown_and_nothing_of_the_rows(
    tmp_path: Path, redis: redis_client.Redis
) -> None:
    publish(redis, put()[0])
    command = ("manage.py", "jobs", "status", "--json")
    with Process(tmp_path, "status", *command, **AWAY) as process:
        assert process.ended() == 1
        found = json.loads(process.log().splitlines()[-1])
    assert found["books"] is None
    assert found["stream"]["length"] == 1
    [wrong] = found["problems"]
    assert wrong.startswith("PostgreSQL does not answer as it should: OperationalError")
    assert "secret" not in wrong


@pytest.fixture
def _effects() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(TABLE)
        yield
        cursor.execute("DROP TABLE drill_effect")


@pytest.mark.usefixtures("_effects")
def test_while_jobs_flow_no_look_fails_or_counts_a_job_twice(
    product: Product, redis: redis_client.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRILL_GATE", str(tmp_path / "gate"))
    product.relay()
    product.plain_worker("worker-1")
    ids = put(300)

    def looked_until_done() -> bool:
        total = status()["books"]["total"]
        assert sum(total[state] for state in total if state != "kind") <= len(ids)
        assert run("pending")[0] == 0
        return ProcessedJob.objects.count() == len(ids)

    wait_for(looked_until_done, "all jobs")
    assert status()["books"]["kinds"] == []
