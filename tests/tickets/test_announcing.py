"""An event moves or is cancelled: every buyer is told once, refunded where it is cancelled."""

import email
import email.policy
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from redis import Redis

from jobs import subjects
from jobs.models import OutboxRow, ProcessedJob
from jobs.outbox import put
from jobs.prognosis import Effect
from jobs.testing import drain, enqueued
from orders import announcements
from orders.announcements import Deed, When
from orders.models import Announcement, Event, Order, Refund, Stock, TicketType
from orders.services import NotOnSale, PlacedOrder
from orders.wallclock import instant
from tests.books import books_are_in_order
from tests.conftest import Arm, MailFolder
from tests.people import buy, new_event, new_type
from tickets import announcement_foresight, files, services
from tickets.models import Delivery, Ticket, TicketFile
from tickets.services import Actor

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("at_once")]


def moved_to(event: Event, days: int = 7, doors: int = 30) -> When:
    """So many days after its present start."""
    local = event.starts_local + timedelta(days=days)
    return When(
        starts_local=local, starts_fold=None, starts_at=instant(local, event.tz),
        doors_minutes=doors,
    )  # fmt: skip


def fresh(event: Event) -> Event:
    return Event.objects.get(pk=event.pk)


def move(event: Event, days: int = 7, seen: int = 0, words: str = "") -> Announcement | None:
    deed = Deed(seen=seen, by="carla", words=words)
    return announcements.move(event.pk, moved_to(fresh(event), days), deed)


def cancel(event: Event, seen: int = 0, words: str = "") -> Announcement | None:
    deed = Deed(seen=seen, by="carla", words=words, reason="the singer is ill")
    return announcements.cancel(event.pk, deed)


@pytest.fixture
def kind(mailbox: MailFolder) -> TicketType:
    """Of an event on sale."""
    return new_type(event=new_event(title="Nachtkonzert"), name="Parkett")


def sold(kind: TicketType, number: int) -> list[PlacedOrder]:
    """So many orders, each emailed to a buyer of its own."""
    orders = [buy(kind, 2, email=f"b{turn}@example.org") for turn in range(number)]
    drain()
    return orders


def told(what: str) -> list[str]:
    """The codes of the orders whose buyers were told, each as often as it was."""
    found = Delivery.objects.filter(kind=what, state="sent").order_by("order_id")
    return list(found.values_list("order__code", flat=True))


def letter(mailbox: MailFolder, subject: str) -> Any:
    """The one email of that subject."""
    read = [
        email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
        for path in mailbox.messages()
    ]
    [found] = [one for one in read if subject in one["Subject"]]
    return found


def parts(message: Any) -> dict[str, str]:
    return {
        part.get_content_type(): str(part.get_content())
        for part in message.walk() if not part.is_multipart()
    }  # fmt: skip


def test_every_buyer_of_a_moved_event_is_told_once_in_batches(
    redis: Redis, kind: TicketType, mailbox: MailFolder
) -> None:
    orders = sold(kind, 8)
    before = len(mailbox.messages())
    made = move(kind.event)
    assert made is not None
    drain()
    assert told("moved") == [order.code for order in orders]
    assert len(mailbox.messages()) == before + 8
    found = Announcement.objects.get()
    assert (found.told, found.total, found.cursor) == (8, 8, orders[-1].id)
    assert found.done_at is not None
    assert ProcessedJob.objects.filter(kind="announce_event").count() == 3
    assert Order.objects.filter(status="placed").count() == 8
    books_are_in_order()


def test_the_email_of_a_move_says_both_times_and_brings_the_new_one_to_the_calendar(
    kind: TicketType, mailbox: MailFolder
) -> None:
    [order] = sold(kind, 1)
    old, new = fresh(kind.event), moved_to(kind.event)
    move(kind.event, words="The heating is broken.\nSorry!  <b>")
    drain()
    message = letter(mailbox, "has a new time")
    assert message["Subject"] == f"Nachtkonzert has a new time ({order.code})"
    told = parts(message)
    assert set(told) == {"text/plain", "text/html", "text/calendar"}
    for words in (told["text/plain"], told["text/html"]):
        for shown in (f"{new.starts_local:%H:%M} (Europe/Berlin)", f"{old.starts_local.day} ",
                      f"{new.starts_local.day} ", "19:30", "The heating is broken.\nSorry!",
                      "2 ", "Parkett", f"/o/{order.secret}/", "stay valid"):  # fmt: skip
            assert shown in words
    assert "&lt;b&gt;" in told["text/html"]
    first = Delivery.objects.get(kind="tickets").calendar
    later = Delivery.objects.get(kind="moved").calendar
    assert f"DTSTART;TZID=Europe/Berlin:{new.starts_local:%Y%m%dT%H%M%S}" in later
    assert [line for line in first.split("\r\n") if line.startswith("UID")] == [
        line for line in later.split("\r\n") if line.startswith("UID")
    ]
    assert "SEQUENCE:0" in first
    assert "SEQUENCE:1" in later


