"""`manage.py jobs pending`: each entry that is in flight, with its job."""

from pathlib import Path
from typing import Any

import pytest
import redis as redis_client

from tests.processes import Process

from .looks import AWAY, CLOSED, deliver, idle_for, publish, put, run, shift

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _group(redis: redis_client.Redis) -> None:
    redis.xgroup_create("jobs", "workers", "0", mkstream=True)


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
    with Process(tmp_path, "pending", "manage.py", "jobs", "pending", **AWAY) as process:
        assert process.ended() == 2
        assert "could not look: OperationalError" in process.log()
