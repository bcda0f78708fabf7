"""`manage.py jobs status` and `jobs pending`: what is there, and never nothing for not known."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models.functions import Now

from jobs import processes
from jobs.models import OutboxRow, ProcessedJob, RefusedEntry
from jobs.outbox import enqueue
from jobs.status import screen
from tests.drill.handlers import TABLE
from tests.processes import Process, Product, wait_for

pytestmark = pytest.mark.django_db(transaction=True)

CLOSED = "redis://127.0.0.1:1/0"
TOLERANCE = 3.0
"""Seconds that a loaded machine may lose between an act and the look at it."""


@pytest.fixture(autouse=True)
def _well(redis: redis_client.Redis) -> None:
    """A group, a worker and a relay: nothing is wrong."""
    redis.xgroup_create("jobs", "workers", "0", mkstream=True)
    processes.say_alive("worker", "worker-1", "reading")
    processes.say_alive("relay", "relay-1", "relaying")


def run(*words: str) -> tuple[int, str, str]:
    """The exit code of `manage.py jobs`, what it prints, and its complaints."""
    printed, complaints = io.StringIO(), io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("jobs", *words, stdout=printed, stderr=complaints)
    assert isinstance(ended.value.code, int)
    return ended.value.code, printed.getvalue(), complaints.getvalue()


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


def put(count: int = 1, kind: str = "drill_row") -> list[int]:
    with transaction.atomic():
        return [enqueue(kind, number=number, ms=0) for number in range(count)]


def publish(redis: redis_client.Redis, outbox_id: int, entry_id: str = "*") -> str:
    """Put the row's entry on the stream, and note it, as a relay does."""
    row = OutboxRow.objects.get(pk=outbox_id)
    fields: Any = {"kind": row.kind, "outbox_id": outbox_id, "number": 0, "ms": 0}
    added: Any = redis.xadd("jobs", fields, id=entry_id)
    about(outbox_id).update(relayed_at=Now(), entry_id=added.decode())
    return str(added.decode())


def deliver(redis: redis_client.Redis, consumer: str = "worker-1", count: int = 1) -> None:
    redis.xreadgroup("workers", consumer, {"jobs": ">"}, count=count)


def about(outbox_id: int) -> Any:
    return OutboxRow.objects.filter(pk=outbox_id)


def shift(column: str, outbox_id: int, seconds: float) -> None:
    """Move one of the row's times, by PostgreSQL's clock."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE jobs_outbox SET {column} = statement_timestamp() + make_interval(secs => %s)"
            " WHERE id = %s",
            [seconds, outbox_id],
        )


def ago(redis: redis_client.Redis, seconds: float) -> str:
    """An entry id of that age, by Redis's clock."""
    now: Any = redis.time()
    return f"{(now[0] - int(seconds)) * 1000}-0"


def near(seconds: float) -> Any:
    return pytest.approx(seconds + TOLERANCE / 2, abs=TOLERANCE / 2 + 0.01)


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
    states = {"due": 1, "waiting_for_retry": 1, "relayed": 1, "dead": 1, "discarded": 1}
    slow = {"due": 2, "waiting_for_retry": 0, "relayed": 0, "dead": 0, "discarded": 0}
    assert books["kinds"] == [{"kind": "drill_row", **states}, {"kind": "drill_slow", **slow}]
    assert books["total"] == {"kind": "all", **states, "due": 3}
    assert books["next_retry_at"].startswith(
        about(retry).get().available_at.isoformat()[:19]
    )  # fmt: skip
    text = run("status")[1]
    assert "\ndrill_row   1    1                  1        1     1\n" in text
    assert "\nall         3    1                  1        1     1\n" in text
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


def idle_for(redis: redis_client.Redis, consumer: str, entry_id: str, seconds: float) -> None:
    redis.xclaim(
        "jobs", "workers", consumer, 0, [entry_id], idle=int(seconds * 1000), justid=True
    )  # fmt: skip


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
    assert found["problems"] == []


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
    assert alive.keys() == {"worker", "relay"}
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


# What is wrong