def test_the_file_is_made_again_with_the_same_codes_and_no_second_email_of_tickets(
    kind: TicketType, mailbox: MailFolder
) -> None:
    [order] = sold(kind, 1)
    codes = set(Ticket.objects.values_list("token", flat=True))
    move(kind.event)
    drain(rounds=10)
    assert set(Ticket.objects.values_list("token", flat=True)) == codes
    old, new = TicketFile.objects.order_by("order_version")
    assert (old.order_version, new.order_version) == (1, 2)
    now = Order.objects.get()
    assert files.newest_file(now) == new
    with files.ticket_storage().open(new.name) as stored:
        assert f"{moved_to(kind.event, 0).starts_local:%H:%M}".encode() in stored.read()
    assert Delivery.objects.filter(kind="tickets").count() == 1
    assert len(mailbox.messages()) == 2
    assert order.id == now.pk


def test_until_the_new_file_is_made_the_old_one_is_there(kind: TicketType) -> None:
    sold(kind, 1)
    move(kind.event)
    OutboxRow.objects.filter(kind="announce_event").update(available_at=timezone.now())
    with pytest.raises(RuntimeError):
        drain(rounds=1)
    assert enqueued("rerender_tickets")
    assert files.newest_file(Order.objects.get()) is not None


def test_a_buyer_whose_tickets_are_not_made_yet_gets_them_with_the_new_time(
    kind: TicketType, mailbox: MailFolder, redis: Redis
) -> None:
    order = buy(kind)
    move(kind.event)
    drain()
    assert Order.objects.get().version == 2
    assert told("tickets") == told("moved") == [order.code]
    sent = Delivery.objects.get(kind="tickets")
    assert sent.file is not None
    assert sent.file.order_version == 2
    books_are_in_order()


def test_a_render_under_way_while_the_event_moves_does_not_keep_the_old_time(
    kind: TicketType, at_failpoint: Arm, redis: Redis
) -> None:
    buy(kind)
    moves: list[str] = []

    def act(place: str) -> None:
        if place == "runner.before_effects/render_tickets" and not moves:
            moves.append(place)
            move(kind.event)
            drain()

    at_failpoint(act)
    drain()
    file = files.newest_file(Order.objects.get())
    assert file is not None
    with files.ticket_storage().open(file.name) as stored:
        shown = stored.read().decode()
    there = fresh(kind.event).starts
    assert f"{there.day} {there:%B %Y}" in shown
    assert told("tickets") == told("moved")
    books_are_in_order()


def test_orders_that_come_after_the_announcement_are_not_told(kind: TicketType) -> None:
    [first] = sold(kind, 1)
    move(kind.event)
    buy(kind)
    drain()
    assert told("moved") == [first.code]


def test_an_order_that_was_refunded_before_its_turn_is_not_told(kind: TicketType) -> None:
    first, second = sold(kind, 2)
    move(kind.event)
    services.refund(first.id, "cannot come", Actor("carla"))
    drain()
    assert told("moved") == [second.code]
    found = Announcement.objects.get()
    assert (found.told, found.total) == (1, 2)


def test_an_order_refunded_after_its_turn_is_told_of_the_refund_alone(
    kind: TicketType, at_failpoint: Arm
) -> None:
    [order] = sold(kind, 1)
    move(kind.event)

    def act(place: str) -> None:
        if place == "runner.committed/announce_event":
            services.refund(order.id, "cannot come", Actor("carla"))

    at_failpoint(act)
    drain()
    assert told("moved") == []
    assert told("refund") == [order.code]


def test_who_is_moved_twice_is_told_of_the_last_time_only_where_both_are_due(
    kind: TicketType, redis: Redis
) -> None:
    orders = sold(kind, 4)
    assert move(kind.event)
    assert move(kind.event, days=3, seen=1)
    drain()
    generations = Delivery.objects.filter(kind="moved").values_list("generation", flat=True)
    assert list(generations) == [2] * 4
    assert [one.told for one in Announcement.objects.order_by("number")] == [4, 4]
    assert move(kind.event, days=3, seen=2)
    drain()
    assert len(told("moved")) == 2 * len(orders)
    books_are_in_order()


