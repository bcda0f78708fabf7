"""Resend and render again: one press, one email; what is done already is not done again."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone
from redis import Redis

from jobs.models import OutboxRow, ProcessedJob
from jobs.testing import drain, enqueued
from orders.box_office import make_group
from orders.models import Order, OrderStatus
from orders.services import PlacedOrder
from tests.books import books_are_in_order
from tests.conftest import MailFolder
from tests.people import box_office, buy, new_type
from tests.tickets.tries import try_now
from tickets import files, page, services
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


def test_a_resending_whose_tickets_change_before_it_runs_waits_for_the_new_file(
    redis: Redis, mailbox: MailFolder
) -> None:
    order = buy(new_type(), 2)
    drain()
    resend(order)
    services.refund(order.id, "one is ill", STAFF, seqs=[1])
    renders = OutboxRow.objects.filter(kind="render_tickets")
    renders.update(available_at="2100-01-01T00:00Z")
    drain()
    waiting = OutboxRow.objects.get(kind="resend_tickets")
    assert (waiting.attempts, waiting.dead_at) == (0, None)
    assert "the file of the order is being made" in waiting.last_error
    renders.update(available_at=timezone.now())
    drain()
    assert try_now() is None
    again = Delivery.objects.get(kind="tickets", generation=2)
    assert (again.state, again.file) == ("sent", files.newest_file(Order.objects.get()))
    books_are_in_order()


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
    files.ticket_storage().delete(name)
    services.render_again(sent.id, STAFF)
    drain()
    assert files.ticket_storage().exists(name)


def test_a_new_template_is_a_new_file_and_no_second_email(
    redis: Redis, sent: PlacedOrder, mailbox: MailFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "TEMPLATE_REVISION", page.TEMPLATE_REVISION + 1)
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


def kill(generation: int | None = None) -> OutboxRow:
    """The open job is dead, and of this generation."""
    row = OutboxRow.objects.get()
    row.dead_at, row.relayed_at, row.entry_id = timezone.now(), None, None
    row.args = row.args if generation is None else {**row.args, "generation": generation}
    row.save()
    return row


def replay(row: OutboxRow) -> None:
    OutboxRow.objects.filter(pk=row.pk).update(dead_at=None)
    drain()


@pytest.mark.parametrize("state", ["queued", "uncertain", ""])
@pytest.mark.parametrize("window", [0, 24 * 3600])
def test_a_dead_first_email_whose_tickets_were_resent_meanwhile_sends_no_second_one(
    made: PlacedOrder, mailbox: MailFolder, state: str, window: int
) -> None:
    row = kill()
    resend(made)
    drain()
    second = Delivery.objects.get()
    if state:
        second.pk, second.generation, second.idempotency_key = None, 1, "first"
        second.state, second.settled_at, second.outbox_id = state, None, row.pk
        second.save()
    with override_settings(MAIL_KEY_WINDOW=window):
        replay(row)
    assert len(mailbox.calls()) == 1
    assert ProcessedJob.objects.get(pk=row.pk).result == "nothing to do"


def test_a_dead_resending_after_which_another_one_was_sent_sends_nothing(
    sent: PlacedOrder, mailbox: MailFolder
) -> None:
    resend(sent)
    row = kill()
    resend(sent, 2)
    drain()
    replay(row)
    assert len(mailbox.calls()) == 2
    assert ProcessedJob.objects.get(pk=row.pk).result == "nothing to do"


@pytest.mark.parametrize("generation", [-3, 0, 3, 4, 999, 2**31, 2**62])
def test_a_resending_under_a_number_that_nobody_asked_for_is_dead_at_once(
    sent: PlacedOrder, mailbox: MailFolder, generation: int
) -> None:
    resend(sent)
    replay(kill(generation))
    assert (
        f"nobody asked for email {generation} of this order" in OutboxRow.objects.get().dead_reason
    )
    assert len(mailbox.calls()) == 1
    assert seen_now(sent) == 1
    assert resend(sent, 1)


def test_a_resending_that_runs_before_the_one_before_it_is_sent(
    sent: PlacedOrder, mailbox: MailFolder
) -> None:
    resend(sent)
    OutboxRow.objects.update(available_at="2100-01-01T00:00Z")
    resend(sent, 2)
    drain()
    assert Delivery.objects.get(generation=3).state == "sent"


def test_a_resending_that_had_nothing_to_do_is_counted_all_the_same(
    sent: PlacedOrder, mailbox: MailFolder
) -> None:
    resend(sent)
    Order.objects.update(status=OrderStatus.REFUNDED)
    drain()
    assert ProcessedJob.objects.get(kind="resend_tickets").result == "nothing to do"
    Order.objects.update(status=OrderStatus.PLACED)
    assert seen_now(sent) == 2
    assert resend(sent, 2)
    drain()
    assert Delivery.objects.get(generation=3).state == "sent"


MALFORMED: list[Any] = [
    {}, {"generation": "x"}, {"generation": "2"}, {"generation": None}, {"generation": True},
    {"generation": 2.0}, {"generation": [2]}, {"generation": 10**30}, {"generation": 999},
    {"generation": -5}, [], [2], 7, "text",
]  # fmt: skip


@pytest.mark.parametrize("args", MALFORMED, ids=repr)
def test_a_dead_resending_with_any_arguments_stands_in_nobodys_way(
    sent: PlacedOrder, client: Client, args: Any
) -> None:
    resend(sent)
    row = kill()
    row.args = args
    row.save()
    make_group()
    client.force_login(box_office())
    page = client.get(reverse("admin:orders_order_change", args=[sent.id]))
    assert page.status_code == 200
    assert seen_now(sent) == 1
    assert resend(sent, 1)
