"""`/orders/<code>/refund/`: the buyer gives tickets back, until the deadline, once."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from redis import Redis

from jobs.models import OutboxRow
from jobs.testing import drain
from orders.models import Event, Order, OrderStatus, Refund, Stock
from orders.services import PlacedOrder
from tests.books import books_are_in_order
from tests.conftest import MailFolder
from tests.people import buy, new_event, new_type
from tests.web import Answer, open_order, text
from tickets import services
from tickets.models import Ticket
from tickets.services import Actor

pytestmark = pytest.mark.django_db(transaction=True)
LINK = "Give tickets back"


@pytest.fixture
def placed(mailbox: MailFolder) -> PlacedOrder:
    """Three tickets of two prices, made and emailed; to be given back for ten days."""
    event = new_event(refunds_until=timezone.now() + timedelta(days=10))
    stalls = new_type(event=event, name="Stalls")
    gallery = new_type(event=event, name="Gallery", price=2000)
    order = buy(stalls, quantities={stalls.pk: 2, gallery.pk: 1})
    drain()
    return order


@pytest.fixture
def page(client: Client, placed: PlacedOrder) -> str:
    """The address, in a browser that has followed the order's link."""
    return f"{open_order(client, placed)}refund/"


def get(client: Client, page: str, query: str = "") -> str:
    answer: Answer = client.get(page + query)
    assert answer.status_code == 200
    return text(answer)


def form_of(shown: str) -> dict[str, Any]:
    """What the last button of the page sends."""
    return {
        name: re.findall(rf'type="hidden" name="{name}" value="(\d+)"', shown)
        for name in ("seq", "seen")
    }


def give_back(client: Client, page: str, *seqs: int) -> Answer:
    """Choose, read what it comes to, press."""
    shown = get(client, page, "?" + "&".join(f"seq={seq}" for seq in seqs))
    return client.post(page, form_of(shown))


def books() -> list[Any]:
    tables = (Order, Refund, Ticket, Stock, OutboxRow)
    return [list(table.objects.order_by("pk").values()) for table in tables]


def test_the_page_shows_the_tickets_their_prices_and_until_when(client: Client, page: str) -> None:
    shown = get(client, page)
    until = timezone.localtime(Event.objects.get().refunds_until, Event.objects.get().zone)
    for part in ("Stalls", "Gallery", "€42.50", "€20.00", "Ada Lovelace", "Europe/Berlin"):
        assert part in shown
    assert f"{until:%H:%M}" in shown
    assert shown.count('type="checkbox"') == 3
    assert 'method="post"' not in shown
    order_page = get(client, page.removesuffix("refund/"))
    assert LINK in order_page


def test_what_was_chosen_is_summed_up_and_asked_once_more(client: Client, page: str) -> None:
    before = books()
    shown = get(client, page, "?seq=1&seq=3")
    assert "Give these 2 tickets back?" in shown
    assert "Give back for €62.50" in shown
    assert form_of(shown) == {"seq": ["1", "3"], "seen": ["0"]}
    assert books() == before


def test_some_are_given_back_and_the_others_stay(
    client: Client, page: str, placed: PlacedOrder, redis: Redis
) -> None:
    answer = give_back(client, page, 1, 3)
    assert (answer.status_code, answer["Location"]) == (303, f"/orders/{placed.code}/")
    refund = Refund.objects.get()
    assert (refund.amount, refund.actor, refund.reason) == (
        6250, "the buyer", "given back by the buyer",
    )  # fmt: skip
    order_page = get(client, answer["Location"])
    assert 'data-state="partly_refunded"' in order_page
    assert "€62.50" in order_page
    drain()
    assert list(Ticket.objects.values_list("seq", "status")) == [
        (1, "void"), (2, "valid"), (3, "void"),
    ]  # fmt: skip
    file: Answer = client.get(f"/orders/{placed.code}/tickets.pdf")
    assert file.getvalue().startswith(b"%PDF")
    file.close()
    shown = get(client, page)
    assert "Give this ticket back?" in shown
    assert "Choose others" not in shown
    books_are_in_order()