def test_a_cancelled_event_refunds_tells_voids_and_gives_back(
    redis: Redis, kind: TicketType, mailbox: MailFolder
) -> None:
    orders = sold(kind, 7)
    before = len(mailbox.messages())
    assert cancel(kind.event, words="We are very sorry.")
    with pytest.raises(NotOnSale, match="was cancelled"):
        buy(kind)
    drain()
    assert told("cancelled") == [order.code for order in orders]
    assert told("refund") == []
    assert len(mailbox.messages()) == before + 7
    assert set(Order.objects.values_list("status", flat=True)) == {"refunded"}
    assert set(Ticket.objects.values_list("status", flat=True)) == {"void"}
    assert Stock.objects.get().taken == 0
    assert sum(Refund.objects.values_list("amount", flat=True)) == 7 * 8500
    refund = Refund.objects.first()
    assert refund is not None
    assert (refund.reason, refund.actor) == ("cancelled: the singer is ill", "carla")
    assert ProcessedJob.objects.filter(kind="pay_refund").count() == 7
    books_are_in_order()


def test_the_email_of_a_cancellation_says_that_the_money_comes_back(
    kind: TicketType, mailbox: MailFolder
) -> None:
    [order] = sold(kind, 1)
    cancel(kind.event, words="We are very sorry.")
    drain()
    message = letter(mailbox, "is cancelled")
    told = parts(message)
    assert set(told) == {"text/plain", "text/html"}
    for words in told.values():
        for shown in ("We are very sorry.", "We pay back €85.00", "no longer valid", order.code):
            assert shown in words
        assert "singer" not in words


def test_a_cancelled_event_pays_back_what_is_left_of_an_order(
    kind: TicketType, mailbox: MailFolder, redis: Redis
) -> None:
    [order] = sold(kind, 1)
    services.refund(order.id, "one is ill", Actor("carla"), seqs=[2])
    cancel(kind.event)
    drain()
    first, second = Refund.objects.order_by("number")
    assert (first.amount, second.amount) == (4250, 4250)
    assert told("refund") == told("cancelled") == [order.code]
    assert "We pay back €42.50" in parts(letter(mailbox, "is cancelled"))["text/plain"]
    assert ProcessedJob.objects.filter(kind="pay_refund").count() == 2
    books_are_in_order()


def test_an_event_cancelled_while_it_is_still_told_that_it_moved_tells_of_the_end_only(
    kind: TicketType, redis: Redis
) -> None:
    orders = sold(kind, 4)
    move(kind.event)
    cancel(kind.event, seen=1)
    drain()
    assert told("moved") == []
    assert told("cancelled") == [order.code for order in orders]
    books_are_in_order()


def test_the_same_form_twice_and_a_page_that_is_old_change_nothing(kind: TicketType) -> None:
    sold(kind, 2)
    assert move(kind.event)
    there = fresh(kind.event).starts_at
    assert move(kind.event) is None
    assert cancel(kind.event) is None
    assert fresh(kind.event).starts_at == there
    assert cancel(kind.event, seen=1)
    assert cancel(kind.event, seen=2) is None
    assert move(kind.event, seen=2) is None
    assert Announcement.objects.count() == 2
    assert len(enqueued("announce_event")) == 2


def test_two_people_who_saw_the_same_page_do_it_once(kind: TicketType) -> None:
    sold(kind, 1)
    start = threading.Barrier(6)

    def press(turn: int) -> bool:
        try:
            start.wait(10)
            made = move(kind.event) if turn % 2 else cancel(kind.event)
            return made is not None
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(press, range(6))) == 1
    assert len(enqueued("announce_event")) == 1


def test_no_order_is_placed_on_an_event_after_it_was_cancelled(
    kind: TicketType, redis: Redis
) -> None:
    """Orders whose form was read before, at the same moment: refused, or refunded."""
    start = threading.Barrier(13)

    def one(turn: int) -> object:
        try:
            start.wait(10)
            return cancel(kind.event) if turn == 6 else buy(kind)
        except NotOnSale:
            return None
        finally:
            connection.close()

    with ThreadPoolExecutor(13) as pool:
        placed = sum(isinstance(made, PlacedOrder) for made in pool.map(one, range(13)))
    assert Announcement.objects.get().total == Order.objects.count() == placed
    drain()
    assert not Order.objects.filter(status="placed").exists()
    books_are_in_order()


def test_a_deed_that_cannot_be_noted_is_not_done(kind: TicketType) -> None:
    def fail(_: Event, words: str) -> None:
        raise RuntimeError(words)

    with pytest.raises(RuntimeError, match="cancelled: ill"):
        announcements.cancel(kind.event.pk, Deed(seen=0, by="carla", reason="ill", note=fail))
    assert fresh(kind.event).status == "on_sale"
    assert not enqueued("announce_event")


