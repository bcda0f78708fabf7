"""The outbox: what goes in, what is due, and that each row leaves once."""

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from django.db.models.functions import Now

from jobs import conclusion, outbox
from jobs.conclusion import Failure
from jobs.job import Job
from jobs.models import OutboxRow, ProcessedJob
from jobs.outbox import NotEnqueuable, enqueue
from jobs.policy import Policy
from jobs.registry import UnknownKind
from tests.conftest import Register

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class Args:
    order_id: int
    note: str = ""


@pytest.fixture(autouse=True)
def _example(kind: Register) -> None:
    @kind("example", subject="order:{order_id}")
    def example(job: Job[Args]) -> None:
        with job.effects():
            pass


def put(note: str = "", **changes: Any) -> int:
    """One committed outbox row, with these columns changed."""
    with transaction.atomic():
        row = enqueue("example", order_id=1, note=note)
    if changes:
        OutboxRow.objects.filter(pk=row).update(**changes)
    return row


def fail(row: int, entry_id: str, error: str) -> object:
    """One failed run of the delivery `entry_id`; None where that concluded nothing."""
    decide = partial(Policy().after_failure, ValueError(error), chance=0.5)
    return conclusion.fail(row, entry_id, decide, Failure(error, "", "worker-1"))


def due() -> list[int]:
    with transaction.atomic():
        return [row.id for row in outbox.lock_due(100)]


def test_enqueue_outside_of_a_transaction_is_refused() -> None:
    with pytest.raises(transaction.TransactionManagementError, match="outside of a transaction"):
        enqueue("example", order_id=1, note="")
    assert not OutboxRow.objects.exists()


def test_a_job_goes_with_its_transaction() -> None:
    def place_and_fail() -> None:
        with transaction.atomic():
            enqueue("example", order_id=1, note="")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        place_and_fail()
    assert not OutboxRow.objects.exists()


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ({"order_id": 1}, TypeError),
        ({"order_id": "1", "note": ""}, TypeError),
        ({"order_id": True, "note": ""}, TypeError),
        ({"order_id": 1, "note": "", "more": 1}, TypeError),
        ({"order_id": 2**63, "note": ""}, NotEnqueuable),
        ({"order_id": 1, "note": "a\0b"}, NotEnqueuable),
        ({"order_id": 1, "note": "\ud800"}, NotEnqueuable),
        ({"order_id": 1, "note": "x" * 1020}, NotEnqueuable),
        ({"order_id": 1, "note": "x" * 2000}, NotEnqueuable),
    ],
)
def test_arguments_that_no_entry_can_carry_are_refused_at_once(args: Any, error: type) -> None:
    with transaction.atomic(), pytest.raises(error):
        enqueue("example", **args)
    assert not OutboxRow.objects.exists()


def test_a_kind_without_a_handler_is_refused_at_once() -> None:
    with transaction.atomic(), pytest.raises(UnknownKind):
        enqueue("nobody", order_id=1)


def test_one_notification_goes_out_after_the_commit() -> None:
    parameters = connection.get_connection_params()
    with psycopg.connect(**parameters, autocommit=True) as listener:
        listener.execute(f"LISTEN {outbox.CHANNEL}")
        with transaction.atomic():
            enqueue("example", order_id=1, note="")
            enqueue("example", order_id=2, note="")
            assert not list(listener.notifies(timeout=0))
        assert len(list(listener.notifies(timeout=2, stop_after=1))) == 1
        assert not list(listener.notifies(timeout=0))


def test_rows_come_in_order_of_time_then_id_and_only_when_due() -> None:
    first = put(available_at=Now() - timedelta(minutes=5))
    second, third = put(), put(available_at=Now() - timedelta(minutes=9))
    put(available_at=Now() + timedelta(minutes=5))
    put(dead_at=Now())
    put(relayed_at=Now(), entry_id="1-1")
    assert due() == [third, first, second]


def test_a_job_for_later_is_due_and_counts_its_age_from_then_on() -> None:
    with transaction.atomic():
        row = outbox.put("example", {"order_id": 1, "note": ""}, after=40)
    seconds = outbox.seconds_until_due()
    assert seconds is not None
    assert 35 < seconds <= 40
    found = OutboxRow.objects.get(pk=row)
    assert found.due_at == found.available_at
    assert due() == []


def test_a_row_that_another_relay_holds_is_skipped() -> None:
    held, free = put(), put()
    with psycopg.connect(**connection.get_connection_params()) as other:
        other.execute("SELECT 1 FROM jobs_outbox WHERE id = %s FOR UPDATE", [held])
        assert due() == [free]
    assert due() == [held, free]


def test_the_wait_for_the_next_row_is_known() -> None:
    assert outbox.seconds_until_due() is None
    put(available_at=Now() + timedelta(seconds=40))
    seconds = outbox.seconds_until_due()
    assert seconds is not None
    assert 35 < seconds <= 40


def job_of(row: int, **changes: Any) -> Job[Args]:
    content = {"kind": "example", "args": Args(1), "outbox_id": row, "request_id": "", "trace": ""}
    return Job(**{**content, **changes})


def move(job: Job[Args]) -> None:
    with transaction.atomic():
        conclusion.move_to_processed(job, "worker-1", 12)


def test_a_job_moves_once_and_is_found_done_ever_after() -> None:
    row = put()
    move(job_of(row))
    done = ProcessedJob.objects.get(outbox_id=row)
    assert (done.kind, done.subject, done.worker, done.result) == (
        "example", "order:1", "worker-1", "done",
    )  # fmt: skip
    with pytest.raises(conclusion.AlreadyProcessed):
        move(job_of(row))
    assert ProcessedJob.objects.count() == 1


@pytest.mark.parametrize(
    "changes", [{"kind": "other"}, {"args": Args(2)}, {"request_id": "another"}]
)
def test_a_row_that_is_somebody_elses_is_not_moved(changes: dict[str, Any]) -> None:
    row = put()
    with pytest.raises(conclusion.UnknownJob):
        move(job_of(row, **changes))
    assert OutboxRow.objects.filter(pk=row).exists()


def test_a_dead_row_whose_slow_run_wins_is_done() -> None:
    row = put(dead_at=Now())
    move(job_of(row))
    assert not OutboxRow.objects.exists()


def test_a_retry_concludes_its_own_publication_only() -> None:
    row = put(relayed_at=Now(), entry_id="5-1")
    assert not fail(row, "4-1", "older delivery")
    assert fail(row, "5-1", "boom")
    assert not fail(row, "5-1", "told twice")
    found = OutboxRow.objects.get(pk=row)
    assert (found.attempts, found.last_error, found.relayed_at, found.entry_id) == (
        1, "boom", None, None,
    )  # fmt: skip
    assert due() == []


def test_a_retry_waits_for_the_relay_that_has_not_committed_its_mark() -> None:
    row = put()
    with psycopg.connect(**connection.get_connection_params()) as relay:
        relay.execute(
            "UPDATE jobs_outbox SET relayed_at = now(), entry_id = '5-1' WHERE id = %s", [row]
        )
        with pytest.raises(Exception, match="lock timeout"):
            fail(row, "5-1", "boom")
    assert fail(row, "5-1", "boom")
