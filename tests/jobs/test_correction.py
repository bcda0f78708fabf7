"""Arguments typed again: for a dead row, and for an entry that no row stands behind."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from jobs import correction, dead_letters
from jobs.correlation import correlated
from jobs.job import Job, MalformedJob
from jobs.models import JobEvent, OutboxRow, ProcessedJob, RefusedEntry, What
from jobs.prognosis import Effect, Prognosis
from jobs.registry import UnknownKind
from jobs.replay import Deed, Taken
from jobs.runner import Outcome
from jobs.stream import Entry
from tests.conftest import Register
from tests.line import Line

pytestmark = pytest.mark.django_db(transaction=True)
ADA = Deed("ada")


@dataclass(frozen=True)
class Args:
    number: int
    note: str = ""


@pytest.fixture
def told(kind: Register) -> list[int]:
    """The numbers that the kind `example`, which may repeat, was told a person's consent for."""
    found: list[int] = []
    may_repeat = Prognosis(Effect.MAY_REPEAT, "may send twice")

    @kind(
        "example",
        subject="order:{number}",
        foresee=lambda args: [may_repeat for _ in args],
        consent=lambda args: found.extend(one.number for one in args),
    )
    def example(job: Job[Args]) -> None:
        with job.effects():
            pass

    return found


@pytest.fixture
def line(redis: Any, told: list[int]) -> Line:
    return Line(redis)


def malformed(line: Line, args: Any) -> int:
    """A job that died since its arguments do not parse."""
    job = line.put_with("example", number=1, note="x")
    OutboxRow.objects.filter(pk=job).update(args=args)
    line.go()
    assert OutboxRow.objects.dead().filter(pk=job).exists()
    return job


def refused(line: Line) -> RefusedEntry:
    fields = [(b"kind", b"example"), (b"number", b"seven"), (b"outbox_id", b"999999")]
    line.sort([Entry("9-9", fields)])
    return RefusedEntry.objects.get()


def typed(number: str = "7", note: str = "x") -> Job[Any]:
    return correction.parsed("example", {"number": number, "note": note})


