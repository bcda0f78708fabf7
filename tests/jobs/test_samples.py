"""One row a minute of what the queue was like, with any number of schedulers."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis as redis_client
from django.conf import settings
from django.db import connection
from django.utils import timezone

from jobs import holds, processes, samples
from jobs.models import Sample
from jobs.samples import take
from jobs.status import read_books

from .looks import CLOSED, deliver, done, near, publish, put, shift

pytestmark = pytest.mark.django_db(transaction=True)
NOW = timezone.now().replace(second=17, microsecond=250)
MINUTE = NOW.replace(second=0, microsecond=0)


@pytest.fixture(autouse=True)
def _group(redis: redis_client.Redis) -> None:
    redis.xgroup_create("jobs", "workers", "0", mkstream=True)


def sample() -> Sample:
    """The one that was taken now."""
    take(NOW)
    return Sample.objects.get()


def test_the_ages_are_kept_by_reason(redis: redis_client.Redis) -> None:
    due, waiting, running = put(3)
    shift("due_at", due, -300)
    shift("available_at", due, -300)
    seconds: Any = redis.time()
    for row, ago in ((running, 90), (waiting, 30)):
        publish(redis, row, f"{(seconds[0] - ago) * 1000}-0")
    deliver(redis)
    ages = sample().ages
    assert ages.keys() == {"oldest", "not_paused", "not_relayed", "waiting", "running"}
    assert [ages[name] for name in ("oldest", "not_paused", "not_relayed")] == [near(300)] * 3
    assert (ages["running"], ages["waiting"]) == (near(90), near(30))


def test_what_a_person_holds_is_no_age_that_anybody_must_look_at() -> None:
    [row] = put()
    shift("due_at", row, -300)
    holds.pause("drill_row", 600, "moves house", "operator")
    ages = sample().ages
    assert ages["oldest"] == near(300)
    assert ages["not_paused"] is None


def test_the_depth_is_kept_by_kind_and_state() -> None:
    rows = put(3)
    put(2, kind="drill_call")
    shift("available_at", rows[0], 36_000)
    assert sample().depth == {
        "drill_call": {"due": 2},
        "drill_row": {"due": 2, "waiting_for_retry": 1},
    }


def test_the_jobs_of_the_minute_before_are_counted_with_their_mean() -> None:
    since = (timezone.now() - MINUTE).total_seconds()
    for ago, count, seconds in ((61, 5, 9.0), (59, 2, 1.0), (1, 2, 3.0), (-1, 7, 9.0)):
        done("drill_row", count, seconds=seconds, ago=since + ago)
    done("drill_call", ago=since + 30)
    taken = sample()
    assert taken.finished == {"drill_row": [4, 2.0], "drill_call": [1, 1.0]}
    assert taken.done == 5


def test_who_works_is_counted_with_slots() -> None:
    processes.say_alive("worker", "one", "3 of 8 slots busy", 8, 3)
    processes.say_alive("worker", "two", "1 of 4 slots busy", 4, 1)
    processes.say_alive("relay", "relay", "relaying")
    processes.say_alive("scheduler", "scheduler", "waits")
    found = sample()
    assert (found.workers, found.slots, found.busy) == (2, 12, 4)
    assert (found.relays, found.schedulers) == (1, 1)


def test_a_redis_that_is_away_is_written_down_as_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    [row] = put()
    shift("due_at", row, -300)
    monkeypatch.setattr(settings, "REDIS_URL", CLOSED)
    found = sample()
    assert not found.redis
    assert found.ages["oldest"] == near(300)
    assert (found.ages["waiting"], found.ages["running"]) == (None, None)


def test_a_minute_has_one_row_with_five_schedulers(monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(5)

    def look_together() -> Any:
        together.wait(30)
        return read_books()

    # All of them have found that nobody has taken it yet.
    monkeypatch.setattr("jobs.samples.read_books", look_together)
    failed: list[BaseException] = []
    threads = [threading.Thread(target=_take, args=[failed]) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert Sample.objects.count() == 1


def _take(failed: list[BaseException]) -> None:
    try:
        take(NOW)
    except BaseException as error:
        failed.append(error)
    finally:
        connection.close()


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """What is asked of the database from here on."""
    asked: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        asked.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield asked


def test_a_minute_that_is_taken_costs_one_question(statements: list[str]) -> None:
    take(NOW)
    statements.clear()
    take(NOW + timedelta(seconds=40))
    assert len(statements) == 1
    take(NOW + timedelta(seconds=43))
    assert Sample.objects.count() == 2


def test_what_is_older_than_a_week_is_forgotten_with_the_next() -> None:
    kept = timedelta(seconds=settings.JOBS["SAMPLES_KEPT"])
    assert kept == timedelta(days=7)
    for at in (NOW - kept - timedelta(minutes=1), NOW - kept + timedelta(minutes=1)):
        take(at)
    take(NOW)
    assert sorted(Sample.objects.values_list("minute", flat=True)) == [
        MINUTE - kept + timedelta(minutes=1), MINUTE
    ]  # fmt: skip


def test_the_minute_is_counted_by_an_index() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {samples.FINISHED}", [MINUTE - samples.MINUTE, MINUTE])
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "jobs_processed_at" in plan
