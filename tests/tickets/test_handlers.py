"""The states that the jobs of tickets bring about."""

import io

import pytest
from django.db import transaction
from prometheus_client import REGISTRY
from pypdf import PdfReader

from jobs.models import OutboxRow, ProcessedJob
from jobs.outbox import enqueue
from jobs.runner import Outcome
from jobs.testing import drain, enqueued
from orders.models import Order, OrderStatus
from tests.conftest import Arm, MailFolder
from tests.people import buy, new_type
from tickets.files import ticket_storage
from tickets.models import Delivery, Ticket, TicketFile

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_order_ends_with_tickets_one_file_and_one_email(mailbox: MailFolder) -> None:
    order = buy(new_type(), 3)
    assert drain() == [Outcome.PROCESSED, Outcome.PROCESSED]
    assert Ticket.objects.filter(order_id=order.id).count() == 3
    file = TicketFile.objects.get(order_id=order.id)
    with ticket_storage().open(file.name) as stored:
        assert len(PdfReader(io.BytesIO(stored.read())).pages) == 3
    assert Delivery.objects.get(order_id=order.id).state == "sent"
    assert len(mailbox.messages()) == 1
    assert not OutboxRow.objects.exists()
    assert ProcessedJob.objects.count() == 2


def test_an_order_refunded_before_the_render_gets_no_tickets(mailbox: MailFolder) -> None:
    order = buy(new_type())
    Order.objects.filter(pk=order.id).update(status=OrderStatus.REFUNDED)
    drain()
    assert not Ticket.objects.exists()
    assert not mailbox.messages()
    assert ProcessedJob.objects.get().result == "nothing to do"


def test_an_order_refunded_while_it_renders_gets_no_tickets(
    at_failpoint: Arm, mailbox: MailFolder
) -> None:
    order = buy(new_type())

    def refund(place: str) -> None:
        if place == "runner.before_effects/render_tickets":
            Order.objects.filter(pk=order.id).update(status=OrderStatus.REFUNDED)

    at_failpoint(refund)
    drain()
    assert not Ticket.objects.exists()
    assert not TicketFile.objects.exists()
    assert ProcessedJob.objects.get().result == "nothing to do"


def test_a_second_job_for_the_same_order_changes_nothing(mailbox: MailFolder) -> None:
    order = buy(new_type(), 2)
    drain()
    before = list(Ticket.objects.values_list("token", "issued_at"))
    for kind in ("render_tickets", "email_tickets"):
        with transaction.atomic():
            enqueue(kind, order_id=order.id)
    drain()
    assert list(Ticket.objects.values_list("token", "issued_at")) == before
    assert TicketFile.objects.count() == 1
    assert len(mailbox.messages()) == 1


def test_a_job_that_lost_the_race_throws_its_tokens_away(
    at_failpoint: Arm, mailbox: MailFolder
) -> None:
    order = buy(new_type())
    inner: list[Outcome] = []

    def overtake(place: str) -> None:
        if place == "runner.before_effects/render_tickets" and not inner:
            inner.append(Outcome.UNDECIDED)
            with transaction.atomic():
                enqueue("render_tickets", order_id=order.id)
            inner.extend(drain())

    at_failpoint(overtake)
    drain()
    file = TicketFile.objects.get()
    token = Ticket.objects.get().token
    with ticket_storage().open(file.name) as stored:
        text = PdfReader(io.BytesIO(stored.read())).pages[0].extract_text()
    assert token in text.replace(" ", "").replace("\n", "")
    assert len(mailbox.messages()) == 1


def test_the_email_job_is_enqueued_in_the_commit_of_the_tickets() -> None:
    order = buy(new_type())
    assert enqueued("render_tickets") == [{"order_id": order.id}]
    assert enqueued("email_tickets") == []


def glyphs_missed() -> float:
    return REGISTRY.get_sample_value("stagedoor_missing_glyphs_total") or 0.0


def test_letters_without_a_glyph_are_named_in_the_log_and_counted(
    mailbox: MailFolder, caplog: pytest.LogCaptureFixture
) -> None:
    counted = glyphs_missed()
    buy(new_type(), buyer_name="Ζωή Ώστιν Юлия Żółć")
    drain()
    assert glyphs_missed() == counted
    buy(new_type(), buyer_name="ليلى")
    drain()
    assert glyphs_missed() > counted
    [named] = [record.getMessage() for record in caplog.records if "no glyph" in record.message]
    assert "U+064" in named
    assert "ليلى" not in named
    assert len(mailbox.messages()) == 2
