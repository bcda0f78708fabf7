"""Staff is told what was sold, and that places and tickets differ: once a day, nobody's data."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.test import Client, override_settings
from django.utils import timezone
from redis import Redis

from jobs.models import OutboxRow, ProcessedJob, ScheduledRun
from jobs.outbox import enqueue
from jobs.prognosis import Effect
from jobs.registry import kind_named
from jobs.testing import drain, enqueued
from orders import box_office as groups
from orders import sales
from orders.models import Order, Refund, Stock, TicketType
from orders.services import PlacedOrder
from tests.books import books_are_in_order
from tests.conftest import Arm, MailFolder
from tests.people import box_office, buy, new_event, new_type
from tests.web import Answer, text
from tickets import gauges, notice_foresight, notices, services, stock_check
from tickets.models import Notice, NoticeDelivery, StockCheck, Ticket
from tickets.services import Actor

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("at_once")]
BERLIN = ZoneInfo("Europe/Berlin")
DUE = datetime(2026, 10, 26, 6, tzinfo=UTC)
"""Seven in the morning in Berlin, after the day of 25 hours."""
LONG_DAY = date(2026, 10, 25)


@pytest.fixture
def kind(mailbox: MailFolder) -> TicketType:
    return new_type(event=new_event(title="Nachtkonzert"), name="Parkett")


@pytest.fixture
def reader() -> User:
    """One of the staff who is told."""
    return reads("carla")


def reads(name: str, address: str | None = None, *, active: bool = True) -> User:
    groups.make_group()
    address = f"{name}@shop.example" if address is None else address
    user = User.objects.create_user(name, address, is_staff=True, is_active=active)
    user.groups.add(Group.objects.get(name="reports"))
    return user


def run(kind: str, at: datetime | None = DUE) -> None:
    """A schedule fired it for `at`."""
    with transaction.atomic():
        job = enqueue(kind)
        OutboxRow.objects.filter(pk=job).update(scheduled_for=at)
        if at:
            ScheduledRun.objects.create(
                name=f"{kind} {job}", due_at=at, last_due_at=at, result="on time",
                seconds_late=0, outbox_id=job, by="test",
            )  # fmt: skip
    with override_settings(SHOP_ZONE="Europe/Berlin"):
        drain()


def bought(kind: TicketType, at: str, number: int = 2) -> PlacedOrder:
    placed = buy(kind, number)
    Order.objects.filter(pk=placed.id).update(placed_at=datetime.fromisoformat(at))
    return placed


def refunded(order: PlacedOrder, at: str, *seqs: int) -> None:
    services.refund(order.id, "ill", Actor("carla"), seqs=seqs)
    Refund.objects.filter(order=order.id).update(requested_at=datetime.fromisoformat(at))


def sent() -> list[str]:
    found = NoticeDelivery.objects.filter(state="sent").order_by("recipient")
    return list(found.values_list("recipient", flat=True))


def test_the_day_is_that_of_the_zone_and_each_event_tells_its_own(
    redis: Redis, kind: TicketType, reader: User, mailbox: MailFolder
) -> None:
    """From 22:00 UTC, when it is midnight in summer, to 23:00, when it is midnight in winter."""
    bought(kind, "2026-10-24 21:59:59Z", 4)
    bought(kind, "2026-10-24 22:00:00Z")
    last = bought(kind, "2026-10-25 22:59:59Z", 3)
    early = bought(kind, "2026-10-25 23:00:00Z", 5)
    yen = new_type(event=new_event(title="Tokyo", currency="JPY"), price=4000, capacity=20)
    bought(yen, "2026-10-25 12:00:00Z")
    refunded(last, "2026-10-25 23:00:00Z", 1)
    refunded(early, "2026-10-25 22:59:00Z", 1, 2)
    drain()
    run("summarise_sales")
    notice = Notice.objects.get()
    assert notice.day == LONG_DAY
    found = " ".join(notice.text.split())
    assert "sold 5 for €212.50, taken back 2 for €85.00, 89 left" in found
    assert "Tokyo" in found
    assert "sold 2 for ¥8,000, taken back 0 for ¥0, 18 left" in found
    assert (
        "All in EUR: sold for €212.50, taken back for €85.00 All in JPY: sold for ¥8,000" in found
    )
    for words in (notice.text, notice.html):
        assert "Nachtkonzert" in words
        assert "Sunday, 25 October 2026" in words
        assert "Europe/Berlin" in words
        for secret in ("buyer@", "Lovelace", last.code):
            assert secret not in words
    assert sent() == ["carla@shop.example"]
    [email] = NoticeDelivery.objects.all()
    assert email.subject == "Stagedoor: Sales of Sunday, 25 October 2026"
    assert any(f"Subject: {email.subject}" in path.read_text() for path in mailbox.messages())
    books_are_in_order()


def test_a_day_of_25_and_of_23_hours_is_counted_whole() -> None:
    for day, hours in ((LONG_DAY, 25), (date(2026, 3, 29), 23), (date(2026, 6, 1), 24)):
        span = sales.span_of(day, BERLIN)
        assert span.ends - span.begins == timedelta(hours=hours) or (
            span.ends.astimezone(UTC) - span.begins.astimezone(UTC) == timedelta(hours=hours)
        )


def test_who_reads_is_told_once_a_day_whatever_runs_twice(
    kind: TicketType, reader: User, mailbox: MailFolder
) -> None:
    reads("berta")
    reads("gone", active=False)
    reads("mute", address="")
    User.objects.create_user("stranger", "stranger@shop.example", is_staff=True)
    for _ in range(3):
        run("summarise_sales")
    assert sent() == ["berta@shop.example", "carla@shop.example"]
    assert len(mailbox.messages()) == 2
    run("summarise_sales", DUE + timedelta(days=1))
    assert len(sent()) == 4
    results = ProcessedJob.objects.filter(kind="summarise_sales").order_by("pk")
    assert [job.result for job in results] == ["done", *["nothing to do"] * 2, "done"]


def test_a_run_that_is_late_tells_of_the_day_that_it_was_due_for(reader: User) -> None:
    run("summarise_sales", DUE)
    run("summarise_sales", None)
    today = timezone.now().astimezone(BERLIN).date()
    days = Notice.objects.order_by("day").values_list("day", flat=True)
    assert set(days) == {LONG_DAY, today - timedelta(days=1)}


def test_two_runs_at_once_make_one_notice(reader: User) -> None:
    start = threading.Barrier(4)

    def tell(turn: int) -> bool:
        try:
            start.wait(10)
            with transaction.atomic():
                return notices.tell_sales(LONG_DAY, [], turn)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(tell, range(4))) == 1
    assert len(enqueued("email_staff")) == 1


def test_who_left_the_group_meanwhile_is_not_told(reader: User) -> None:
    with transaction.atomic():
        notices.tell_sales(LONG_DAY, [], 1)
    reader.groups.clear()
    drain()
    assert sent() == []
    assert not OutboxRow.objects.exists()


def test_a_worker_that_dies_after_the_call_sends_no_second_email(
    reader: User, at_failpoint: Arm, mailbox: MailFolder
) -> None:
    deaths = iter(range(2))

    def act(place: str) -> None:
        if place == "runner.before_effects/email_staff" and next(deaths, None) is not None:
            raise KeyboardInterrupt

    at_failpoint(act)
    run("summarise_sales")
    for _ in range(3):
        OutboxRow.objects.update(available_at=timezone.now(), relayed_at=None, entry_id=None)
        drain()
    assert next(deaths, None) is None
    assert sent() == ["carla@shop.example"]
    assert len(mailbox.messages()) == 1


def foreseen(notice: int, user: int) -> Effect:
    [found] = notice_foresight.of_notices([(notice, user)])
    return found.effect


def test_what_a_replay_would_do_is_said(reader: User) -> None:
    with transaction.atomic():
        notices.tell_sales(LONG_DAY, [], 1)
    made = Notice.objects.get()
    assert foreseen(made.pk, reader.pk) is Effect.SAFE
    assert foreseen(made.pk, 4711) is Effect.NOTHING
    assert foreseen(4711, reader.pk) is Effect.IMPOSSIBLE
    drain()
    assert foreseen(made.pk, reader.pk) is Effect.NOTHING
    long_ago = timezone.now() - timedelta(days=3)
    NoticeDelivery.objects.update(state="queued", called_at=long_ago, first_try_at=long_ago)
    assert foreseen(made.pk, reader.pk) is Effect.MAY_REPEAT
    consent = kind_named("email_staff").consent
    assert consent is not None
    with transaction.atomic():
        consent([kind_named("email_staff").args_type(notice_id=made.pk, user_id=reader.pk)])
    assert foreseen(made.pk, reader.pk) is Effect.SAFE


def difference() -> dict[str, float]:
    return {labels[0]: value for labels, value in gauges.difference()}


def check() -> StockCheck:
    run("check_stock")
    found = StockCheck.objects.first()
    assert found is not None
    return found


def test_books_that_agree_are_told_to_nobody(kind: TicketType, reader: User) -> None:
    """Also while tickets are being made, refunded in part, or their render is dead."""
    assert list(gauges.difference()) == list(gauges.checked()) == []
    order = buy(kind, 3)
    drain()
    services.refund(order.id, "ill", Actor("carla"), seqs=[1])
    buy(kind)
    assert stock_check.differences() == []
    OutboxRow.objects.filter(kind="render_tickets").update(dead_at=timezone.now())
    found = check()
    assert (found.places, found.tickets, found.found) == (0, 0, [])
    assert difference() == {"places": 0, "tickets": 0}
    assert sent() == []
    [(_, at)] = gauges.checked()
    assert at == found.at.timestamp()


def test_places_and_tickets_that_differ_are_told_and_left_as_they_are(
    kind: TicketType, reader: User, mailbox: MailFolder
) -> None:
    buy(kind, 3)
    drain()
    Stock.objects.update(taken=5)
    Ticket.objects.filter(seq=1).delete()
    for _ in range(2):
        found = check()
        assert (found.places, found.tickets) == (2, 1)
    assert difference() == {"places": 2, "tickets": 1}
    assert Stock.objects.get().taken == 5
    assert sent() == ["carla@shop.example"]
    told = Notice.objects.get().text
    assert "Parkett (Nachtkonzert): 5 places taken, 3 sold, 2 valid tickets" in told
    assert "Nothing was changed." in told
    Stock.objects.update(taken=3)
    assert check().places == 0
    assert difference()["places"] == 0


def test_an_order_without_tickets_whose_job_is_lost_is_a_difference(kind: TicketType) -> None:
    buy(kind, 2)
    OutboxRow.objects.all().delete()
    [found] = stock_check.differences()
    assert (found.sold, found.valid, found.waiting) == (2, 0, 0)


def test_staff_reads_both_in_the_admin(client: Client, kind: TicketType, reader: User) -> None:
    Stock.objects.update(taken=1)
    run("check_stock")
    run("summarise_sales")
    groups.make_group()
    client.force_login(box_office())
    check, notice = StockCheck.objects.get(), Notice.objects.get(kind="sales")
    shown = {
        "/admin/tickets/stockcheck/": "1 places and 0 tickets differ",
        f"/admin/tickets/stockcheck/{check.pk}/change/": "Parkett (Nachtkonzert)",
        "/admin/tickets/notice/": "1 of 1",
        f"/admin/tickets/notice/{notice.pk}/change/": "Sales of Sunday",
    }
    for page, words in shown.items():
        answer: Answer = client.get(page)
        assert words in text(answer)
        assert "Save" not in text(answer)
