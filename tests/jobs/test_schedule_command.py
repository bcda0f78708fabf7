"""`manage.py schedule`: what it prints, what it refuses, what one step by hand does."""

from dataclasses import dataclass, replace
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from jobs import schedule
from jobs.job import Job
from jobs.models import OutboxRow, ScheduleCursor
from jobs.schedule import ONCE, Schedule
from tests.conftest import Register
from tests.jobs.scheduled import MINUTELY, Numbered, each_fired_once

BERLIN = Schedule(name="berlin", words="Says a word in autumn",
                  cron="30 2 25 10 *", tz="Europe/Berlin", kind="wordy",
                  args={"word": "x"}, catch_up=ONCE, grace=300)  # fmt: skip


ONE, TWO = "Says a word in autumn", "Does the example each minute"


@dataclass(frozen=True)
class Wordy:
    word: str


@pytest.fixture(autouse=True)
def _two_schedules(kind: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    @kind("example")
    def numbered(job: Job[Numbered]) -> None:
        with job.effects():
            pass

    @kind("wordy")
    def wordy(job: Job[Wordy]) -> None:
        with job.effects():
            pass

    monkeypatch.setattr(schedule, "_declared", [MINUTELY, BERLIN])


def said(*options: str) -> str:
    printed = StringIO()
    call_command("schedule", *options, stdout=printed)
    return printed.getvalue()


def test_list_tells_of_each_schedule_and_asks_no_server() -> None:
    assert said("--list").splitlines() == [
        f"berlin: 30 2 25 10 * Europe/Berlin, wordy, catches up one, on time within 300 s. {ONE}",
        f"minutely: * * * * * UTC, example, catches up the newest 100, on time within 60 s. {TWO}",
    ]


def test_check_prints_so_many_due_times_of_each_on_both_clocks() -> None:
    lines = said("--check", "--next", "3").splitlines()
    assert [line.partition(":")[0] for line in (lines[0], lines[4])] == ["berlin", "minutely"]
    assert len(lines) == 8
    offsets = {"CEST": "00:30", "CET": "01:30"}
    for _, _, local, zone, _, utc, clock in (line.split() for line in lines[1:4]):
        assert (local, utc, clock) == ("02:30", offsets[zone], "UTC")


@pytest.mark.parametrize("number", ["-1", "0", "1001", "x", ""])
def test_a_number_that_is_none_is_refused(number: str) -> None:
    with pytest.raises(CommandError, match="whole number from 1 to 1000"):
        said("--check", f"--next={number}")


@pytest.mark.parametrize("options", [[], ["--once"], ["--list"]])
def test_a_number_of_due_times_without_check_starts_nothing(options: list[str]) -> None:
    with pytest.raises(CommandError, match="--next goes with --check") as refused:
        said("--next", "3", *options)
    assert refused.value.returncode == 2


@pytest.mark.parametrize("command", ["schedule", "relay"])
@pytest.mark.parametrize("name", ["", "two words", "x" * 101, "null\0"])
def test_a_name_that_has_no_room_in_a_row_is_refused(command: str, name: str) -> None:
    with pytest.raises(CommandError, match="takes 1 to 100 printable characters"):
        call_command(command, f"--name={name}")


def test_what_is_declared_wrong_ends_it_before_it_asks_a_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schedule, "_declared", [replace(BERLIN, tz="Mars/Olympus")])
    for options in (["--list"], ["--check"], ["--once"], []):
        with pytest.raises(CommandError, match="Mars/Olympus") as refused:
            said(*options)
        assert refused.value.returncode == 2


def missed(one: Schedule, **ago: int) -> None:
    until = timezone.now() - timedelta(**ago)
    ScheduleCursor.objects.create(name=one.name, cron=one.cron, tz=one.tz, decided_until=until)


@pytest.mark.django_db(transaction=True)
def test_once_fires_what_is_due_says_so_and_leaves() -> None:
    missed(MINUTELY, minutes=3)
    lines = said("--once").splitlines()
    assert [line.startswith("minutely: due at ") for line in lines] == [True] * len(lines)
    assert len(lines) == OutboxRow.objects.count() >= 3
    assert each_fired_once()


@pytest.mark.django_db(transaction=True)
def test_once_fails_by_name_where_a_schedule_cannot_be_decided(
    monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    too_long = replace(BERLIN, args={"word": "x" * 2000})
    monkeypatch.setattr(schedule, "_declared", [too_long, MINUTELY])
    missed(too_long, days=366)
    missed(MINUTELY, minutes=3)
    with pytest.raises(CommandError, match="cannot be decided: berlin; see the log"):
        said("--once")
    assert OutboxRow.objects.count() >= 3, "it does not keep the others"