@pytest.mark.parametrize("role", ["worker", "relay"])
def test_none_at_work_is_wrong(role: str) -> None:
    processes.say_gone(role, f"{role}-1")
    assert problem() == f"no {role} was seen in the last 30 s: start one"


def test_a_process_that_was_silent_for_three_heartbeats_is_not_alive() -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE jobs_process SET seen_at = seen_at - interval '31 seconds'")
    assert len(status()["problems"]) == 2
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
    away = {"DATABASE_URL": "postgres://nobody:secret@127.0.0.1:1/none"}
    command = ("manage.py", "jobs", "status", "--json")
    with Process(tmp_path, "status", *command, **away) as process:
        assert process.ended() == 1
        found = json.loads(process.log().splitlines()[-1])
    assert found["books"] is None
    assert found["stream"]["length"] == 1
    [wrong] = found["problems"]
    assert wrong.startswith("PostgreSQL does not answer as it should: OperationalError")
    assert "secret" not in wrong


# What is in flight


def test_pending_lists_each_entry_with_its_job(redis: redis_client.Redis) -> None:
    [row] = put()
    shift("due_at", row, -125)
    entry = publish(redis, row)
    deliver(redis)
    idle_for(redis, "worker-1", entry, 70)
    code, text, _ = run("pending")
    heads, line = text.splitlines()
    assert code == 0
    assert " ".join(heads.split()) == "entry outbox row kind consumer idle deliveries age"
    assert line.split()[:5] == [entry, str(row), "drill_row", "worker-1", "1"]
    assert line.split()[5:8] == ["min", line.split()[6], "s"]
    assert line.split()[8:11] == ["1", "2", "min"]


def test_pending_knows_the_row_of_a_trimmed_entry_and_of_an_older_publication(
    redis: redis_client.Redis,
) -> None:
    trimmed, twice = put(2)
    first = publish(redis, trimmed)
    second = publish(redis, twice)
    deliver(redis, count=2)
    redis.xdel("jobs", first)
    third = publish(redis, twice)
    assert third != second
    lines = [line.split()[:3] for line in run("pending")[1].splitlines()[1:]]
    assert lines == [[first, str(trimmed), "drill_row"], [second, str(twice), "drill_row"]]


def test_pending_shows_what_has_no_row_and_what_is_no_job(redis: redis_client.Redis) -> None:
    strange: Any = {"kind": b"\x1b[31m\x00\xff", "outbox_id": "7\0"}
    redis.xadd("jobs", {"kind": "drill_row", "outbox_id": 10**30})
    redis.xadd("jobs", strange)
    gone: Any = redis.xadd("jobs", {"kind": "drill_row"})
    deliver(redis, count=3)
    redis.xdel("jobs", gone)
    code, text, _ = run("pending")
    lines = [line.split() for line in text.splitlines()[1:]]
    assert code == 0
    assert [line[1:3] for line in lines] == [
        [str(10**30), "drill_row"],
        [r"7\x00", r"\x1b[31m\x00\xff"],
        ["-", "-"],
    ]
    assert {line[-1] for line in lines} == {"-"}


def test_pending_without_redis_could_not_look(redis: redis_client.Redis, settings: Any) -> None:
    redis.delete("jobs")
    redis.set("jobs", "no stream")
    assert "WRONGTYPE" in run("pending")[2]
    settings.REDIS_URL = CLOSED
    code, text, complaint = run("pending")
    assert (code, text) == (2, "")
    assert complaint.startswith("could not look: StreamAway")


def test_pending_without_postgresql_could_not_look(
    tmp_path: Path, redis: redis_client.Redis
) -> None:
    publish(redis, put()[0])
    deliver(redis)
    away = {"DATABASE_URL": "postgres://nobody:secret@127.0.0.1:1/none"}
    with Process(tmp_path, "pending", "manage.py", "jobs", "pending", **away) as process:
        assert process.ended() == 2
        assert "could not look: OperationalError" in process.log()


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
        assert total["due"] + total["waiting_for_retry"] + total["relayed"] <= len(ids)
        assert run("pending")[0] == 0
        return ProcessedJob.objects.count() == len(ids)

    wait_for(looked_until_done, "all jobs")
    assert status()["books"]["kinds"] == []
