"""Bulk never delays a ticket: it waits in the outbox while a ticket is late or many are out."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import transaction
from django.db.models.functions import Now

from jobs import holds, tally
from jobs.job import Job
from jobs.models import OutboxRow
from jobs.outbox import any_due, enqueue
from jobs.publishing import rebuild, step
from jobs.registry import Lane
from jobs.stream import RelayStream
from tests.conftest import Register

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class Args:
    number: int


@pytest.fixture(autouse=True)
def _kinds(kind: Register) -> None:
    @kind("ticket")
    def ticket(job: Job[Args]) -> None: ...

    @kind("bulk", lane=Lane.BULK)
    def bulk(job: Job[Args]) -> None: ...


@pytest.fixture
def stream(redis: Any) -> RelayStream:
    made = RelayStream(django_settings.REDIS_URL)
    rebuild(made)
    return made


def put(kind: str, count: int) -> list[int]:
    with transaction.atomic():
        return [enqueue(kind, number=number) for number in range(count)]


def out(kind: str) -> int:
    """How many rows of the kind are published and not done."""
    return OutboxRow.objects.filter(kind=kind, relayed_at__isnull=False).count()


def test_a_few_rows_of_bulk_are_out_at_a_time(stream: RelayStream) -> None:
    rows = put("bulk", 40)
    assert step(stream, 500) == 16
    assert step(stream, 500) == 0
    OutboxRow.objects.filter(pk__in=rows[:10]).delete()
    assert step(stream, 500) == 10
    assert out("bulk") == 16


def test_tickets_that_come_after_much_bulk_are_published_first(
    stream: RelayStream, redis: Any
) -> None:
    put("bulk", 1000)
    put("ticket", 30)
    assert step(stream, 500) == 46
    kinds = [fields[b"kind"] for _, fields in redis.xrange("jobs")]
    assert kinds == [b"ticket"] * 30 + [b"bulk"] * 16


@pytest.mark.parametrize("relayed", [False, True])
def test_no_bulk_goes_out_while_a_ticket_is_late(stream: RelayStream, relayed: bool) -> None:
    [ticket] = put("ticket", 1)
    if relayed:
        step(stream, 500)
    OutboxRow.objects.filter(pk=ticket).update(available_at=Now() - timedelta(seconds=6))
    put("bulk", 5)
    assert step(stream, 500) == (0 if relayed else 1)
    assert out("bulk") == 0
    OutboxRow.objects.filter(pk=ticket).delete()
    assert step(stream, 500) == 5


def test_a_ticket_that_waits_for_its_retry_or_is_dead_holds_up_no_bulk(
    stream: RelayStream,
) -> None:
    waiting, dead = put("ticket", 2)
    OutboxRow.objects.filter(pk=waiting).update(available_at=Now() + timedelta(hours=1))
    OutboxRow.objects.filter(pk=dead).update(dead_at=Now(), available_at=Now() - timedelta(hours=1))
    put("bulk", 5)
    assert step(stream, 500) == 5


def test_a_kind_of_tickets_that_is_held_holds_up_no_bulk(stream: RelayStream) -> None:
    [ticket] = put("ticket", 1)
    OutboxRow.objects.filter(pk=ticket).update(available_at=Now() - timedelta(hours=1))
    put("bulk", 5)
    holds.pause("ticket", 60, "a test", "ann@desk")
    assert any_due(), "the bulk"
    assert step(stream, 500) == 5
    OutboxRow.objects.filter(kind="bulk").delete()
    assert not any_due(), "a worker that drains does not wait for what is paused"
    holds.resume("ticket")
    assert any_due()


def test_whether_tickets_are_late_is_read_in_the_count_that_a_relay_keeps(
    stream: RelayStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "LARGE", 1)
    [ticket] = put("ticket", 1)
    OutboxRow.objects.filter(pk=ticket).update(available_at=Now() - timedelta(seconds=6))
    tally.count_and_keep()
    OutboxRow.objects.filter(pk=ticket).delete()
    put("bulk", 5)
    assert step(stream, 500) == 0
    tally.count_and_keep()
    assert step(stream, 500) == 5
