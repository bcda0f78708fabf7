"""The door: the first scan of a valid ticket lets in, however it is typed, or pressed twice."""

import logging
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.utils import timezone

from jobs.testing import drain
from orders import announcements
from orders.announcements import Deed
from orders.box_office import make_group
from orders.models import Event
from orders.services import PlacedOrder
from tests.conftest import MailFolder
from tests.people import box_office, buy, new_event, new_type, stranger
from tests.web import Answer, text
from tickets import buyer, door, services
from tickets.buyer import NewHolder
from tickets.door import Door
from tickets.models import Scan, Ticket
from tickets.services import Actor
from tickets.tokens import grouped, new_token

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def order(mailbox: MailFolder) -> PlacedOrder:
    """Two tickets, made."""
    event = new_event(title="Nachtkonzert", slug="nacht", tz="Europe/Berlin")
    placed = buy(new_type(event=event, name="Parkett"), 2, buyer_name="Ada Lovelace")
    drain()
    return placed


def ticket(order: PlacedOrder, seq: int = 1) -> Ticket:
    return Ticket.objects.select_related("order__event").get(order_id=order.id, seq=seq)


def scan(
    order: PlacedOrder, typed: str, key: str = "", by: str = "anna", asked: bool = True
) -> str:
    """The answer at the door of the order's event, to somebody who said the name."""
    made = door.scan(event_of(order), typed, Door(by=by, key=key or new_token(), asked=asked))
    return str(made.answer)


def event_of(order: PlacedOrder) -> Event:
    return ticket(order).order.event


def test_the_first_scan_lets_in_and_the_second_says_since_when(order: PlacedOrder) -> None:
    token = ticket(order).token
    assert scan(order, token, by="anna") == "valid"
    used = ticket(order)
    assert used.used_by == "anna"
    assert used.used_at is not None
    assert scan(order, token, by="ben") == "used"
    assert ticket(order).used_at == used.used_at
    assert ticket(order, 2).used_at is None
    assert [one.answer for one in door.newest_scans(event_of(order))] == ["used", "valid"]


@pytest.mark.parametrize(
    "typed",
    [
        lambda one: one.token.lower(),
        lambda one: grouped(one.token),
        lambda one: f"  {grouped(one.token.lower())}\r\n",
        lambda one: one.token.replace("0", "o").replace("1", "l"),
        lambda one: f"{one.order.code}-1",
        lambda one: f"{one.order.code.lower()} 1",
        lambda one: f"{one.order.code[:4]} {one.order.code[4:]} #1",
        lambda one: f"{one.order.code}1",
        lambda one: f"{one.order.code}/01",
    ],
)
def test_a_code_is_read_however_it_is_typed(order: PlacedOrder, typed: Any) -> None:
    assert scan(order, typed(ticket(order))) == "valid"
    assert ticket(order).used_at is not None


@pytest.mark.parametrize(
    "typed",
    ["", "x", "\x00", "\ud800", "%", "ABCD2345-1", "A" * 26, "1" * 200, "{code}-3", "{code}-0",
     "{code}-99999", "{code}x", "{code}-", "'; DROP TABLE tickets_ticket"],
)  # fmt: skip
def test_what_is_no_ticket_lets_nobody_in(order: PlacedOrder, typed: str) -> None:
    assert scan(order, typed.replace("{code}", order.code)) in ("unknown", "which")
    assert not Ticket.objects.filter(used_at__isnull=False).exists()


def test_the_code_of_an_order_is_enough_where_it_has_one_ticket(order: PlacedOrder) -> None:
    assert scan(order, order.code) == "which"
    single = buy(new_type(event=event_of(order)))
    drain()
    assert scan(order, single.code) == "valid"


def test_an_orders_code_and_number_let_nobody_in_before_the_name_is_asked_for(
    order: PlacedOrder,
) -> None:
    number = f"{order.code}-2"
    assert scan(order, number, asked=False) == "name"
    assert ticket(order, 2).used_at is None
    assert scan(order, ticket(order).token, asked=False) == "valid"
    assert scan(order, f"{order.code}-1", asked=False) == "used"
    assert scan(order, number) == "valid"
    assert scan(order, number, asked=False) == "used"
    services.refund(order.id, "moved", Actor("boxoffice"))
    assert scan(order, number, asked=False) == "void"


