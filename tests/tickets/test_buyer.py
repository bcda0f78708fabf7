"""What whoever holds the link asks for: the email once more, so often and not more."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from jobs.models import OutboxRow
from jobs.testing import drain, enqueued
from orders.box_office import make_group
from orders.models import Event, Order, OrderStatus
from orders.services import PlacedOrder
from tests.books import books_are_in_order
from tests.conftest import MailFolder
from tests.people import box_office, buy, new_type
from tests.web import Answer, open_order, text
from tickets import buyer, services
from tickets.buyer import TooOften
from tickets.models import BuyerAct, Delivery
from tickets.services import Actor, Refused

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sent(mailbox: MailFolder) -> PlacedOrder:
    """An order whose tickets were emailed."""
    order = buy(new_type(), 2)
    drain()
    return order


@pytest.fixture
def page(client: Client, sent: PlacedOrder) -> str:
    """The order's address, in a browser that has followed its link."""
    return open_order(client, sent)


def seen_on(client: Client, page: str) -> dict[str, str]:
    """The form of the page, as it is sent back."""
    found = re.search(r'name="seen" value="(\d+)"', text(client.get(f"{page}resend/")))
    assert found
    return {"seen": found[1]}


def press(client: Client, page: str, form: dict[str, str]) -> Answer:
    return client.post(f"{page}resend/", form)


def an_hour_passes(minutes: int = 61) -> None:
    BuyerAct.objects.update(at=timezone.now() - timedelta(minutes=minutes))


def test_asking_for_the_email_again_sends_one_more(
    redis: Any, client: Client, page: str, sent: PlacedOrder, mailbox: MailFolder
) -> None:
    answer = press(client, page, seen_on(client, page))
    assert (answer.status_code, answer["Location"]) == (303, f"{page}?done=resent")
    assert "We are sending the email once more" in text(client.get(answer["Location"]))
    assert enqueued("resend_tickets") == [{"order_id": sent.id, "generation": 2}]
    drain()
    assert len(mailbox.messages()) == 2
    assert Delivery.objects.get(generation=2).state == "sent"
    books_are_in_order()


def test_the_same_form_twice_sends_one_email_and_the_second_answer_says_so(
    client: Client, page: str, mailbox: MailFolder
) -> None:
    form = seen_on(client, page)
    first, second = press(client, page, form), press(client, page, form)
    assert first["Location"] == f"{page}?done=resent"
    assert second["Location"] == f"{page}?done=resent-already"
    assert "asked for already" in text(client.get(second["Location"]))
    drain()
    assert len(mailbox.messages()) == 2


def test_two_presses_at_once_send_one_email(sent: PlacedOrder, mailbox: MailFolder) -> None:
    def ask(_: int) -> bool:
        try:
            return buyer.resend(sent.id, 1)
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(ask, range(6))) == 1
    drain()
    assert len(mailbox.messages()) == 2
    assert BuyerAct.objects.count() == 1


def test_the_email_comes_three_times_an_hour_and_the_fourth_is_told_when(
    client: Client, page: str, mailbox: MailFolder
) -> None:
    for _ in range(3):
        form = seen_on(client, page)
        assert press(client, page, form).status_code == 303
    assert press(client, page, form)["Location"] == f"{page}?done=resent-already"
    first = BuyerAct.objects.earliest("at").at
    answer = press(client, page, {"seen": "4"})
    again = (first + timedelta(hours=1, seconds=59)).astimezone(Event.objects.get().zone)
    assert answer.status_code == 429
    for shown in (answer, client.get(f"{page}resend/")):
        assert f"It is possible again at {again:%H:%M} (Europe/Berlin)." in text(shown)
        assert "<button" not in text(shown)
    drain()
    assert len(mailbox.messages()) == 4
    an_hour_passes()
    assert press(client, page, seen_on(client, page)).status_code == 303


def test_the_limit_is_one_orders_and_holds_with_many_at_once(
    sent: PlacedOrder, mailbox: MailFolder
) -> None:
    other = buy(new_type())
    drain()

    def ask(number: int) -> str:
        try:
            return "sent" if buyer.resend(sent.id, number % 6 + 1) else "already"
        except TooOften:
            return "too often"
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(ask, range(36)))
    assert found.count("sent") <= 3
    assert BuyerAct.objects.filter(order_id=sent.id).count() == found.count("sent")
    assert buyer.resend(other.id, 1)


def test_what_the_box_office_resends_is_not_counted(sent: PlacedOrder) -> None:
    for number in (1, 2, 3, 4):
        assert services.resend(sent.id, number, Actor("boxoffice"))
    assert buyer.resend(sent.id, 5)


