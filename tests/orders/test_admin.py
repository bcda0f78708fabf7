"""The box office in the admin: what it may do, and every page as a browser sends it."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client
from django.urls import reverse

from jobs.testing import drain
from orders.box_office import MAY, make_group
from orders.models import Event, EventStatus, Order, Stock, TicketType
from orders.services import PlacedOrder, SaleRefused
from tests.conftest import MailFolder
from tests.people import EventFactory, TicketTypeFactory, box_office, buy, stranger
from tests.web import Answer, text
from tickets.models import Ticket, TicketFile

pytestmark = pytest.mark.django_db(transaction=True)

ADD = "/admin/orders/event/add/"
LIST = "/admin/orders/event/"
XSS = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def group() -> None:
    # The flush after each test takes groups and permissions away.
    make_group()


@pytest.fixture
def office(client: Client) -> Client:
    """A browser in which the box office is logged in."""
    client.force_login(box_office())
    return client


def event_form(**changes: Any) -> dict[str, Any]:
    """The form for a new event with one ticket type, as a browser sends it."""
    return {
        "title": "Nachtkonzert",
        "slug": "nachtkonzert",
        "venue": "Kammersaal",
        "tz": "Europe/Berlin",
        "starts_local": "2027-05-01T20:00",
        "starts_fold": "",
        "doors_minutes": "60",
        "sale_opens": "2026-01-01T10:00",
        "sale_closes": "2027-05-01T19:00",
        "currency": "EUR",
        "ticket_types-TOTAL_FORMS": "1",
        "ticket_types-INITIAL_FORMS": "0",
        "ticket_types-0-name": "Parkett",
        "ticket_types-0-price": "4250",
        "ticket_types-0-max_per_order": "8",
        "ticket_types-0-sort": "0",
        "ticket_types-0-capacity": "150",
        **changes,
    }


def capacity_page(event: Event) -> str:
    return reverse("admin:orders_event_capacity", args=[event.pk])


def act(office: Client, action: str, *events: Event) -> Answer:
    form = {"action": action, "_selected_action": [event.pk for event in events]}
    return office.post(LIST, form, follow=True)


def test_the_box_office_has_the_permissions_of_its_group_and_no_others() -> None:
    user = box_office()
    expected = {f"{app}.{name}" for app, names in MAY.items() for name in names}
    assert user.get_all_permissions() == expected
    assert not {name for name in expected if "delete_event" in name or "_order" in name} - {
        "orders.view_order",
        "orders.view_orderline",
        "orders.refund_order",
        "tickets.rerender_order",
    }


def test_making_the_group_again_keeps_what_staff_added() -> None:
    group = Group.objects.get(name="box office")
    group.permissions.clear()
    make_group()
    assert group.permissions.count() == sum(len(names) for names in MAY.values())


def test_an_event_is_made_published_sold_and_closed(office: Client) -> None:
    assert office.get(ADD).status_code == 200
    assert office.post(ADD, event_form()).status_code == 302
    event = Event.objects.get()
    assert (event.status, str(event.starts_at)) == ("draft", "2027-05-01 18:00:00+00:00")
    assert Stock.objects.get().capacity == 150
    assert "was put on sale" in text(act(office, "publish", event))
    buy(TicketType.objects.select_related("event").get(), 3)
    assert "3 of 150" in text(office.get(LIST))
    assert "was closed" in text(act(office, "close", event))
    with pytest.raises(SaleRefused):
        buy(TicketType.objects.select_related("event").get())


@pytest.mark.parametrize("sold", [False, True])
def test_whoever_may_only_look_at_an_event_sees_all_of_it(
    client: Client, office: Client, sold: bool
) -> None:
    office.post(ADD, event_form())
    if sold:
        Event.objects.update(status=EventStatus.ON_SALE)
        buy(TicketType.objects.select_related("event").get())
    user = User.objects.create_user("onlooker", is_staff=True)
    names = ("view_event", "view_tickettype")
    user.user_permissions.add(*Permission.objects.filter(codename__in=names))
    client.force_login(user)
    answer = client.get(f"{LIST}{Event.objects.get().pk}/change/")
    assert answer.status_code == 200
    page = text(answer)
    for value in ("1 May 2027 20:00", "01 Jan 2026 10:00", "01 May 2027 19:00", "never", ">150<"):
        assert value in page
    assert "Save" not in page


def test_the_form_of_an_event_shows_what_was_typed_and_saves_it_again(office: Client) -> None:
    office.post(ADD, event_form())
    event, kind = Event.objects.get(), TicketType.objects.get()
    page = text(office.get(f"{LIST}{event.pk}/change/"))
    for value in ("2027-05-01T20:00", "2026-01-01T10:00", "2027-05-01T19:00", 'value="150"'):
        assert value in page
    changed = event_form(
        title="Nachtmusik",
        **{
            "ticket_types-INITIAL_FORMS": "1",
            "ticket_types-0-id": str(kind.pk),
            "ticket_types-0-event": str(event.pk),
            "ticket_types-0-price": "5000",
            "ticket_types-0-capacity": "7",
        },
    )
    assert office.post(f"{LIST}{event.pk}/change/", changed).status_code == 302
    assert Event.objects.get().title == "Nachtmusik"
    assert TicketType.objects.get().price == 5000
    # By the page for it alone, whatever the form was sent with.
    assert Stock.objects.get().capacity == 150


BAD_EVENTS: list[tuple[dict[str, Any], str]] = [
    ({"starts_local": "2027-03-28T02:30"}, "does not exist in Europe/Berlin"),
    ({"starts_local": "2027-10-31T02:30"}, "choose which one is meant"),
    ({"sale_opens": "2027-03-28T02:30"}, "does not exist in Europe/Berlin"),
    ({"starts_local": "0026-12-05T20:00"}, "too far away"),
    ({"starts_local": "9999-12-31T23:59", "tz": "America/New_York"}, "too far away"),
    ({"starts_local": "soon"}, "Enter a valid date"),
    ({"starts_local": ""}, "required"),
    ({"tz": "Berlin"}, "no time zone"),
    ({"tz": "../../etc/passwd"}, "no time zone"),
    ({"currency": "EUX"}, "no currency"),
    ({"sale_closes": "2026-01-01T09:00"}, "must close after it opens"),
    ({"refunds_end": "2027-03-28T02:30"}, "does not exist in Europe/Berlin"),
    ({"refunds_end": "2027-05-01T20:01"}, "must end before the event starts"),
    ({"refunds_end": "tomorrow"}, "Enter a valid date"),
    ({"title": "Bell\x07"}, "control character"),
    ({"title": "\u200b"}, "enter a name"),
    ({"venue": "Turned\u202e"}, "turns the text around"),
    ({"title": "A" * 121}, "at most 120"),
    ({"ticket_types-0-capacity": ""}, "How many places are there"),
    ({"ticket_types-0-capacity": "-1"}, "greater than or equal to 0"),
    ({"ticket_types-0-price": "-1"}, "greater than or equal to 0"),
    ({"ticket_types-0-price": "9" * 18}, "less than or equal to"),
    ({"ticket_types-0-price": "42.50"}, "Enter a whole number"),
    ({"ticket_types-0-max_per_order": "0"}, "greater than or equal to 1"),
    ({"ticket_types-0-max_per_order": "101"}, "less than or equal to 100"),
    ({"ticket_types-0-name": "Bell\x07"}, "control character"),
]


@pytest.mark.parametrize(("changes", "words"), BAD_EVENTS)
def test_a_bad_event_comes_back_with_the_message(
    office: Client, changes: dict[str, Any], words: str
) -> None:
    answer = office.post(ADD, event_form(**changes))
    assert answer.status_code == 200
    assert words in text(answer)
    assert not Event.objects.exists()
    assert not TicketType.objects.exists()


def test_until_when_buyers_may_give_tickets_back_is_typed_on_the_events_clock(
    office: Client,
) -> None:
    office.post(ADD, event_form(refunds_end="2027-04-30T12:00"))
    event = Event.objects.get()
    assert str(event.refunds_until) == "2027-04-30 10:00:00+00:00"
    assert "2027-04-30T12:00" in text(office.get(f"{LIST}{event.pk}/change/"))
    kind = TicketType.objects.get()
    known = {
        "ticket_types-INITIAL_FORMS": "1",
        "ticket_types-0-id": str(kind.pk),
        "ticket_types-0-event": str(event.pk),
    }
    assert office.post(f"{LIST}{event.pk}/change/", event_form(**known)).status_code == 302
    assert Event.objects.get().refunds_until is None


@pytest.mark.parametrize(("fold", "hour"), [("0", "00:30"), ("1", "01:30")])
def test_a_time_that_comes_twice_is_taken_with_a_choice(
    office: Client, fold: str, hour: str
) -> None:
    office.post(ADD, event_form(starts_local="2027-10-31T02:30", starts_fold=fold))
    assert f"{Event.objects.get().starts_at:%H:%M}" == hour


def test_two_ticket_types_of_one_name_are_refused(office: Client) -> None:
    twice = {
        name.replace("-0-", "-1-"): value
        for name, value in event_form().items()
        if name.startswith("ticket_types-0-")
    }
    answer = office.post(ADD, event_form(**twice, **{"ticket_types-TOTAL_FORMS": "2"}))
    assert answer.status_code == 200
    assert not Event.objects.exists()


def test_an_event_without_ticket_types_is_not_published(office: Client) -> None:
    event = EventFactory(status=EventStatus.DRAFT)
    assert "has no ticket types" in text(act(office, "publish", event))
    assert Event.objects.get().status == "draft"


def test_a_cancelled_event_is_not_published(office: Client) -> None:
    event = TicketTypeFactory(event__status=EventStatus.CANCELLED).event
    assert "not put on sale" in text(act(office, "publish", event))
    assert Event.objects.get().status == "cancelled"


def test_a_ticket_type_that_was_sold_cannot_be_deleted(office: Client) -> None:
    office.post(ADD, event_form())
    event = Event.objects.get()
    act(office, "publish", event)
    kind = TicketType.objects.select_related("event").get()
    buy(kind)
    form = event_form(
        **{
            "ticket_types-INITIAL_FORMS": "1",
            "ticket_types-0-id": str(kind.pk),
            "ticket_types-0-event": str(event.pk),
            "ticket_types-0-DELETE": "on",
        }
    )
    answer = office.post(f"{LIST}{event.pk}/change/", form)
    assert answer.status_code == 200
    assert TicketType.objects.exists()


def test_capacity_is_changed_on_its_page(office: Client) -> None:
    kind = TicketTypeFactory(capacity=10)
    page = capacity_page(kind.event)
    shown = text(office.get(page))
    assert 'value="10"' in shown
    assert "icon.svg" in shown
    form = {f"capacity-{kind.pk}": "12", f"initial-capacity-{kind.pk}": "10"}
    answer = office.post(page, form, follow=True)
    assert "12 places" in text(answer)
    assert Stock.objects.get().capacity == 12


@pytest.mark.parametrize("number", ["3", "-1", "", "x", "1000001"])
def test_capacity_below_what_is_taken_or_no_number_is_refused(office: Client, number: str) -> None:
    kind = TicketTypeFactory(capacity=10)
    buy(kind, 4)
    answer = office.post(
        capacity_page(kind.event),
        {f"capacity-{kind.pk}": number, f"initial-capacity-{kind.pk}": "10"},
    )
    assert answer.status_code == 200
    assert "errorlist" in text(answer)
    assert Stock.objects.get().capacity == 10


def test_a_number_that_was_not_touched_does_not_undo_a_colleague(office: Client) -> None:
    event = EventFactory()
    first, second = (TicketTypeFactory(event=event, capacity=10) for _ in range(2))
    form = {f"initial-capacity-{kind.pk}": "10" for kind in (first, second)} | {
        f"capacity-{first.pk}": "10",
        f"capacity-{second.pk}": "20",
    }
    Stock.objects.filter(pk=first.pk).update(capacity=99)
    assert office.post(capacity_page(event), form).status_code == 302
    assert list(Stock.objects.order_by("pk").values_list("capacity", flat=True)) == [99, 20]


def test_capacity_cut_on_its_page_while_orders_come_in_never_undercuts_them(office: Client) -> None:
    kind = TicketTypeFactory(capacity=60)
    page = capacity_page(kind.event)

    def one(turn: int) -> bool:
        try:
            if turn % 5 == 0:
                form = {f"capacity-{kind.pk}": "20", f"initial-capacity-{kind.pk}": "60"}
                own = Client()
                own.cookies = office.cookies
                return bool(own.post(page, form).status_code >= 500)
            return isinstance(buy(kind), PlacedOrder)
        except SaleRefused:
            return False
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        sold = sum(pool.map(one, range(50)))
    stock = Stock.objects.get()
    assert stock.taken == sold == Order.objects.count()
    assert stock.taken <= stock.capacity


PAGES = [
    LIST,
    ADD,
    "/admin/orders/event/{event}/change/",
    "/admin/orders/event/{event}/capacity/",
    "/admin/orders/order/",
    "/admin/orders/order/{order}/change/",
    "/admin/orders/order/{order}/refund/",
    "/admin/orders/order/{order}/resend/",
    "/admin/orders/order/{order}/render/",
    "/admin/orders/order/event/{event}/attendees.csv",
]


@pytest.mark.parametrize("page", PAGES)
def test_staff_without_permission_sees_nothing(client: Client, page: str) -> None:
    kind = TicketTypeFactory()
    placed = buy(kind)
    client.force_login(stranger())
    path = page.format(event=kind.event.pk, order=placed.id)
    assert client.get(path).status_code == 403
    assert client.post(path, {"action": "close", "_selected_action": "1"}).status_code == 403
    assert Event.objects.get().status == "on_sale"


@pytest.mark.parametrize("page", PAGES)
def test_who_is_not_staff_is_asked_to_log_in(client: Client, page: str) -> None:
    kind = TicketTypeFactory()
    path = page.format(event=kind.event.pk, order=buy(kind).id)
    client.force_login(User.objects.create_user("buyer"))
    for answer in (client.get(path), Client().get(path)):
        assert answer.status_code == 302
        assert answer["Location"].startswith("/admin/login/")


@pytest.mark.parametrize("missing", ["publish_event", "change_stock"])
def test_publishing_and_capacity_are_permissions_of_their_own(client: Client, missing: str) -> None:
    event = TicketTypeFactory(event__status=EventStatus.DRAFT).event
    user = box_office()
    user.groups.get().permissions.remove(*user.groups.get().permissions.filter(codename=missing))
    client.force_login(user)
    act(client, "publish", event)
    assert (Event.objects.get().status == "draft") is (missing == "publish_event")
    assert client.get(capacity_page(event)).status_code == (
        403 if missing == "change_stock" else 200
    )


def test_nobody_at_the_box_office_deletes_events_or_writes_orders(office: Client) -> None:
    kind = TicketTypeFactory()
    placed = buy(kind)
    for path in (
        f"{LIST}{kind.event.pk}/delete/",
        "/admin/orders/order/add/",
        f"/admin/orders/order/{placed.id}/delete/",
    ):
        assert office.get(path).status_code == 403
    before = Order.objects.values().get()
    answer = office.post(f"/admin/orders/order/{placed.id}/change/", {"email": "me@example.org"})
    assert answer.status_code == 403
    assert Order.objects.values().get() == before


def test_the_page_of_an_order_shows_all_but_its_secrets(
    office: Client, mailbox: MailFolder
) -> None:
    placed = buy(TicketTypeFactory(name=XSS, event__title=XSS), 2, buyer_name=XSS)
    drain()
    page = text(office.get(f"/admin/orders/order/{placed.id}/change/"))
    for shown in (placed.code, "buyer@example.org", "€85.00", "€42.50", "sent"):
        assert shown in page
    assert "<script>alert" not in page
    order = Order.objects.get()
    secrets = [placed.secret, order.idempotency_key, TicketFile.objects.get().name]
    for secret in (*secrets, *Ticket.objects.values_list("token", flat=True)):
        assert secret not in page
    assert '<input type="submit"' not in page


QUERIES = [
    ("buyer@EXAMPLE.org", True),
    ("ada", True),
    ("{code}", True),
    ("no such", False),
    ("%", False),
]


@pytest.mark.parametrize(("query", "found"), QUERIES)
def test_orders_are_searched(office: Client, query: str, found: bool) -> None:
    placed = buy(TicketTypeFactory())
    answer = office.get("/admin/orders/order/", {"q": query.format(code=placed.code.lower())})
    assert answer.status_code == 200
    assert (f"/admin/orders/order/{placed.id}/change/" in text(answer)) is found


@pytest.mark.parametrize("query", ["\x00", "'", '"', "a" * 5000])
def test_an_odd_search_is_no_fault(office: Client, query: str) -> None:
    assert office.get("/admin/orders/order/", {"q": query}).status_code == 200


def test_markup_in_an_event_stays_text_in_the_admin(office: Client) -> None:
    kind = TicketTypeFactory(name=XSS, event__title=XSS, event__venue=XSS)
    pages = [
        office.get(LIST),
        office.get(f"{LIST}{kind.event.pk}/change/"),
        office.get(capacity_page(kind.event)),
        act(office, "close", kind.event),
    ]
    for page in pages:
        assert page.status_code == 200
        assert "<script>alert" not in text(page)
