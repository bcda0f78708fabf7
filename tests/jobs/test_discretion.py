"""What a log tells of errors: class and place, never what they quote; staff reads the words."""

import logging
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, OperationalError, connection

from jobs.errors import where
from jobs.job import Job
from jobs.models import OutboxRow
from jobs.outage import told
from jobs.policy import GiveUp, Policy, TryLater
from jobs.runner import Outcome
from jobs.stream import StreamAway
from stagedoor.logs import JsonFormatter
from tests.conftest import Register
from tests.line import Line

WORDS = "Zoë Quxly of row 7"


@dataclass(frozen=True)
class Args:
    number: int


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError(WORDS), "ValueError"),
        (OSError(2, WORDS), "FileNotFoundError"),
        (psycopg.errors.UniqueViolation(WORDS), "UniqueViolation"),
        (psycopg.errors.QueryCanceled("too slow"), "QueryCanceled"),
        (caused(ValueError(WORDS), StreamAway("gone")), "ValueError"),
        (GiveUp("no such row"), "GiveUp: no such row"),
        (TryLater(1, "busy"), "TryLater: busy"),
        (StreamAway("gone"), "StreamAway: gone"),
        (OperationalError("refused"), "OperationalError: refused"),
        (psycopg.errors.LockNotAvailable("locked"), "LockNotAvailable: locked"),
    ],
)
def test_words_are_told_where_they_are_ours_or_a_servers_about_itself(
    error: Exception, line: str
) -> None:
    assert told(error) == line


def test_a_chain_of_errors_is_told_from_its_beginning() -> None:
    def fail() -> None:
        try:
            raise ValueError(WORDS)
        except ValueError as first:
            raise GiveUp("no such row") from first

    with pytest.raises(GiveUp) as raised:
        fail()
    found = where(raised.value)
    raised.value.__cause__ = raised.value
    assert where(raised.value).endswith("GiveUp: no such row"), "a circle ends"
    before, after = found.split("\nthen\n")
    assert before.endswith("\nValueError")
    assert after.endswith("\nGiveUp: no such row")
    assert found.count("in fail") == 2
    assert "Quxly" not in found


@pytest.mark.django_db(transaction=True)
def test_what_a_failing_job_quotes_is_for_staff_and_not_in_the_log(
    redis: Any, kind: Register, caplog: pytest.LogCaptureFixture
) -> None:
    @kind("quotes", policy=Policy(attempts=1, hold_after=1))
    def quotes(job: Job[Args]) -> None:
        with connection.cursor() as cursor:
            cursor.execute("CREATE TEMPORARY TABLE quoted (who text CHECK (who = ''))")
            cursor.execute("INSERT INTO quoted VALUES (%s)", [WORDS])

    line = Line(redis)
    row = line.put("quotes")[0]
    assert line.go() == [Outcome.BURIED]
    stored = OutboxRow.objects.get(pk=row)
    for text in (stored.last_error, stored.traceback):
        assert WORDS in text, "a server quotes the row that it refuses"
    lines = [JsonFormatter().format(record) for record in caplog.records]
    messages = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert [message.partition(":")[0] for message in messages] == [
        "job failed",
        "holds quotes for 30 s",
        "buried",
    ]
    assert all(IntegrityError.__name__ in message for message in messages)
    assert "in quotes" in "".join(lines), "where it failed"
    assert not [one for one in lines if "Quxly" in one]
