"""One job, whatever its handler does: an outcome, and effects once."""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from django.conf import settings
from django.db import IntegrityError, OperationalError, connection, transaction
from django.utils import timezone

from jobs.conclusion import AlreadyProcessed
from jobs.job import Job
from jobs.models import JobEvent, OutboxRow, ProcessedJob, RefusedEntry, What
from jobs.outbox import DueRow, enqueue, lock_due, mark_relayed
from jobs.policy import GiveUp, Policy, TryLater
from jobs.pool import Pool
from jobs.registry import kind_named, parse_entry
from jobs.runner import CUTS_LIMIT, Outcome, Runner
from jobs.slot import Slot
from jobs.stream import Entry, Letters
from jobs.testing import drain
from tests.conftest import Register

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class Args:
    number: int


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def put(name: str = "example") -> int:
    with transaction.atomic():
        return enqueue(name, number=1)


def test_effects_and_processed_row_are_one_commit(kind: Register) -> None:
    @kind("example")
    def example(job: Job[Args]) -> None:
        with job.effects():
            enqueue("follow_up", number=job.args.number)

    @kind("follow_up")
    def follow_up(job: Job[Args]) -> None:
        with job.effects():
            job.nothing_to_do()

    put()
    assert drain() == [Outcome.PROCESSED, Outcome.PROCESSED]
    assert list(ProcessedJob.objects.order_by("outbox_id").values_list("kind", "result")) == [
        ("example", "done"),
        ("follow_up", "nothing to do"),
    ]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("boom"),
        ValueError("with a \0 in it and half a pair \ud800"),
        ValueError("x" * 5_000_000),
        Unspeakable(),
        ExceptionGroup("many", [ValueError("one")]),
        KeyboardInterrupt(),
        SystemExit(1),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_handler_raises_is_one_more_attempt_later(
    kind: Register, error: BaseException
) -> None:
    @kind("example")
    def example(job: Job[Args]) -> None:
        with job.effects():
            raise error

    row = put()
    assert drain() == [Outcome.RETRY]
    found = OutboxRow.objects.get(pk=row)
    assert found.attempts == 1
    assert type(error).__name__ in found.last_error
    assert len(found.last_error) <= 2048
    assert not ProcessedJob.objects.exists()


def test_a_handler_without_effects_has_failed(kind: Register) -> None:
    @kind("example")
    def example(job: Job[Args]) -> None:
        pass

    put()
    assert drain() == [Outcome.RETRY]
    assert "EffectsMissing" in OutboxRow.objects.get().last_error


def test_a_handler_that_swallows_the_error_of_its_effects_has_failed(kind: Register) -> None:
    @kind("example")
    def example(job: Job[Args]) -> None:
        try:
            with job.effects():
                raise ValueError("inside")
        except ValueError:
            pass

    put()
    assert drain() == [Outcome.RETRY]


def test_an_error_after_the_commit_does_not_run_the_job_again(kind: Register) -> None:
    @kind("example")
    def example(job: Job[Args]) -> None:
        with job.effects():
            pass
        raise ValueError("too late to matter")

    put()
    assert drain() == [Outcome.PROCESSED]


def publish() -> DueRow:
    with transaction.atomic():
        [row] = lock_due(10)
        mark_relayed({row.id: "1-1"})
    return row


def run(row: DueRow) -> Outcome:
    fields = [(name.encode(), value.encode()) for name, value in row.fields().items()]
    slot = Slot(Entry("1-1", fields), parse_entry(fields), kind_named(row.kind))
    return Runner("test", Pool(0), Letters(settings.REDIS_URL)).run(slot)


def test_a_second_delivery_changes_nothing_even_if_the_handler_swallows_it(kind: Register) -> None:
    ran: list[int] = []

    @kind("example")
    def example(job: Job[Args]) -> None:
        try:
            with job.effects():
                ran.append(job.outbox_id)
        except AlreadyProcessed:
            pass

    put()
    row = publish()
    assert [run(row), run(row)] == [Outcome.PROCESSED, Outcome.ALREADY_PROCESSED]
    assert len(ran) == 1


def test_two_deliveries_at_once_have_one_effect(kind: Register) -> None:
    ran: list[int] = []
    both = threading.Barrier(2, timeout=10)

    @kind("example")
    def example(job: Job[Args]) -> None:
        both.wait()
        with job.effects():
            ran.append(job.outbox_id)

    put()
    row = publish()
    outcomes: list[Outcome] = []

    def deliver() -> None:
        outcomes.append(run(row))
        connection.close()

    threads = [threading.Thread(target=deliver) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome.value for outcome in outcomes) == ["done", "duplicate"]
    assert len(ran) == 1


def test_a_commit_that_raised_though_it_happened_is_done(kind: Register) -> None:
    @kind("example")
    def example(job: Job[Args]) -> None:
        with job.effects():
            pass
        job.desk.committed = False  # type: ignore[union-attr]
        raise OperationalError("server closed the connection unexpectedly")

    put()
    assert drain() == [Outcome.PROCESSED]
    assert ProcessedJob.objects.count() == 1


def test_an_outage_decides_nothing_and_counts_no_attempt(kind: Register) -> None:
    @kind("example")
    def example(job: Job[Args]) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    put()
    assert run(publish()) is Outcome.UNDECIDED
    found = OutboxRow.objects.get()
    assert (found.attempts, found.entry_id) == (0, "1-1")


