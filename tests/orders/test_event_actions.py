"""Moving and cancelling an event in the admin: a page that asks, one deed, one line of the log."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs.testing import drain, enqueued
from orders import announcements, services
from orders.announcements import Deed, When
from orders.box_office import make_group
from orders.models import Announcement, Event, EventStatus, TicketType
from orders.wallclock import instant
from tests.conftest import MailFolder
from tests.people import box_office, buy, new_event, new_type, stranger
from tests.web import Answer, text

pytestmark = pytest.mark.django_db(transaction=True)
START = "2031-05-01T20:00"


@pytest.fixture
def office(client: Client) -> Client:
    """A browser in which the box office is logged in."""
    make_group()
    client.force_login(box_office())
    return client


@pytest.fixture
def kind() -> TicketType:
    """Of an event in Berlin, at eight in the evening, with three orders."""
    made = new_type(event=new_event(title="Nachtkonzert", slug="nacht"))
    for _ in range(3):
        buy(made, 2)
    return made


def page(event: Event, name: str) -> str:
    return reverse(f"admin:orders_event_{name}", args=[event.pk])


def move_form(**changes: Any) -> dict[str, Any]:
    return {
        "seen": "0", "starts_local": START, "starts_fold": "", "doors_minutes": "45",
        "words": "Sorry!", **changes,
    }  # fmt: skip


def cancel_form(**changes: Any) -> dict[str, Any]:
    return {"seen": "0", "reason": "the singer is ill", "words": "Sorry!", **changes}


def told(answer: Answer) -> str:
    return re.sub(r"\s+", " ", text(answer))


def test_an_event_is_moved_and_its_buyers_are_to_be_told(office: Client, kind: TicketType) -> None:
    asked = told(office.get(page(kind.event, "move")))
    for shown in ("<strong>3 orders</strong>", "Europe/Berlin", "Move the event and tell"):
        assert shown in asked
    answer: Answer = office.post(page(kind.event, "move"), move_form(), follow=True)
    assert "is moved to the new time. The buyers of 3 orders are told by email." in told(answer)
    event = Event.objects.get()
    assert f"{event.starts:%Y-%m-%dT%H:%M}" == START
    assert event.doors_minutes == 45
    made = Announcement.objects.get()
    assert (made.kind, made.number, made.total, made.words) == ("moved", 1, 3, "Sorry!")
    assert made.by == "boxoffice"
    assert enqueued("announce_event") == [{"announcement_id": made.pk, "cursor": 0}]
    [line] = LogEntry.objects.values_list("change_message", flat=True)
    assert "moved to 01 May 2031 20:00 (Europe/Berlin)" in line


def test_an_event_is_cancelled_after_a_page_that_says_what_is_refunded(
    office: Client, kind: TicketType
) -> None:
    asked = told(office.get(page(kind.event, "cancel")))
    assert "<strong>3 orders</strong> will be refunded, <strong>€255.00</strong> in all" in asked
    answer: Answer = office.post(page(kind.event, "cancel"), cancel_form(), follow=True)
    assert "is cancelled: it is not sold any more." in told(answer)
    assert Event.objects.get().status == "cancelled"
    assert "This event was cancelled" in text(office.get("/events/nacht/"))
    [line] = LogEntry.objects.values_list("change_message", flat=True)
    assert "cancelled: the singer is ill" in line
    for name in ("move", "cancel"):
        assert "there is nothing to change" in told(office.get(page(kind.event, name)))


@pytest.mark.parametrize("name", ["move", "cancel"])
def test_the_same_form_twice_does_it_once_and_says_so(
    office: Client, kind: TicketType, name: str
) -> None:
    form = move_form() if name == "move" else cancel_form()
    office.post(page(kind.event, name), form)
    answer: Answer = office.post(page(kind.event, name), form, follow=True)
    assert "nothing was changed" in told(answer) or "starts then already" in told(answer)
    assert Announcement.objects.count() == LogEntry.objects.count() == 1


def test_a_page_that_was_read_before_a_colleagues_move_changes_nothing(
    office: Client, kind: TicketType
) -> None:
    office.post(page(kind.event, "move"), move_form())
    later = move_form(starts_local="2031-06-01T20:00")
    answer: Answer = office.post(page(kind.event, "move"), later, follow=True)
    assert "moved or cancelled since this page was read" in told(answer)
    answer = office.post(page(kind.event, "cancel"), cancel_form(), follow=True)
    assert "moved or cancelled since this page was read" in told(answer)
    assert Event.objects.get().status == "on_sale"
    assert f"{Event.objects.get().starts:%Y-%m-%dT%H:%M}" == START
    seen = re.search(r'name="seen" value="(\d+)"', text(office.get(page(kind.event, "move"))))
    assert seen
    assert seen[1] == "1"


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("move", {"starts_local": ""}, "required"),
    ("move", {"starts_local": "2020-01-01T20:00"}, "That is over"),
    ("move", {"starts_local": "2031-03-30T02:30"}, "does not exist in Europe/Berlin"),
    ("move", {"starts_local": "2031-10-26T02:30"}, "choose which one is meant"),
    ("move", {"doors_minutes": "-1"}, "greater than or equal to 0"),
    ("move", {"doors_minutes": "100000"}, "less than or equal to"),
    ("move", {"words": "bell\x07"}, "control character"),
    ("move", {"words": "turned\u202e"}, "turns the text around"),
    ("move", {"words": "x" * 1001}, "at most 1000"),
    ("move", {"seen": "x"}, "whole number"),
    ("cancel", {"reason": " "}, "required"),
    ("cancel", {"reason": "x" * 401}, "at most 400"),
    ("cancel", {"words": "bell\x07"}, "control character"),
]


@pytest.mark.parametrize(("name", "changes", "words"), WRONG)
def test_a_form_that_is_wrong_comes_back_with_the_message(
    office: Client, kind: TicketType, name: str, changes: dict[str, Any], words: str
) -> None:
    form = (move_form if name == "move" else cancel_form)(**changes)
    before = Event.objects.values().get()
    answer: Answer = office.post(page(kind.event, name), form)
    assert answer.status_code == 200
    assert words in told(answer)
    assert Event.objects.values().get() == before
    assert not Announcement.objects.exists()


def test_a_time_that_comes_twice_is_taken_with_a_choice(office: Client, kind: TicketType) -> None:
    form = move_form(starts_local="2031-10-26T02:30", starts_fold="1")
    office.post(page(kind.event, "move"), form)
    assert f"{Event.objects.get().starts_at:%H:%M}" == "01:30"


def test_moving_it_to_where_it_is_tells_nobody(office: Client, kind: TicketType) -> None:
    event = kind.event
    same = move_form(
        starts_local=f"{event.starts_local:%Y-%m-%dT%H:%M}", doors_minutes=event.doors_minutes
    )
    assert "It starts then already" in told(office.post(page(event, "move"), same))
    doors = move_form(starts_local=same["starts_local"], doors_minutes="10")
    office.post(page(event, "move"), doors)
    assert Announcement.objects.get().doors_minutes == 10


def test_the_page_of_the_event_shows_how_many_were_told(
    office: Client, kind: TicketType, mailbox: MailFolder, settings: Any
) -> None:
    settings.MAIL_BULK_RATE = 1e9
    drain()
    office.post(page(kind.event, "cancel"), cancel_form())
    at_first = told(office.get(page(kind.event, "change")))
    assert "Told 0 of 3 buyers, 0 of 3 orders refunded." in at_first
    assert "it goes on as soon as a relay and a worker is at work" in at_first
    drain()
    shown = told(office.get(page(kind.event, "change")))
    assert "Told 3 of 3 buyers, 3 of 3 orders refunded." in shown
    assert "the singer is ill" in shown
    assert "Cancel the event" not in shown


@pytest.mark.parametrize("missing", ["move_event", "cancel_event"])
def test_moving_and_cancelling_are_permissions_of_their_own(
    client: Client, kind: TicketType, missing: str
) -> None:
    make_group()
    user = box_office()
    group = user.groups.get()
    group.permissions.remove(*group.permissions.filter(codename=missing))
    client.force_login(user)
    shown = text(client.get(page(kind.event, "change")))
    for name in ("move", "cancel"):
        form = move_form() if name == "move" else cancel_form()
        allowed = f"{name}_event" != missing
        assert (client.get(page(kind.event, name)).status_code == 200) is allowed
        assert (page(kind.event, name) in shown) is allowed
        if not allowed:
            assert client.post(page(kind.event, name), form).status_code == 403
    assert not Announcement.objects.exists()


def test_the_pages_are_for_staff_and_ask_for_the_forms_token(kind: TicketType) -> None:
    make_group()
    for name in ("move", "cancel"):
        assert Client().get(page(kind.event, name)).status_code == 302
        client = Client()
        client.force_login(stranger() if name == "move" else box_office())
        strict = Client(enforce_csrf_checks=True)
        strict.cookies = client.cookies
        assert strict.post(page(kind.event, name), cancel_form()).status_code == 403
    assert Event.objects.get().status == "on_sale"


def event_form(event: Event, kind: TicketType, **changes: Any) -> dict[str, Any]:
    """The plain form of the event, as the browser sends it."""
    return {
        "title": event.title, "slug": event.slug, "venue": event.venue, "tz": event.tz,
        "starts_local": f"{event.starts_local:%Y-%m-%dT%H:%M}", "starts_fold": "",
        "doors_minutes": str(event.doors_minutes),
        "sale_opens": f"{event.sale_opens_at.astimezone(event.zone):%Y-%m-%dT%H:%M}",
        "sale_closes": f"{event.sale_closes_at.astimezone(event.zone):%Y-%m-%dT%H:%M}",
        "currency": event.currency,
        "ticket_types-TOTAL_FORMS": "1", "ticket_types-INITIAL_FORMS": "1",
        "ticket_types-0-id": str(kind.pk), "ticket_types-0-event": str(event.pk),
        "ticket_types-0-name": kind.name, "ticket_types-0-price": str(kind.price),
        "ticket_types-0-max_per_order": "8", "ticket_types-0-sort": "0",
        **changes,
    }  # fmt: skip


def test_the_plain_form_does_not_change_when_a_sold_event_starts(
    office: Client, kind: TicketType
) -> None:
    event = kind.event
    shown = text(office.get(page(event, "change")))
    assert "use “Move the event”" in shown
    assert re.search(r'<input[^>]*name="starts_local"[^>]*disabled', shown)
    form = event_form(event, kind, starts_local=START, tz="Asia/Tokyo", doors_minutes="5",
                      title="Nachtmusik", venue="Großer Saal")  # fmt: skip
    assert office.post(page(event, "change"), form).status_code == 302
    now = Event.objects.get()
    assert (now.title, now.venue) == ("Nachtmusik", "Großer Saal")
    assert (now.starts_at, now.tz, now.doors_minutes) == (event.starts_at, event.tz, 60)
    assert not Announcement.objects.exists()


def test_the_plain_form_changes_when_an_event_without_orders_starts(office: Client) -> None:
    kind = new_type(event=new_event(slug="nacht"))
    form = event_form(kind.event, kind, starts_local=START)
    assert office.post(page(kind.event, "change"), form).status_code == 302
    assert f"{Event.objects.get().starts:%Y-%m-%dT%H:%M}" == START


def test_a_form_read_before_the_first_order_leaves_the_start_as_it_was(kind: TicketType) -> None:
    event = Event.objects.get()
    event.starts_at += timedelta(days=1)
    event.title = "Nachtmusik"
    with transaction.atomic():
        assert not services.save_details(event)
    now = Event.objects.get()
    assert (now.title, now.starts_at) == ("Nachtmusik", event.starts_at - timedelta(days=1))


def test_a_form_read_before_the_event_was_cancelled_does_not_put_it_on_sale_again(
    kind: TicketType,
) -> None:
    event = Event.objects.get()
    announcements.cancel(event.pk, Deed(seen=0, by="carla", reason="ill"))
    event.title = "Nachtmusik"
    with transaction.atomic():
        services.save_details(event)
    assert Event.objects.values_list("title", "status").get() == ("Nachtmusik", "cancelled")


def test_a_postponed_event_can_be_moved_after_its_first_date(kind: TicketType) -> None:
    Event.objects.update(starts_at=timezone.now() - timedelta(hours=3))
    event = Event.objects.get()
    local = event.starts_local + timedelta(days=365)
    to = When(starts_local=local, starts_fold=None, starts_at=instant(local, event.tz),
              doors_minutes=60)  # fmt: skip
    assert announcements.move(event.pk, to, Deed(seen=0, by="carla"))


def test_a_cancelled_event_is_neither_published_nor_moved(kind: TicketType) -> None:
    announcements.cancel(kind.event.pk, Deed(seen=0, by="carla", reason="ill"))
    assert not services.set_status(kind.event.pk, EventStatus.ON_SALE)
    local = kind.event.starts_local + timedelta(days=1)
    to = When(starts_local=local, starts_fold=None, starts_at=instant(local, "Europe/Berlin"),
              doors_minutes=60)  # fmt: skip
    assert announcements.move(kind.event.pk, to, Deed(seen=1, by="carla")) is None