def test_an_event_without_orders_has_nobody_to_tell(kind: TicketType, redis: Redis) -> None:
    cancel(kind.event)
    drain()
    found = Announcement.objects.get()
    assert (found.told, found.total) == (0, 0)
    assert found.done_at is not None
    books_are_in_order()


def test_a_batch_whose_turn_is_over_does_nothing(kind: TicketType) -> None:
    sold(kind, 4)
    made = move(kind.event)
    assert made is not None
    drain()
    before = len(told("moved"))
    for cursor in (0, made.last_order_id, 99_999):
        with transaction.atomic():
            put("announce_event", {"announcement_id": made.pk, "cursor": cursor})
    drain()
    assert len(told("moved")) == before
    assert len(enqueued("announce_order")) == 0
    last = ProcessedJob.objects.filter(kind="announce_event").order_by("-pk")[:3]
    assert {job.result for job in last} == {"nothing to do"}


def test_emails_and_batches_come_due_at_the_providers_rate(kind: TicketType) -> None:
    sold(kind, 4)
    move(kind.event)
    with override_settings(MAIL_BULK_RATE=0.005):
        drain()
    now = timezone.now()
    emails = OutboxRow.objects.filter(kind="announce_order").order_by("pk")
    waits = [(row.available_at - now).total_seconds() for row in emails]
    assert [round(wait, -2) for wait in waits] == [200, 400]
    batch = OutboxRow.objects.get(kind="announce_event")
    assert 400 < (batch.available_at - now).total_seconds() <= 600
    assert {row.lane for row in OutboxRow.objects.all()} == {"bulk"}


def at(pair: tuple[int, int]) -> tuple[Effect, str]:
    [found] = announcement_foresight.of_emails([pair])
    return found.effect, found.text


def test_what_a_replay_would_do_is_said(kind: TicketType) -> None:
    first, second = sold(kind, 2)
    made = move(kind.event)
    assert made is not None
    [batch] = announcement_foresight.of_batches([(made.pk, 0)])
    assert batch.effect == Effect.SAFE
    assert at((first.id, made.pk))[0] == Effect.NOTHING
    Announcement.objects.update(cursor=first.id)
    assert at((first.id, made.pk)) == (Effect.SAFE, "not done yet, safe")
    assert at((second.id, made.pk))[0] == Effect.NOTHING
    assert at((first.id, 0))[0] == Effect.IMPOSSIBLE
    assert at((0, made.pk))[0] == Effect.IMPOSSIBLE
    Announcement.objects.update(cursor=0)
    drain()
    assert "already done" in at((first.id, made.pk))[1]
    assert announcement_foresight.of_batches([(made.pk, 0), (0, 0)])[0].effect == Effect.NOTHING
    cancel(kind.event, seen=1)
    end = Announcement.objects.get(kind="cancelled")
    drain()
    assert "already done" in at((second.id, end.pk))[1]
    assert at((buy(new_type()).id, end.pk))[0] == Effect.NOTHING


def test_of_many_it_is_said_in_few_looks(kind: TicketType) -> None:
    orders = sold(kind, 6)
    made = move(kind.event)
    assert made is not None
    with CaptureQueriesContext(connection) as asked:
        announcement_foresight.of_emails([(order.id, made.pk) for order in orders])
    assert len(asked) < 12


def test_a_job_of_an_announcement_that_does_not_exist_is_dead_at_once(kind: TicketType) -> None:
    [order] = sold(kind, 1)
    with transaction.atomic():
        put("announce_order", {"order_id": order.id, "announcement_id": 4711})
    drain()
    assert "there is no announcement 4711" in OutboxRow.objects.get().dead_reason


def test_an_order_of_another_event_is_told_nothing(kind: TicketType) -> None:
    sold(kind, 1)
    other = buy(new_type())
    made = cancel(kind.event)
    assert made is not None
    drain()
    with transaction.atomic():
        put("announce_order", {"order_id": other.id, "announcement_id": made.pk})
    drain()
    assert other.code not in told("cancelled")
    assert Order.objects.get(pk=other.id).is_placed


def test_an_announcement_is_named_where_its_jobs_are_shown(kind: TicketType) -> None:
    sold(kind, 4)
    made = cancel(kind.event)
    assert made is not None
    subject = f"announcement:{made.pk}"
    about = subjects.describe([subject, "announcement:0", "announcement:x", "announcement:4711"])
    assert list(about) == [subject]
    assert (about[subject].name, about[subject].state) == (
        "Nachtkonzert cancelled", "0 of 4 orders",
    )  # fmt: skip
    assert about[subject].url == f"/admin/orders/event/{kind.event.pk}/change/"