def test_the_paper_of_who_gave_the_ticket_away_opens_the_door_by_nothing_on_it(
    at_door: Client, order: PlacedOrder
) -> None:
    old = ticket(order)
    assert buyer.rename(order.id, NewHolder(1, old.version, "Grace Hopper"))
    assert "No such ticket" in sent(at_door, old.token)
    page = sent(at_door, f"{order.code}-1")
    assert "Ask for the name" in page
    assert "Grace Hopper" in page
    assert ticket(order).used_at is None
    form = dict(re.findall(r'<input type="hidden" name="(key|code)" value="([^"]+)"', page))
    answer: Answer = at_door.post(PAGE, {**form, "asked": "yes"})
    assert "Valid" in text(answer)
    assert ticket(order).used_by == "anna"


def test_a_ticket_of_another_event_is_told_apart_and_stays_unused(order: PlacedOrder) -> None:
    other = buy(new_type(event=new_event(slug="other")))
    drain()
    assert scan(order, ticket(other).token) == "other"
    assert scan(other, ticket(other).token) == "valid"
    assert scan(order, ticket(other).token) == "other"


def test_a_void_ticket_lets_nobody_in_whether_it_was_used_or_not(order: PlacedOrder) -> None:
    assert scan(order, f"{order.code}-1") == "valid"
    services.refund(order.id, "moved", Actor("boxoffice"))
    assert scan(order, f"{order.code}-1") == "void"
    assert scan(order, f"{order.code}-2") == "void"
    assert ticket(order, 2).used_at is None


def test_nobody_goes_in_to_a_cancelled_event_whose_tickets_wait_for_their_refund(
    order: PlacedOrder,
) -> None:
    announcements.cancel(event_of(order).pk, Deed(seen=0, by="carla", reason="ill"))
    assert ticket(order).status == "valid"
    assert scan(order, f"{order.code}-1") == "void"
    assert ticket(order).used_at is None


def test_two_scanners_at_once_let_in_one(order: PlacedOrder) -> None:
    token, start = ticket(order).token, Barrier(8)

    def one(number: int) -> str:
        try:
            start.wait(10)
            return scan(order, token, by=f"door {number}")
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(8)))
    assert sorted(answers) == ["used"] * 7 + ["valid"]
    winner = Scan.objects.get(answer="valid")
    assert ticket(order).used_by == winner.by


def test_a_refund_and_a_scan_at_once_leave_one_story(order: PlacedOrder) -> None:
    start = Barrier(2)

    def one(number: int) -> object:
        try:
            start.wait(10)
            if number:
                return services.refund(order.id, "moved", Actor("boxoffice"))
            return scan(order, f"{order.code}-1")
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        answer, refunded = pool.map(one, range(2))
    assert refunded
    assert (answer == "valid") is (ticket(order).used_at is not None)
    assert scan(order, f"{order.code}-1") == "void"


def test_one_form_sent_twice_is_one_scan(order: PlacedOrder) -> None:
    token = ticket(order).token
    assert scan(order, token, key="k") == scan(order, grouped(token), key="k") == "valid"
    assert Scan.objects.count() == 1
    assert scan(order, f"{order.code}-1", key="k") == "used"
    assert scan(order, f"{order.code}-2", key="k") == "valid"
    assert scan(order, token, key="another") == "used"


def test_one_form_sent_at_once_from_everywhere_is_one_scan(order: PlacedOrder) -> None:
    token, start = ticket(order).token, Barrier(6)

    def one(_: int) -> str:
        try:
            start.wait(10)
            return scan(order, token, key="k")
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(one, range(6))) == {"valid"}
    assert Scan.objects.count() == 1


def test_a_form_sent_again_much_later_is_a_scan_of_its_own(order: PlacedOrder) -> None:
    token = ticket(order).token
    scan(order, token, key="k")
    Scan.objects.update(at=timezone.now() - timedelta(seconds=11))
    assert scan(order, token, key="k") == "used"


PAGE = "/door/nacht/"


@pytest.fixture
def at_door(client: Client, order: PlacedOrder) -> Client:
    """A browser of somebody who may do nothing else."""
    make_group()
    user = User.objects.create_user("anna", password="x", is_staff=True)
    user.groups.add(Group.objects.get(name="door"))
    client.force_login(user)
    return client


def sent(at_door: Client, code: str) -> str:
    """What the page says to this code."""
    page = text(at_door.get(PAGE))
    key = re.search(r'name="key" value="(\w+)"', page)
    assert key
    answer: Answer = at_door.post(PAGE, {"code": code, "key": key[1]})
    assert answer.status_code == 200
    return text(answer)


