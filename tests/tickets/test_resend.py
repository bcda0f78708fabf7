"""Resend and render again: one press, one email; what is done already is not done again."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from redis import Redis

from jobs.models import OutboxRow, ProcessedJob
from jobs.testing import drain, enqueued
from orders.models import Order, OrderStatus
from orders.services import PlacedOrder
from tests.books import books_are_in_order
from tests.conftest import MailFolder
from tests.people import buy, new_type
from tickets import page, services
from tickets.models import Delivery, Ticket, TicketFile
from tickets.services import Actor, Refused

pytestmark = pytest.mark.django_db(transaction=True)

STAFF = Actor("boxoffice")


def resend(order: PlacedOrder, seen: int = 1) -> bool:
    return services.resend(order.id, seen, STAFF)


def seen_now(order: PlacedOrder) -> int:
    return services.newest_generation(Order.objects.get(pk=order.id))


@pytest.fixture
def sent(mailbox: MailFolder) -> PlacedOrder:
    """An order whose tickets were emailed."""
    order = buy(new_type())
    drain()
    return order


def test_resending_is_a_second_email_under_its_own_key_with_the_same_file(
    redis: Redis, sent: PlacedOrder, mailbox: MailFolder
) -> None:
    assert resend(sent)
    assert enqueued("resend_tickets") == [{"order_id": sent.id, "generation": 2}]
    drain()
    first, second = Delivery.objects.order_by("generation")
    assert (second.generation, second.state, second.file) == (2, "sent", first.file)
    assert first.idempotency_key != second.idempotency_key
    assert first.message_id != second.message_id
    assert len(mailbox.messages()) == 2
    books_are_in_order()


def test_the_same_form_twice_sends_one_email(sent: PlacedOrder, mailbox: MailFolder) -> None:
    assert resend(sent)
    assert not resend(sent)
    drain()
    assert not resend(sent)
    drain()
    assert len(mailbox.messages()) == 2


def test_two_people_who_saw_the_same_page_send_one_email(
    sent: PlacedOrder, mailbox: MailFolder
) -> None:
    def press(_: int) -> bool:
        try:
            return resend(sent)
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(press, range(6))) == 1
    drain()
    assert len(mailbox.messages()) == 2


def test_a_page_that_was_read_again_sends_again(sent: PlacedOrder, mailbox: MailFolder) -> None:
    for number in (1, 2, 3):
        assert seen_now(sent) == number
        assert resend(sent, number)
        assert seen_now(sent) == number + 1
        drain()
    assert len(mailbox.messages()) == 4


def test_the_generation_of_a_dead_or_discarded_resending_is_not_given_out_again(
    sent: PlacedOrder,
) -> None:
    resend(sent)
    row = OutboxRow.objects.get()
    row.dead_at = row.discarded_at = row.created_at
    row.save()
    assert seen_now(sent) == 2
    assert resend(sent, 2)


def test_the_email_goes_to_the_orders_present_address(
    sent: PlacedOrder, mailbox: MailFolder
) -> None:
    Order.objects.update(email="new@example.org")
    resend(sent)
    drain()
    assert Delivery.objects.get(generation=2).recipient == "new@example.org"


def test_an_order_that_is_not_placed_or_has_no_file_is_refused_in_words() -> None:
    order = buy(new_type())
    with pytest.raises(Refused, match="no file yet"):
        resend(order)
    Order.objects.update(status=OrderStatus.REFUNDED)
    with pytest.raises(Refused, match="The order is refunded"):
        resend(order)
    with pytest.raises(Refused, match="The order is refunded"):
        services.render_again(order.id, STAFF)
    assert not enqueued("resend_tickets")


def test_an_order_that_is_refunded_before_its_resending_runs_is_sent_nothing(
    sent: PlacedOrder, mailbox: MailFolder
) -> None:
    resend(sent)
    services.refund(sent.id, "asked for it", STAFF)
    drain()
    assert not Delivery.objects.filter(generation=2).exists()
    assert ProcessedJob.objects.get(kind="resend_tickets").result == "nothing to do"


def test_rendering_again_gives_the_same_file_and_sends_no_second_email(
    redis: Redis, sent: PlacedOrder, mailbox: MailFolder
) -> None:
    before = TicketFile.objects.values().get(), list(Ticket.objects.values())
    job = services.render_again(sent.id, STAFF)
    drain()
    assert ProcessedJob.objects.get(pk=job).result == "nothing to do"
    assert (TicketFile.objects.values().get(), list(Ticket.objects.values())) == before
    assert len(mailbox.messages()) == 1
    books_are_in_order()


def test_rendering_again_brings_back_a_file_that_the_storage_lost(sent: PlacedOrder) -> None:
    name = TicketFile.objects.get().name
    services.ticket_storage().delete(name)
    services.render_again(sent.id, STAFF)
    drain()
    assert services.ticket_storage().exists(name)


def test_a_new_template_is_a_new_file_and_no_second_email(
    redis: Redis, sent: PlacedOrder, mailbox: MailFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "TEMPLATE_REVISION", page.TEMPLATE_REVISION + 1)
    Order.objects.update(email="new@example.org")
    services.render_again(sent.id, STAFF)
    drain()
    assert TicketFile.objects.count() == 2
    assert len(mailbox.messages()) == 1
    assert Delivery.objects.count() == 1
    books_are_in_order()


def test_rendering_again_is_refused_while_a_job_is_to_do_it(sent: PlacedOrder) -> None:
    job = services.render_again(sent.id, STAFF)
    with pytest.raises(Refused, match=f"Job {job} is to render it already"):
        services.render_again(sent.id, STAFF)
    OutboxRow.objects.update(dead_at="2026-01-01T00:00Z")
    assert services.render_again(sent.id, STAFF) > job