def test_an_entry_whose_row_is_somebody_elses_is_refused(kind: Register) -> None:
    @kind("example")
    def example(job: Job[Args]) -> None:
        with job.effects():
            pass

    put()
    row = publish()
    OutboxRow.objects.update(request_id="restored-from-a-backup")
    assert run(row) is Outcome.BURIED
    assert OutboxRow.objects.exists()


def test_a_row_that_is_not_what_its_own_entry_says_is_dead_and_never_comes_again(
    kind: Register,
) -> None:
    """A number written as text, by hand: the entry parses, and matches no row."""

    @kind("example")
    def example(job: Job[Args]) -> None:
        with job.effects():
            pass

    put()
    OutboxRow.objects.update(args={"number": "1"})
    assert run(publish()) is Outcome.BURIED
    assert OutboxRow.objects.get().dead_reason.startswith("UnknownJob: ")
    assert not RefusedEntry.objects.exists()


def test_nothing_to_do_outside_of_effects_is_an_error(kind: Register) -> None:
    @kind("example")
    def example(job: Job[Args]) -> None:
        job.nothing_to_do()

    put()
    assert drain() == [Outcome.RETRY]
    assert "inside effects()" in OutboxRow.objects.get().last_error


def swallow_error() -> None:
    with contextlib.suppress(IntegrityError):
        ProcessedJob.objects.create(outbox_id=1)  # of nothing: its columns must not be null


def roll_back_in_silence() -> None:
    transaction.set_rollback(True)


@pytest.mark.parametrize("harm", [swallow_error, roll_back_in_silence, connection.close])
def test_effects_that_were_rolled_back_without_a_word_are_not_done(
    kind: Register, harm: Callable[[], None]
) -> None:
    @kind("example")
    def example(job: Job[Args]) -> None:
        with job.effects():
            harm()

    put()
    assert drain() == [Outcome.RETRY]
    assert OutboxRow.objects.get().attempts == 1
    assert not ProcessedJob.objects.exists()


def test_a_closed_cursor_is_the_handlers_fault_and_no_outage(kind: Register) -> None:
    @kind("example")
    def example(job: Job[Args]) -> None:
        cursor = connection.cursor()
        cursor.close()
        cursor.execute("SELECT 1")

    put()
    assert drain() == [Outcome.RETRY]
    assert OutboxRow.objects.get().attempts == 1


def test_no_address_of_a_person_is_kept_with_an_error(kind: Register) -> None:
    @kind("example")
    def example(job: Job[Args]) -> None:
        raise ValueError("refused: ada@example.org, redis://:secret@host:1/0")

    put()
    drain()
    error = OutboxRow.objects.get().last_error
    assert "ada" not in error
    assert "secret" not in error


@pytest.mark.parametrize("reason", ["by <buyer@example.org>", "\0", "\ud800", "x" * 100_000])
def test_what_gives_up_is_dead_at_once_whatever_its_reason(kind: Register, reason: str) -> None:
    @kind("example")
    def example(job: Job[Args]) -> None:
        raise GiveUp(reason)

    put()
    assert drain() == [Outcome.BURIED]
    found = OutboxRow.objects.get()
    told = [found.dead_reason, found.last_error, *JobEvent.objects.values_list("note", flat=True)]
    assert found.attempts == 1
    assert all(len(text.encode()) <= 2048 and "buyer" not in text for text in told)


def test_what_is_to_be_tried_later_counts_no_attempt(kind: Register) -> None:
    @kind("example")
    def example(job: Job[Args]) -> None:
        raise TryLater(30, "the provider is away")

    put()
    assert drain() == [Outcome.LATER]
    found = OutboxRow.objects.get()
    assert (found.attempts, found.starts, found.entry_id) == (0, 0, None)
    assert 29 < (found.available_at - timezone.now()).total_seconds() <= 45
    [event] = JobEvent.objects.all()
    assert (event.what, event.by) == (What.LATER, "test")


def test_a_provider_that_asks_for_nonsense_is_a_failure_like_any_other(kind: Register) -> None:
    def asked(error: BaseException) -> float:
        raise ValueError("Wed, 21 Oct 2015 07:28:00 GMT")

    @kind("example", policy=Policy(retry_after=asked, jitter=0))
    def example(job: Job[Args]) -> None:
        raise OSError("429")

    put()
    assert drain() == [Outcome.RETRY]
    assert OutboxRow.objects.get().attempts == 1


def test_a_job_whose_outcome_cannot_be_decided_is_dead_in_the_end(
    kind: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    @kind("example")
    def example(job: Job[Args]) -> None:
        raise ValueError("boom")

    def undecidable(*args: object) -> None:
        raise LookupError("a fault of ours")

    monkeypatch.setattr("jobs.conclusion.fail", undecidable)
    row = put()
    with transaction.atomic():
        [due] = lock_due(1)
        mark_relayed({row: "1-1"})
    fields = [(name.encode(), value.encode()) for name, value in due.fields().items()]
    slot = Slot(Entry("1-1", fields), parse_entry(fields), kind_named("example"))
    runner = Runner("test", Pool(0), Letters(settings.REDIS_URL))
    assert runner.run(slot) == Outcome.UNDECIDED
    slot.cuts = CUTS_LIMIT
    assert runner.run(slot) == Outcome.BURIED
    assert "a fault of ours" in OutboxRow.objects.get().last_error
