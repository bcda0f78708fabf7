"""One line of log, and one count, for each entry that a worker is done with."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import redis as redis_client

from jobs import holds, metrics
from jobs.correlation import CorrelationFilter, correlated
from jobs.job import Job
from jobs.policy import GiveUp, Policy, TryLater
from jobs.runner import Outcome
from stagedoor.logs import JsonFormatter
from tests.conftest import Register
from tests.line import Line

pytestmark = pytest.mark.django_db(transaction=True)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"
type Told = Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class Number:
    """Which."""

    number: int


@pytest.fixture
def line(redis: redis_client.Redis) -> Line:
    return Line(redis)


@pytest.fixture
def told() -> Iterator[Told]:
    """The one line about an entry that was written since, as production writes it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(CorrelationFilter())
    logging.getLogger("jobs.concluded").addHandler(handler)

    def take() -> dict[str, Any]:
        [text] = stream.getvalue().splitlines()
        stream.seek(0)
        stream.truncate()
        found: dict[str, Any] = json.loads(text)
        return found

    yield take
    logging.getLogger("jobs.concluded").removeHandler(handler)


def put(line: Line, kind: str) -> int:
    with correlated("req-12345678", TRACE):
        [row] = line.put(kind)
    return row


def count(kind: str, result: str) -> float:
    return float(metrics.JOBS_FINISHED.labels(kind, result)._value.get())


def handle(kind: Register, error: Exception | None = None) -> None:
    """The kind `example`, whose every run ends with `error`, or well."""

    @kind("example", policy=Policy(attempts=2, base=0, jitter=0, hold_after=0))
    def run(job: Job[Number]) -> None:
        if error:
            raise error
        with job.effects():
            pass


def test_a_line_has_all_that_one_looks_for(line: Line, kind: Register, told: Told) -> None:
    handle(kind)
    row = put(line, "example")
    before = count("example", "done")
    assert line.go() == [Outcome.PROCESSED]
    found = told()
    assert 0 <= found.pop("seconds") < 10
    assert found.pop("time")
    assert found == {
        "level": "INFO", "logger": "jobs.concluded", "message": "example done", "action": "job",
        "kind": "example", "outbox_id": row, "entry_id": line.redis.xrange("jobs")[0][0].decode(),
        "attempt": 1, "result": "done", "worker": "worker-1",
        "request_id": "req-12345678", "trace": TRACE,
    }  # fmt: skip
    assert count("example", "done") == before + 1


@pytest.mark.parametrize(
    ("error", "result"),
    [(ValueError("x"), "retry"), (TryLater(5, "x"), "later"), (GiveUp("x"), "dead")],
)
def test_a_run_that_fails_says_what_follows(
    line: Line, kind: Register, told: Told, error: Exception, result: str
) -> None:
    handle(kind, error)
    put(line, "example")
    before = count("example", result)
    line.go()
    assert (found := told())["result"] == result
    assert (found["attempt"], found["request_id"]) == (1, "req-12345678")
    assert count("example", result) == before + 1


def test_the_second_attempt_is_counted_as_such(line: Line, kind: Register, told: Told) -> None:
    handle(kind, ValueError("x"))
    put(line, "example")
    line.go()
    assert told()["attempt"] == 1
    line.go()
    assert ((found := told())["attempt"], found["result"]) == (2, "dead")


def test_an_entry_of_a_job_that_is_done_is_a_duplicate(
    line: Line, kind: Register, told: Told
) -> None:
    handle(kind)
    row = put(line, "example")
    line.go()
    told()
    _, fields = line.redis.xrange("jobs")[0]
    before = count("example", "duplicate")
    line.redis.xadd("jobs", fields)
    assert line.take() == []
    assert ((found := told())["result"], found["outbox_id"]) == ("duplicate", row)
    assert (found["request_id"], found["trace"]) == ("req-12345678", TRACE)
    assert count("example", "duplicate") == before + 1


def test_an_entry_of_a_held_kind_waits(line: Line, kind: Register, told: Told) -> None:
    handle(kind)
    put(line, "example")
    line.publish()
    holds.pause("example", 60, "a test", "ann@desk")
    assert line.take() == []
    assert told()["result"] == "later"


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "example", "outbox_id": "999999", "number": "1", "request_id": "r", "trace": ""},
        {"kind": "example", "outbox_id": "x", "number": "1", "request_id": "r", "trace": ""},
        {"anything": "at all"},
    ],
)
def test_an_entry_that_is_no_job_is_dead(
    line: Line, kind: Register, told: Told, fields: dict[Any, Any]
) -> None:
    handle(kind)
    line.redis.xadd("jobs", fields)
    assert line.take() == []
    assert told()["result"] == "dead"


def test_a_kind_that_nobody_knows_is_no_label(line: Line, kind: Register, told: Told) -> None:
    handle(kind)
    row = put(line, "example")
    line.publish()
    entry = line.redis.xrange("jobs")[0]
    line.redis.xdel("jobs", entry[0])
    line.redis.xadd("jobs", {**entry[1], b"kind": b"Ada Lovelace"})
    line.take()
    found = told()
    assert (found["kind"], found["outbox_id"], found["result"]) == ("unknown", row, "later")
    assert "Ada" not in json.dumps(found)