def test_all_are_given_back(client: Client, page: str, redis: Redis) -> None:
    shown = get(client, page)
    [every] = re.findall(r'href="(\?seq=[^"]+)"', shown)
    shown = get(client, page, every.replace("&amp;", "&"))
    assert "Give all 3 tickets back?" in shown
    answer: Answer = client.post(page, form_of(shown))
    assert answer.status_code == 303
    assert Order.objects.get().is_refunded
    assert "This order was refunded" in get(client, page)
    assert LINK not in get(client, answer["Location"])
    drain()
    books_are_in_order()


def test_a_double_press_is_one_refund(client: Client, page: str, redis: Redis) -> None:
    form = form_of(get(client, page, "?seq=2"))
    cookies = client.cookies
    start = threading.Barrier(6)

    def press(_: int) -> int:
        try:
            twin = Client()
            twin.cookies = cookies
            start.wait(10)
            return int(twin.post(page, form).status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(press, range(6))) == {303}
    assert Refund.objects.count() == 1
    assert client.post(page, form).status_code == 303
    assert Refund.objects.count() == 1
    drain()
    books_are_in_order()


def test_the_whole_order_pressed_twice_is_one_refund(client: Client, page: str) -> None:
    form = form_of(get(client, page, "?seq=1&seq=2&seq=3"))
    for _ in range(2):
        assert client.post(page, form).status_code == 303
    assert Refund.objects.count() == 1


def test_a_page_from_before_another_refund_changes_nothing_and_says_so(
    client: Client, page: str, placed: PlacedOrder
) -> None:
    form = form_of(get(client, page, "?seq=1&seq=2"))
    services.refund(placed.id, "by staff", Actor("boxoffice"), seqs=[1])
    before = books()
    answer: Answer = client.post(page, form)
    assert answer.status_code == 409
    assert "nothing was given back" in text(answer)
    assert books() == before


@pytest.mark.parametrize(
    "form",
    [
        {}, {"seen": "0"}, {"seq": "1"}, {"seq": "1", "seen": "x"}, {"seq": "99", "seen": "0"},
        {"seq": ["1", "99"], "seen": "0"}, {"seq": "x", "seen": "0"}, {"seq": "-1", "seen": "0"},
        {"seq": "9" * 40, "seen": "0"}, {"seq": "1", "seen": "9" * 40}, {"seq": "²", "seen": "0"},
    ],
)  # fmt: skip
def test_a_form_that_nobody_was_shown_changes_nothing(
    client: Client, page: str, form: dict[str, Any]
) -> None:
    before = books()
    assert client.post(page, form).status_code == 409
    assert books() == before


@pytest.mark.parametrize("query", ["?chosen=1", "?seq=x", "?seq=99", "?seq=" + "9" * 30])
def test_nothing_chosen_is_asked_again(client: Client, page: str, query: str) -> None:
    assert "Choose at least one ticket." in get(client, page, query)


def test_the_page_from_before_a_refund_says_that_it_was_done(client: Client, page: str) -> None:
    client.post(page, form_of(get(client, page, "?seq=2")))
    shown = get(client, page, "?seq=2")
    assert "was given back already" in shown
    assert "Choose at least one ticket." not in shown


def test_what_was_paid_out_is_not_promised_once_more(
    client: Client, page: str, placed: PlacedOrder
) -> None:
    client.post(page, form_of(get(client, page, "?seq=3")))
    drain()
    of_order = page.removesuffix("refund/")
    assert sums(get(client, of_order)) == [("We pay back", "€20.00")]
    assert services.paid_out(placed.id, Refund.objects.get().pk, Actor("boxoffice"))
    assert sums(get(client, of_order)) == [("Paid back", "€20.00")]


def sums(shown: str) -> list[tuple[str, str]]:
    """The lines below the total."""
    return re.findall(r'colspan="2">([^<]* back)</th><td class="number">([^<]*)<', shown)