def test_before_there_is_a_file_and_after_a_refund_nothing_is_sent(
    client: Client, mailbox: MailFolder
) -> None:
    order = buy(new_type())
    page = open_order(client, order)
    for answer in (client.get(f"{page}resend/"), press(client, page, {"seen": "1"})):
        assert "Your tickets are being made" in text(answer)
        assert "<form" not in text(answer).split("<main")[1]
    drain()
    Order.objects.update(status=OrderStatus.REFUNDED)
    refused = press(client, page, {"seen": "1"})
    assert (refused.status_code, "This order was refunded" in text(refused)) == (409, True)
    with pytest.raises(Refused):
        buyer.resend(order.id, 1)
    assert not enqueued("resend_tickets")
    assert not BuyerAct.objects.exists()


@pytest.mark.parametrize("seen", ["", "0", "x", "-1"])
def test_a_form_without_what_the_page_showed_is_refused(
    client: Client, page: str, seen: str
) -> None:
    answer = press(client, page, {"seen": seen})
    assert (answer.status_code, "incomplete" in text(answer)) == (409, True)
    assert not enqueued("resend_tickets")


@pytest.mark.parametrize("seen", ["2", "999", str(2**70)])
def test_a_number_that_no_page_showed_sends_nothing(client: Client, page: str, seen: str) -> None:
    assert press(client, page, {"seen": seen})["Location"] == f"{page}?done=resent-already"
    assert not enqueued("resend_tickets")


FORMS = ("resend/", "tickets/1/holder/")


@pytest.mark.parametrize("form", FORMS)
def test_without_the_orders_grant_there_is_one_and_the_same_404(
    client: Client, page: str, form: str
) -> None:
    other = buy(new_type())
    stranger = Client()
    nothing: Answer = stranger.get("/no-such-page/")
    for answer in (
        stranger.get(f"{page}{form}"),
        stranger.post(f"{page}{form}", {"seen": "1", "name": "Eve"}),
        stranger.get(f"/orders/NOSUCH22/{form}"),
        client.get(f"/orders/{other.code}/{form}"),
        client.post(f"/orders/{other.code}/{form}", {"seen": "1", "name": "Eve"}),
        client.get(f"{page}tickets/9/holder/"),
        client.post(f"{page}tickets/9/holder/", {"seen": "1", "name": "Eve"}),
        client.get(f"{page}tickets/{10**30}/holder/"),
    ):
        assert answer.status_code == 404
        assert answer.content == nothing.content
    assert not BuyerAct.objects.exists()


@pytest.mark.parametrize("form", FORMS)
def test_a_form_needs_its_cookie_and_reading_changes_nothing(sent: PlacedOrder, form: str) -> None:
    strict = Client(enforce_csrf_checks=True)
    page = open_order(strict, sent)
    before = OutboxRow.objects.count(), list(Order.objects.values())
    for answer in (strict.get(f"{page}{form}"), strict.head(f"{page}{form}")):
        assert answer.status_code == 200
        assert answer["Cache-Control"] == "no-store, private"
        assert answer["X-Robots-Tag"] == "noindex"
        assert answer["Referrer-Policy"] == "same-origin"
    refused: Answer = strict.post(f"{page}{form}", {"seen": "1", "name": "Eve"})
    assert refused.status_code == 403
    for change in (strict.put, strict.delete, strict.patch):
        assert change(f"{page}{form}").status_code in (403, 405)
    assert (OutboxRow.objects.count(), list(Order.objects.values())) == before


def test_a_revoked_link_asks_for_nothing(client: Client, page: str) -> None:
    Order.objects.update(link_version=2)
    assert press(client, page, {"seen": "1"}).status_code == 404


def test_the_page_of_an_order_leads_there_and_says_only_what_it_knows(
    client: Client, page: str
) -> None:
    shown = text(client.get(page))
    assert f'href="{page}resend/"' in shown
    assert f'href="{page}tickets/2/holder/"' in shown
    assert 'class="notice"' not in shown
    assert 'class="notice"' not in text(client.get(f"{page}?done=%3Cscript%3E"))


def test_the_box_office_reads_that_it_was_the_buyer(
    client: Client, page: str, sent: PlacedOrder
) -> None:
    press(client, page, seen_on(client, page))
    make_group()
    client.force_login(box_office())
    shown = text(client.get(f"/admin/orders/order/{sent.id}/change/"))
    assert "asked for the email again, number 2, request " in shown
