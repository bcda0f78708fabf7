"""Buyers are reminded on the day before, where the event is: once, or it says why not."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection, transaction
from django.test import Client, override_settings
from django.utils import timezone
from redis import Redis

from jobs import subjects
from jobs.models import OutboxRow, ProcessedJob
from jobs.outbox import enqueue, put
from jobs.prognosis import Effect
from jobs.testing import drain, enqueued
from orders import announcements
from orders.announcements import Deed, When
from orders.models import Event, Order, TicketType
from orders.services import PlacedOrder
from orders.wallclock import instant
from tests.books import books_are_in_order
from tests.conftest import Arm, MailFolder
from tests.people import box_office, buy, new_event, new_type
from tests.web import Answer, text
from tickets import reminder_foresight, reminders, services
from tickets.models import Delivery, Reminder, Ticket
from tickets.services import Actor

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("at_once")]
BERLIN = ZoneInfo("Europe/Berlin")
HOUR = timedelta(hours=1)


def evening(days: int) -> datetime:
    """The last hour of a day in Berlin, so many days from today, as the poster says it."""
    today = timezone.now().astimezone(BERLIN).replace(tzinfo=None)
    return (today + timedelta(days=days)).replace(hour=23, minute=0, second=0, microsecond=0)


@pytest.fixture
def midnight() -> Any:
    """Reminders are due from the first moment of the day before."""
    with override_settings(REMINDER_HOUR=0):
        yield


@pytest.fixture
def kind(midnight: None, mailbox: MailFolder) -> TicketType:
    """Of an event of tomorrow evening, whose reminder is due."""
    event = new_event(title="Nachtkonzert", starts_local=evening(1))
    return new_type(event=event, name="Parkett")


def sold(kind: TicketType, number: int) -> list[PlacedOrder]:
    """So many orders, each emailed to a buyer of its own, days ago."""
    orders = [buy(kind, 2, email=f"b{turn}@example.org") for turn in range(number)]
    Order.objects.update(placed_at=timezone.now() - timedelta(days=5))
    drain()
    return orders


def begin() -> None:
    with transaction.atomic():
        enqueue("begin_reminders")


def remind() -> None:
    begin()
    drain()


def told() -> list[str]:
    found = Delivery.objects.filter(kind="reminder", state="sent").order_by("order_id")
    return list(found.values_list("order__code", flat=True))


def move(event: Event, to: datetime, seen: int = 0) -> None:
    when = When(
        starts_local=to, starts_fold=None, starts_at=instant(to, event.tz), doors_minutes=60
    )
    assert announcements.move(event.pk, when, Deed(seen=seen, by="carla"))


def cancel(event: Event, seen: int = 0) -> None:
    assert announcements.cancel(event.pk, Deed(seen=seen, by="carla", reason="ill"))


@pytest.mark.parametrize(
    ("tz", "starts", "due"),
    [
        ("Europe/Berlin", "2026-12-05 20:00", "2026-12-04 09:00Z"),
        ("America/New_York", "2026-12-05 20:00", "2026-12-04 15:00Z"),
        ("Pacific/Kiritimati", "2026-12-05 01:00", "2026-12-03 20:00Z"),
        # The clocks go back, and forward, in the night between the reminder and the event.
        ("Europe/Berlin", "2026-10-25 20:00", "2026-10-24 08:00Z"),
        ("Australia/Lord_Howe", "2026-10-04 20:00", "2026-10-02 23:30Z"),
    ],
)
def test_it_is_due_at_ten_on_the_day_before_where_the_event_is(
    tz: str, starts: str, due: str
) -> None:
    local, moment = datetime.fromisoformat(starts), datetime.fromisoformat(due)
    event = new_event(tz=tz, starts_local=local, sale_closes_at=timezone.now() + HOUR)
    assert reminders.due_at(event) == moment
    assert reminders.due_events(moment - timedelta(seconds=1)) == []
    assert reminders.due_events(moment) == [event.pk]


def test_every_buyer_with_tickets_is_reminded_once_in_batches(
    redis: Redis, kind: TicketType, mailbox: MailFolder
) -> None:
    orders = sold(kind, 7)
    before = len(mailbox.messages())
    for _ in range(3):
        remind()
    assert told() == [order.code for order in orders]
    assert len(mailbox.messages()) == before + 7
    found = Reminder.objects.get()
    assert (found.told, found.total, found.number, found.skipped) == (7, 7, 1, "")
    assert found.done_at is not None
    assert ProcessedJob.objects.filter(kind="remind_event").count() == 3
    results = ProcessedJob.objects.filter(kind="begin_reminders").order_by("pk")
    assert [job.result for job in results] == ["done", "nothing to do", "nothing to do"]
    assert {row.lane for row in OutboxRow.objects.all()} == set()
    books_are_in_order()


def test_the_email_tells_the_time_where_the_event_is_and_holds_no_secret(
    kind: TicketType, mailbox: MailFolder
) -> None:
    [order] = sold(kind, 1)
    remind()
    email = Delivery.objects.get(kind="reminder")
    starts = kind.event.starts
    day = f"{starts:%A}, {starts.day} {starts:%B}"
    assert email.subject == f"Nachtkonzert is on {day} ({order.code})"
    for words in (email.text, email.html):
        for shown in (f"{day} {starts:%Y}, 23:00 (Europe/Berlin)", "22:00", "2 ",
                      "Parkett", order.code, "[[order-link]]"):  # fmt: skip
            assert shown in words
        assert order.secret not in words
    letters = [path.read_text().replace("=\n", "") for path in mailbox.messages()]
    [letter] = [one for one in letters if "Subject: Nachtkonzert is on" in one]
    assert f"/o/{order.secret}/" in letter
    assert (email.file, email.calendar) == (None, "")


def test_any_number_of_runs_at_once_begin_it_once(kind: TicketType) -> None:
    sold(kind, 2)
    start = threading.Barrier(6)

    def run(turn: int) -> bool:
        try:
            start.wait(10)
            with transaction.atomic():
                return reminders.begin(kind.event.pk, turn)
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(run, range(6))) == 1
    assert len(enqueued("remind_event")) == 1


def test_emails_come_due_at_the_providers_rate_behind_tickets(kind: TicketType) -> None:
    sold(kind, 4)
    with override_settings(MAIL_BULK_RATE=0.5):
        remind()
    now = timezone.now()
    emails = OutboxRow.objects.filter(kind="remind_order").order_by("pk")
    assert [round((row.available_at - now).total_seconds()) for row in emails] == [2, 4]
    assert {row.lane for row in OutboxRow.objects.all()} == {"bulk"}


def test_who_buys_on_the_last_day_is_not_reminded(kind: TicketType) -> None:
    """Not by a run that is late either: the tickets have just come."""
    [first] = sold(kind, 1)
    buy(kind)
    drain()
    remind()
    assert told() == [first.code]
    buy(kind)
    drain()
    remind()
    assert told() == [first.code]
    assert Reminder.objects.get().total == 1


def test_an_event_that_nobody_had_bought_by_then_is_not_begun_again(kind: TicketType) -> None:
    remind()
    sold(kind, 1)
    remind()
    assert told() == []
    assert Reminder.objects.get().done_at is not None


def test_who_is_refunded_or_has_no_valid_ticket_is_not_reminded(
    kind: TicketType, at_failpoint: Arm
) -> None:
    """Neither before the turn of the order, nor between its batch and its email."""
    whole, part, none, between, stays = sold(kind, 5)
    services.refund(whole.id, "ill", Actor("carla"))
    services.refund(part.id, "ill", Actor("carla"), seqs=[1])
    drain()
    Ticket.objects.filter(order=none.id).update(status="void")
    refunded: list[str] = []

    def act(place: str) -> None:
        if place == "runner.committed/remind_event" and not refunded:
            refunded.append(place)
            services.refund(between.id, "ill", Actor("carla"))

    at_failpoint(act)
    with override_settings(MAIL_BULK_BATCH=10):
        remind()
    assert told() == [part.code, stays.code]
    assert Reminder.objects.get().told == 3


def test_of_a_part_that_was_refunded_the_email_tells_the_rest(kind: TicketType) -> None:
    [order] = sold(kind, 1)
    services.refund(order.id, "ill", Actor("carla"), seqs=[1])
    drain()
    remind()
    assert "1 x Parkett" in Delivery.objects.get(kind="reminder").text


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("cancelled", "the event was cancelled"),
        ("moved", "the event moved to another day"),
        ("later", "the event moved on the last day, which its buyers are told"),
        ("begun", "the event had begun"),
    ],
)
def test_an_event_overtaken_in_the_middle_of_it_reminds_nobody_else(
    what: str, why: str, kind: TicketType, at_failpoint: Arm
) -> None:
    sold(kind, 4)
    acted: list[str] = []

    def act(place: str) -> None:
        if place == "runner.committed/remind_event" and not acted:
            acted.append(place)
            if what == "cancelled":
                cancel(kind.event)
            elif what == "moved":
                move(kind.event, evening(9))
            elif what == "later":
                move(kind.event, evening(1).replace(minute=30))
            else:
                Event.objects.update(starts_at=timezone.now())
                Reminder.objects.update(day=evening(0).date())

    at_failpoint(act)
    remind()
    assert told() == []
    found = Reminder.objects.get()
    assert (found.told, found.skipped) == (3, why)
    assert not OutboxRow.objects.exists()


@pytest.mark.parametrize("what", ["cancelled", "moved"])
def test_what_befell_an_event_since_it_was_found_due_counts(what: str, kind: TicketType) -> None:
    sold(kind, 1)
    assert reminders.due_events(timezone.now()) == [kind.event.pk]
    if what == "cancelled":
        cancel(kind.event)
    else:
        move(kind.event, evening(3))
    with transaction.atomic():
        assert not reminders.begin(kind.event.pk, 1)
    assert not Reminder.objects.exists()


def test_an_event_cancelled_before_is_not_begun(kind: TicketType) -> None:
    sold(kind, 1)
    cancel(kind.event)
    drain()
    remind()
    assert not Reminder.objects.exists()


def test_an_event_moved_to_another_day_has_a_reminder_of_that_day(kind: TicketType) -> None:
    [order] = sold(kind, 1)
    Event.objects.update(starts_local=evening(2), starts_at=instant(evening(2), "Europe/Berlin"))
    remind()
    assert told() == []
    Event.objects.update(starts_local=evening(1), starts_at=instant(evening(1), "Europe/Berlin"))
    remind()
    Event.objects.update(starts_local=evening(0), starts_at=instant(evening(0), "Europe/Berlin"))
    remind()
    assert [one.number for one in Reminder.objects.order_by("day")] == [2, 1]
    assert told() == [order.code] * 2


def test_who_was_told_on_the_last_day_that_it_moved_is_not_reminded_as_well(
    kind: TicketType,
) -> None:
    sold(kind, 1)
    Event.objects.update(starts_local=evening(9), starts_at=instant(evening(9), "Europe/Berlin"))
    move(kind.event, evening(1))
    remind()
    assert told() == []
    assert "which its buyers are told" in Reminder.objects.get().skipped
    remind()
    assert Reminder.objects.count() == 1


@pytest.mark.parametrize(("ago", "number"), [(-HOUR, 1), (HOUR, 0)])
def test_a_run_that_is_late_reminds_until_the_event_begins_and_then_says_that_it_did_not(
    ago: timedelta, number: int, kind: TicketType
) -> None:
    [order] = sold(kind, 1)
    Event.objects.update(starts_at=timezone.now() - ago)
    remind()
    assert told() == [order.code] * number
    found = Reminder.objects.get()
    assert found.skipped == ("" if number else "the event had begun")
    assert (found.total, found.told) == (1, number)


def test_a_worker_that_dies_between_batches_reminds_everybody_once(
    kind: TicketType, at_failpoint: Arm, redis: Redis
) -> None:
    orders = sold(kind, 7)
    kills = iter(range(3))

    def act(place: str) -> None:
        if place == "runner.before_commit/remind_event" and next(kills, None) is not None:
            raise KeyboardInterrupt

    at_failpoint(act)
    for _ in range(4):
        begin()
        drain()
        OutboxRow.objects.update(available_at=timezone.now(), relayed_at=None, entry_id=None)
    assert next(kills, None) is None
    assert told() == [order.code for order in orders]
    assert Reminder.objects.get().told == 7
    books_are_in_order()


def foreseen(order_id: int, reminder_id: int) -> tuple[Effect, str]:
    [found] = reminder_foresight.of_emails([(order_id, reminder_id)])
    return found.effect, found.text


def test_what_a_replay_would_do_is_said(kind: TicketType) -> None:
    first, second = sold(kind, 2)
    with transaction.atomic():
        reminders.begin(kind.event.pk, 1)
    made = Reminder.objects.get()
    [batch] = reminder_foresight.of_batches([(made.pk, 0)])
    assert batch.effect == Effect.SAFE
    assert foreseen(first.id, made.pk)[0] == Effect.NOTHING
    Reminder.objects.update(cursor=first.id)
    assert foreseen(first.id, made.pk)[0] == Effect.SAFE
    assert foreseen(second.id, made.pk)[0] == Effect.NOTHING
    assert foreseen(first.id, 4711)[0] == Effect.IMPOSSIBLE
    assert foreseen(4711, made.pk)[0] == Effect.IMPOSSIBLE
    Reminder.objects.update(cursor=0)
    drain()
    assert "already done" in foreseen(first.id, made.pk)[1]
    [batch, none] = reminder_foresight.of_batches([(made.pk, 0), (4711, 0)])
    assert (batch.effect, none.effect) == (Effect.NOTHING, Effect.IMPOSSIBLE)


def test_a_job_of_a_reminder_that_does_not_exist_is_dead_at_once(kind: TicketType) -> None:
    [order] = sold(kind, 1)
    with transaction.atomic():
        put("remind_order", {"order_id": order.id, "reminder_id": 4711})
    drain()
    assert "there is no reminder 4711" in OutboxRow.objects.get().dead_reason


def test_the_page_of_the_event_says_how_far_it_is(client: Client, kind: TicketType) -> None:
    client.force_login(box_office())
    sold(kind, 4)
    remind()
    made = Reminder.objects.get()
    page = f"/admin/orders/event/{kind.event.pk}/change/"
    assert (
        subjects.describe([f"reminder:{made.pk}"])[f"reminder:{made.pk}"].state == "4 of 4 orders"
    )
    assert subjects.describe([f"reminder:{made.pk}"])[f"reminder:{made.pk}"].url == page
    answer: Answer = client.get(page)
    assert "Reminded 4 of 4 buyers." in text(answer)
    Reminder.objects.update(skipped="the event had begun", told=0)
    answer = client.get(page)
    assert "Nobody else is reminded: the event had begun." in text(answer)


def test_the_page_of_an_order_tells_of_the_email(client: Client, kind: TicketType) -> None:
    client.force_login(box_office())
    [order] = sold(kind, 1)
    remind()
    answer: Answer = client.get(f"/admin/orders/order/{order.id}/change/")
    assert "reminder of the event: sent" in text(answer)