def test_the_names_to_ask_for(told: list[int]) -> None:
    assert correction.arguments("example") == ["number", "note"]
    with pytest.raises(UnknownKind):
        correction.arguments("of_tomorrow")


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"number": "seven", "note": ""}, "number"),
        ({"number": "", "note": ""}, "number"),
        ({"number": "1_0", "note": ""}, "number"),
        ({"number": str(2**63), "note": ""}, "number"),
        ({"number": "1", "note": "a\0b"}, "note"),
        ({"number": "1"}, "note"),
        ({"number": "1", "note": "", "more": ""}, "'more'"),
        ({"number": "1", "note": "x" * 1010}, "args"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_was_typed_goes_through_the_parser_of_entries(
    values: dict[str, str], field: str, told: list[int]
) -> None:
    with pytest.raises(MalformedJob) as caught:
        correction.parsed("example", values)
    assert caught.value.field == field


def test_blanks_around_what_was_typed_are_left_out(told: list[int]) -> None:
    assert typed(" 7 ", "\tx\n").args == Args(7, "x")


@pytest.mark.parametrize(
    "before", [{"number": "seven", "note": "x"}, {"number": 1}, [1, 2], {"nümber": None}], ids=str
)
def test_a_corrected_job_is_due_with_the_new_arguments_and_the_old_ones_are_kept(
    before: Any, line: Line
) -> None:
    job = malformed(line, before)
    OutboxRow.objects.update(attempts=3, starts=1, unknown_since=timezone.now())
    with correlated("7f3a9c2e", ""):
        taken = correction.correct(job, timezone.now(), typed(), ADA)
    dead_letters.take_away(taken.letters)
    row = OutboxRow.objects.get(pk=job)
    assert (row.args, row.subject) == ({"number": 7, "note": "x"}, "order:7")
    assert (row.attempts, row.starts, row.unknown_since, row.dead_at) == (0, 0, None, None)
    assert line.redis.xlen("jobs:dead") == 0
    corrected, again = JobEvent.objects.filter(by="ada").order_by("id")
    assert (corrected.what, again.what) == (What.CORRECTED, What.REPLAYED)
    assert json.loads(corrected.note.removeprefix("the arguments were ")) == before
    assert (corrected.request_id, again.request_id) == ("7f3a9c2e", "7f3a9c2e")
    assert line.go() == [Outcome.PROCESSED]
    assert ProcessedJob.objects.get().subject == "order:7"


def test_a_correction_is_fenced_as_a_replay_is(line: Line) -> None:
    job = malformed(line, {"number": "seven", "note": "x"})
    seen = timezone.now()
    assert correction.correct(job, seen - timedelta(minutes=1), typed(), ADA) == Taken()
    assert correction.correct(job, seen, typed(), ADA).keys == [job]
    assert correction.correct(job, seen, typed("8"), ADA) == Taken()
    assert OutboxRow.objects.get(pk=job).args == {"number": 7, "note": "x"}
    assert JobEvent.objects.filter(what=What.CORRECTED).count() == 1


def test_consent_is_of_the_new_arguments_and_only_where_it_was_asked_for(
    line: Line, told: list[int]
) -> None:
    one, two = (malformed(line, {"number": "x", "note": "x"}) for _ in range(2))
    correction.correct(one, timezone.now(), typed("7"), ADA)
    assert told == []
    correction.correct(two, timezone.now(), typed("8"), ADA, twice_is_fine=True)
    assert told == [8]


def test_a_job_made_of_a_refused_entry_runs_and_the_entry_stays_as_it_came(line: Line) -> None:
    entry = refused(line)
    assert line.redis.xlen("jobs:dead") == 1
    with correlated("7f3a9c2e", ""):
        taken = correction.make_job(entry.pk, timezone.now(), typed(), ADA)
    dead_letters.take_away(taken.letters)
    assert line.redis.xlen("jobs:dead") == 0
    [made] = taken.keys
    entry.refresh_from_db()
    assert (entry.outbox_id, entry.letter_id) == (made, "")
    assert (entry.settled_at is not None, entry.settled_by) == (True, "ada")
    assert [bytes(part) for part in entry.raw][2:4] == [b"number", b"seven"]
    row = OutboxRow.objects.get(pk=made)
    assert (row.args, row.subject, row.request_id) == (
        {"number": 7, "note": "x"}, "order:7", "7f3a9c2e",
    )  # fmt: skip
    event = JobEvent.objects.get()
    assert (event.outbox_id, event.what, event.note) == (
        made, What.CORRECTED, "made of the entry 9-9",
    )  # fmt: skip
    assert line.go() == [Outcome.PROCESSED]
    line.sort([Entry("9-9", [(b"kind", b"example"), (b"number", b"seven")])])
    assert RefusedEntry.objects.get().settled_at is not None
    assert line.redis.xlen("jobs:dead") == 0


def test_one_job_is_made_by_two_people_at_once(line: Line) -> None:
    entry = refused(line)
    found = at_once(*[lambda: correction.make_job(entry.pk, timezone.now(), typed(), ADA)] * 4)
    assert sorted(len(taken.keys) for taken in found) == [0, 0, 0, 1]
    assert OutboxRow.objects.count() == 1


def test_one_correction_is_made_by_two_people_at_once(line: Line) -> None:
    job = malformed(line, {"number": "seven", "note": "x"})
    seen = timezone.now()
    found = at_once(*[lambda: correction.correct(job, seen, typed(), ADA)] * 4)
    assert sorted(len(taken.keys) for taken in found) == [0, 0, 0, 1]
    assert JobEvent.objects.filter(what=What.CORRECTED).count() == 1


def at_once(*acts: Callable[[], Taken]) -> list[Taken]:
    """What each came to, all begun at the same moment, each with a connection of its own."""
    together = threading.Barrier(len(acts), timeout=30)
    found: list[Taken] = []

    def one(act: Callable[[], Taken]) -> None:
        try:
            together.wait()
            found.append(act())
        finally:
            connection.close()

    threads = [threading.Thread(target=one, args=[act]) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_no_job_without_its_settled_entry(line: Line) -> None:
    entry = refused(line)

    def refuse(number: int, batch: int | None) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        correction.make_job(entry.pk, timezone.now(), typed(), Deed("ada", refuse))
    assert not OutboxRow.objects.exists()
    assert RefusedEntry.objects.get().settled_at is None
    early = timezone.now() - timedelta(minutes=1)
    assert correction.make_job(entry.pk, early, typed(), ADA) == Taken()