def test_the_page_answers_in_words_and_is_ready_for_the_next_scan(
    at_door: Client, order: PlacedOrder
) -> None:
    page = sent(at_door, ticket(order).token)
    for shown in ("Valid", "Ada Lovelace", "Parkett", "ticket 1", order.code, "<strong>1</strong>"):
        assert shown in page
    assert re.search(r'<input id="code" name="code" autofocus required[^>]*>', page)
    assert "value" not in re.findall(r'<input id="code"[^>]*>', page)[0]
    used = ticket(order).used_at
    assert used is not None
    local = used.astimezone(event_of(order).zone)
    page = sent(at_door, ticket(order).token)
    assert f"Used at {local:%H:%M}" in re.sub(r"\s+", " ", page)
    assert "let in by" in page
    assert page.count("<li class=") == 2


def test_a_time_of_another_day_is_told_with_its_day(at_door: Client, order: PlacedOrder) -> None:
    Ticket.objects.update(used_at="2026-01-04T23:30Z", used_by="ben")
    page = re.sub(r"\s+", " ", sent(at_door, f"{order.code}-1"))
    assert "Used on 5 Jan at 00:30" in page


def test_the_page_shows_the_last_ten_scans(at_door: Client, order: PlacedOrder) -> None:
    for _ in range(12):
        page = sent(at_door, "nonsense")
    assert page.count('<li class="unknown">') == 10


def test_an_empty_scan_is_none(at_door: Client, order: PlacedOrder) -> None:
    sent(at_door, "  ")
    assert not Scan.objects.exists()


def test_no_token_is_in_an_address_a_page_or_a_log(
    at_door: Client, order: PlacedOrder, caplog: pytest.LogCaptureFixture
) -> None:
    token = ticket(order).token
    caplog.set_level(logging.DEBUG)
    for code in (token, grouped(token), token):
        page = sent(at_door, code)
        assert token not in page
        assert grouped(token) not in page
    assert 'method="post"' in page
    lines = [record for record in caplog.records if not record.name.startswith("django.db")]
    assert not any(token in record.getMessage() for record in lines)
    answer: Answer = at_door.get(PAGE)
    assert answer["Cache-Control"] == "no-store, private"
    # Not `no-referrer`: of a page without any, browsers say that its form is another site's.
    assert answer["Referrer-Policy"] == "same-origin"


def test_the_door_is_for_those_who_may_scan(client: Client, order: PlacedOrder) -> None:
    make_group()
    for path in (PAGE, "/door/"):
        for method in (client.get, client.post):
            answer: Answer = method(path)
            assert answer.status_code in (302, 405)
            if answer.status_code == 302:
                assert answer["Location"].startswith("/admin/login/?next=/door/")
    client.force_login(stranger())
    assert client.get(PAGE).status_code == 403
    assert client.post(PAGE, {"code": ticket(order).token}).status_code == 403
    assert ticket(order).used_at is None
    client.force_login(box_office())
    assert client.get(PAGE).status_code == 200
    assert 'href="/door/nacht/"' in text(client.get("/door/"))


def test_a_scan_without_the_forms_token_is_refused(order: PlacedOrder) -> None:
    make_group()
    client = Client(enforce_csrf_checks=True)
    client.force_login(box_office())
    assert client.post(PAGE, {"code": ticket(order).token}).status_code == 403
    assert ticket(order).used_at is None


def test_there_is_no_door_to_a_draft_or_to_nothing(at_door: Client) -> None:
    Event.objects.update(status="draft")
    assert at_door.get(PAGE).status_code == 404
    assert at_door.get("/door/no-such/").status_code == 404
    assert "nacht" not in text(at_door.get("/door/"))


def test_staff_sees_at_the_order_who_went_in(client: Client, order: PlacedOrder) -> None:
    make_group()
    client.force_login(box_office())
    scan(order, f"{order.code}-1", by="anna")
    scan(order, f"{order.code}-1", by="ben")
    page = text(client.get(f"/admin/orders/order/{order.id}/change/"))
    for shown in ("ticket 1 at the door", "somebody went in with it", "let nobody in: used",
                  "(Europe/Berlin) by anna"):  # fmt: skip
        assert shown in page
    asked = text(client.get(f"/admin/orders/order/{order.id}/refund/"))
    assert "Somebody went in with ticket 1 already" in asked
    assert services.refund(order.id, "fire alarm", Actor("boxoffice"))
    assert ticket(order).status == "void"


def test_a_refund_of_an_order_that_nobody_used_says_nothing_of_the_door(
    client: Client, order: PlacedOrder
) -> None:
    make_group()
    client.force_login(box_office())
    assert "Somebody went in" not in text(client.get(f"/admin/orders/order/{order.id}/refund/"))
