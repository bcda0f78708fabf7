"""Schedules as they are declared: what `manage.py check` says of them, and what a job learns."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import transaction

from jobs import schedule
from jobs.job import Job
from jobs.models import ProcessedJob
from jobs.outbox import put
from jobs.schedule import ONCE, SKIP, Schedule, all_
from jobs.schedule_problems import problems
from jobs.testing import drain
from tests.conftest import Register
from tests.line import Line


@dataclass(frozen=True)
class Numbered:
    number: int


NIGHTLY = Schedule(name="nightly", words="Does the example at night",
                   cron="30 2 * * *", kind="example", args={"number": 7})  # fmt: skip
DUE = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)

type Declare = Callable[[Schedule], None]


@pytest.fixture
def declare() -> Iterator[Declare]:
    """Declares schedules that are forgotten after the test."""
    names: list[str] = []

    def one(given: Schedule) -> None:
        names.append(given.name)
        schedule.declare(given)

    yield one
    for name in names:
        schedule.forget(name)


@pytest.fixture
def told(kind: Register) -> list[datetime | None]:
    """The due time that each run of the kind `example` was told."""
    seen: list[datetime | None] = []

    @kind("example")
    def handle(job: Job[Numbered]) -> None:
        with job.effects():
            seen.append(job.scheduled_for)

    return seen


def test_a_schedule_of_a_known_kind_is_in_order(told: Any) -> None:
    assert list(problems([NIGHTLY])) == []
    for policy in (SKIP, ONCE, all_(100)):
        assert list(problems([dataclasses.replace(NIGHTLY, catch_up=policy)])) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "nobody"}, "names the kind 'nobody', which has no handler"),
        ({"args": {}}, "has other arguments than its kind: example takes ['number'], not []"),
        ({"args": {"number": "7"}}, "number must be <class 'int'>"),
        ({"args": {"number": True}}, "number must be <class 'int'>"),
        ({"cron": "61 * * * *"}, "'61 * * * *', which is not a cron expression: Bad minute"),
        ({"cron": "0 0 30 2 *"}, "which is not a cron expression: Bad day-of-month"),
        ({"cron": "0 0 * * * *"}, "which does not have five fields"),
        ({"cron": "@daily"}, "which does not have five fields"),
        ({"cron": ""}, "which does not have five fields"),
        ({"cron": f"{'0,' * 150}0 * * * *"}, "more than 200 characters"),
        ({"tz": "Europe/Berlim"}, "names the time zone 'Europe/Berlim', which is not known"),
        ({"tz": "../etc"}, "names the time zone '../etc', which is not known"),
        ({"tz": ""}, "names the time zone '', which is not known"),
        ({"name": ""}, "must have a name"),
        ({"name": "x" * 101}, "must have a name"),
        ({"words": ""}, "must say to staff what it does: words of 1 to 120 printable characters"),
        ({"words": "  "}, "must say to staff what it does"),
        ({"words": "two\nlines"}, "must say to staff what it does"),
        ({"words": "x" * 121}, "must say to staff what it does"),
        ({"catch_up": all_(101)}, "catches up 101 due times, not 0 to 100"),
        ({"catch_up": all_(-1)}, "catches up -1 due times"),
        ({"grace": -1.0}, "has a grace of -1 s"),
        ({"grace": float("nan")}, "has a grace of nan s"),
    ],
)
def test_what_is_wrong_with_a_schedule_is_named(
    changes: dict[str, Any], words: str, told: Any
) -> None:
    found = list(problems([dataclasses.replace(NIGHTLY, **changes)]))
    assert any(words in problem for _, problem in found), found


def test_two_schedules_of_one_name_are_named(told: Any) -> None:
    other = dataclasses.replace(NIGHTLY, cron="0 5 * * *")
    assert list(problems([NIGHTLY, other])) == [
        ("nightly", "is declared 2 times: only one of them could fire")
    ]


def test_manage_py_check_looks_at_what_is_declared(told: Any, declare: Declare) -> None:
    declare(NIGHTLY)
    call_command("check")
    declare(dataclasses.replace(NIGHTLY, name="broken", tz="Mars/Olympus"))
    with pytest.raises(SystemCheckError, match=r"jobs\.E009.*'broken'.*Mars/Olympus"):
        call_command("check")


def scheduled_job() -> int:
    """The outbox id of a job that a schedule fired for DUE."""
    with transaction.atomic():
        return put("example", {"number": 7}, scheduled_for=DUE)


@pytest.mark.django_db(transaction=True)
def test_a_job_knows_its_due_time_at_a_worker_and_its_entry_does_not_carry_it(
    told: list[datetime | None], redis: Any
) -> None:
    line = Line(redis)
    plain = line.put_with("example", number=1)
    row = scheduled_job()
    line.go()
    assert told == [None, DUE]
    assert ProcessedJob.objects.get(pk=row).scheduled_for == DUE
    assert ProcessedJob.objects.get(pk=plain).scheduled_for is None
    assert [set(fields) for _, fields in redis.xrange("jobs")] == [
        {b"kind", b"number", b"outbox_id", b"request_id", b"trace"}
    ] * 2


@pytest.mark.django_db(transaction=True)
def test_a_drained_job_knows_its_due_time_too(told: list[datetime | None]) -> None:
    scheduled_job()
    drain()
    assert told == [DUE]