def test_after_the_deadline_the_page_says_so_and_nothing_is_given_back(
    client: Client, page: str
) -> None:
    form = form_of(get(client, page, "?seq=1"))
    Event.objects.update(refunds_until=timezone.now() - timedelta(seconds=1))
    before = books()
    shown = get(client, page)
    assert "could be given back until" in shown
    assert "(Europe/Berlin)" in shown
    answer: Answer = client.post(page, form)
    assert answer.status_code == 409
    assert "could be given back until" in text(answer)
    assert books() == before
    assert LINK not in get(client, page.removesuffix("refund/"))


def test_staff_refunds_after_the_deadline(page: str, placed: PlacedOrder) -> None:
    Event.objects.update(refunds_until=None)
    assert services.refund(placed.id, "kindness", Actor("boxoffice"), seqs=[1])


def test_without_a_deadline_nothing_is_given_back_here(client: Client, page: str) -> None:
    Event.objects.update(refunds_until=None)
    assert "cannot be given back here" in get(client, page)
    assert LINK not in get(client, page.removesuffix("refund/"))


def test_a_cancelled_order_has_nothing_to_give_back(client: Client, page: str) -> None:
    Order.objects.update(status=OrderStatus.CANCELLED)
    assert "This order was cancelled already" in get(client, page)


def test_without_the_orders_grant_there_is_no_such_page(page: str, placed: PlacedOrder) -> None:
    stranger = Client()
    other = buy(new_type())
    open_order(stranger, other)
    before = books()
    for path in (page, page.replace(placed.code, "22222222")):
        assert stranger.get(path).status_code == 404
        assert stranger.post(path, {"seq": "1", "seen": "0"}).status_code == 404
    assert books() == before


def test_without_its_token_the_form_does_nothing(page: str, placed: PlacedOrder) -> None:
    strict = Client(enforce_csrf_checks=True)
    open_order(strict, placed)
    assert strict.post(page, {"seq": "1", "seen": "0"}).status_code == 403
    assert not Refund.objects.exists()
    shown = get(strict, page, "?seq=1")
    [token] = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', shown)
    form = {**form_of(shown), "csrfmiddlewaretoken": token}
    assert strict.post(page, form).status_code == 303
    assert Refund.objects.count() == 1


def test_the_page_is_private(client: Client, page: str) -> None:
    answer: Answer = client.get(page)
    assert answer["Cache-Control"] == "no-store, private"
    assert answer["Referrer-Policy"] == "same-origin"
    assert client.put(page).status_code == 405
    assert client.head(page).status_code == 200


def test_a_ticket_that_was_used_is_shown_and_not_taken_back(client: Client, page: str) -> None:
    form = form_of(get(client, page, "?seq=1&seq=2"))
    Ticket.objects.filter(seq=1).update(used_at=timezone.now())
    shown = get(client, page)
    assert "used at the door" in shown
    assert "Give all of them back" not in shown
    answer: Answer = client.post(page, form)
    assert answer.status_code == 409
    assert "Somebody went in with ticket 1" in text(answer)
    assert not Refund.objects.exists()
    Ticket.objects.update(used_at=timezone.now())
    assert "Every ticket of this order was used." in get(client, page)


def test_an_order_whose_tickets_are_not_made_yet_is_given_back(
    client: Client, mailbox: MailFolder, redis: Redis
) -> None:
    event = new_event(refunds_until=timezone.now() + timedelta(days=1))
    order = buy(new_type(event=event, name="<b>Stalls</b>"), 2)
    page = f"{open_order(client, order)}refund/"
    assert "<b>" not in get(client, page)
    assert give_back(client, page, 2).status_code == 303
    drain()
    assert list(Ticket.objects.values_list("seq", flat=True)) == [1]
    books_are_in_order()


def test_a_file_that_is_made_anew_is_awaited(
    client: Client, page: str, placed: PlacedOrder
) -> None:
    give_back(client, page, 1)
    answer: Answer = client.get(f"/orders/{placed.code}/tickets.pdf")
    assert answer.status_code == 202
    assert "are being made" in text(answer)
    assert "noscript" in get(client, f"/orders/{placed.code}/")
