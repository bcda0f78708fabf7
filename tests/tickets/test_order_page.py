"""The box office's page of an order: where the ticket is, what happened, what can be done."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from jobs import events
from jobs.models import KindHold, OutboxRow, What
from jobs.outbox import enqueue
from jobs.processes import say_alive
from jobs.testing import drain, enqueued
from orders.box_office import make_group
from orders.models import Order, OrderStatus, Refund
from orders.services import PlacedOrder
from stagedoor.mailbox import Mailbox
from tests.conftest import MailFolder
from tests.people import box_office, buy, new_type, stranger
from tests.web import Answer, text
from tickets import services
from tickets.models import Delivery, DeliveryState, TicketFile
from tickets.services import Actor

pytestmark = pytest.mark.django_db(transaction=True)

XSS = "<script>alert(1)</script>"


@pytest.fixture
def office(client: Client) -> Client:
    """A browser in which the box office is logged in."""
    make_group()
    client.force_login(box_office())
    return client


@pytest.fixture
def placed(mailbox: MailFolder) -> PlacedOrder:
    """Two tickets, sold."""
    return buy(new_type(), 2)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Break the mail server; called again, mend it."""
    real = Mailbox._accept

    def fail(mailbox: Mailbox, message: object) -> None:
        raise RuntimeError("the mail server answers nonsense")

    def toggle() -> None:
        now = fail if Mailbox._accept is real else real
        monkeypatch.setattr(Mailbox, "_accept", now)

    return toggle


def render() -> None:
    """Run the render alone; the email, enqueued by it, waits."""
    with pytest.raises(RuntimeError):
        drain(rounds=1)


def fail_to_the_end() -> None:
    for _ in range(8):
        OutboxRow.objects.update(available_at=timezone.now())
        drain()
    assert OutboxRow.objects.get().dead_at


def address(order: PlacedOrder, action: str = "") -> str:
    if action:
        return reverse(f"admin:orders_order_{action}", args=[order.id])
    return reverse("admin:orders_order_change", args=[order.id])


def plain(markup: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def shown(office: Client, order: PlacedOrder) -> tuple[str, list[str]]:
    """The answer, and the lines of the timeline without their times."""
    page = text(office.get(address(order)))
    answer = page.split('<section class="where')[1].split("</section>")[0]
    story = page.split('id="story"')[1].split("</section>")[0]
    lines = re.findall(r"<div>(.*?)</div>", story, re.DOTALL)
    return plain(answer.split(">", 1)[1]), [plain(line) for line in lines]


def has(lines: list[str], *beginnings: str) -> None:
    """Fail unless these are in the timeline, in this order."""
    at = iter(lines)
    for beginning in beginnings:
        assert any(line.startswith(beginning) for line in at), (beginning, lines)


def test_an_order_that_was_just_placed_is_being_made(office: Client, placed: PlacedOrder) -> None:
    say_alive("worker", "worker-1", "reading")
    say_alive("relay", "relay-1", "relaying")
    answer, lines = shown(office, placed)
    job = OutboxRow.objects.get().pk
    assert f"The tickets are being made: job {job} is due since" in answer
    assert "Nothing to do: it goes on by itself." in answer
    has(
        lines, "placed 2 tickets, €85.00", f"job {job} render_tickets: enqueued",
        f"job {job} render_tickets: due",
    )  # fmt: skip


def test_nothing_is_said_to_go_on_by_itself_while_nobody_is_at_work(
    office: Client, placed: PlacedOrder
) -> None:
    assert "as soon as a relay and a worker is at work" in shown(office, placed)[0]
    say_alive("relay", "relay-1", "relaying")
    answer = shown(office, placed)[0]
    assert "it goes on as soon as a worker is at work, and none is now" in answer
    assert "by itself" not in answer


def test_nothing_on_the_page_is_named_by_a_key_of_the_database(
    office: Client, placed: PlacedOrder
) -> None:
    drain()
    page = plain(text(office.get(address(placed))))
    for name in (f"ticket {placed.code}-1", f"file of order {placed.code}, version 1",
                 f"tickets to the buyer of order {placed.code}"):  # fmt: skip
        assert name in page
    assert f"of order {placed.id}" not in page


def test_an_order_that_is_done_says_where_the_email_went_and_its_provider_id(
    office: Client, placed: PlacedOrder
) -> None:
    drain()
    answer, lines = shown(office, placed)
    sent = Delivery.objects.get()
    assert sent.settled_at is not None
    at = f"{sent.settled_at:%H:%M} UTC"
    assert f"Emailed to buyer@example.org at {at}, and accepted there." in answer
    assert "spam" in answer
    has(lines, "placed", "job 1 render_tickets: done by test".replace("1", _id(lines, "render")))
    has(lines, "file made version 1")
    has(
        lines, "email 1 of the tickets: first try to buyer@example.org",
        f"email 1 of the tickets: sent provider id {sent.provider_id}",
    )  # fmt: skip


def _id(lines: list[str], kind: str) -> str:
    return next(line.split()[1] for line in lines if f" {kind}" in line)


def test_an_email_that_failed_and_waits_says_until_when_and_why(
    office: Client, placed: PlacedOrder, broken: Callable[[], None]
) -> None:
    render()
    broken()
    drain(rounds=2)
    until = timezone.now() + timedelta(minutes=3)
    OutboxRow.objects.update(available_at=until)
    answer, lines = shown(office, placed)
    assert f"will be emailed: job {OutboxRow.objects.get().pk} is tried again at" in answer
    assert f"{until:%H:%M} UTC" in answer
    assert "after 1 failed run: RuntimeError: the mail server answers nonsense" in answer
    has(lines, "email 1 of the tickets: first try", f"job {OutboxRow.objects.get().pk} email_")
    assert any("email_tickets: failed by test" in line for line in lines)
    assert "waiting for retry" in lines[-1]


def test_an_email_that_failed_and_was_sent_shows_both(
    office: Client, placed: PlacedOrder, broken: Callable[[], None]
) -> None:
    render()
    broken()
    drain(rounds=2)
    broken()
    OutboxRow.objects.update(available_at=timezone.now())
    drain()
    answer, lines = shown(office, placed)
    assert "Emailed to buyer@example.org" in answer
    assert any("email_tickets: failed" in line for line in lines)
    assert any("email_tickets: done by test after 1 failed run" in line for line in lines)


def test_a_dead_job_is_named_with_its_reason_and_what_to_do(
    office: Client, placed: PlacedOrder, broken: Callable[[], None]
) -> None:
    render()
    broken()
    fail_to_the_end()
    row = OutboxRow.objects.get()
    answer, lines = shown(office, placed)
    assert f"made, but not emailed: job {row.pk} is dead since" in answer
    assert "failed 8 times" in answer
    assert "replay the job or resend the email" in answer
    assert f"job {row.pk} email_tickets: dead by test" in lines[-1]
    link = reverse("admin:jobs_deadjob_change", args=[row.pk])
    assert text(office.get(address(placed))).count(f'href="{link}"') == 2
    assert office.get(link).status_code == 200
    Group.objects.get(name="box office").permissions.remove(
        Permission.objects.get(codename="view_deadjob")
    )
    page = text(office.get(address(placed)))
    assert link not in page
    assert "Open the dead job" not in page
    assert "Ask somebody who may open dead jobs." in page
    assert f"job {row.pk} email_tickets: dead" in plain(page)


def test_a_dead_render_is_named_too(office: Client, placed: PlacedOrder) -> None:
    OutboxRow.objects.update(dead_at=timezone.now(), dead_reason="worker died 3 times")
    answer, _ = shown(office, placed)
    assert "The tickets are not made: job" in answer
    assert "worker died 3 times" in answer
    assert "replay the job or render again" in answer


def test_a_replay_says_by_whom(
    office: Client, placed: PlacedOrder, broken: Callable[[], None]
) -> None:
    render()
    broken()
    fail_to_the_end()
    row = OutboxRow.objects.get()
    with transaction.atomic():
        OutboxRow.objects.update(dead_at=None, attempts=0, available_at=timezone.now())
        events.note(row.pk, What.REPLAYED, "grace")
    broken()
    drain()
    answer, lines = shown(office, placed)
    assert "Emailed to" in answer
    has(lines, f"job {row.pk} email_tickets: buried by test",
        f"job {row.pk} email_tickets: replayed by grace")  # fmt: skip


def test_a_held_kind_says_until_when_and_why(office: Client, placed: PlacedOrder) -> None:
    render()
    until = timezone.now() + timedelta(minutes=5)
    KindHold.objects.create(kind="email_tickets", until=until, reason="provider down", by="grace")
    answer, _ = shown(office, placed)
    assert f"email_tickets is held by grace until {until:%H:%M} UTC (provider down)" in answer


def test_an_order_without_any_job_left_says_what_to_press(
    office: Client, placed: PlacedOrder
) -> None:
    OutboxRow.objects.all().delete()
    assert "no job is to do it. Render again." in shown(office, placed)[0]


def test_a_refunded_order_says_what_is_owed_and_whether_the_buyer_knows(
    office: Client, placed: PlacedOrder
) -> None:
    drain()
    services.refund(placed.id, "event moved", Actor("grace"))
    answer, lines = shown(office, placed)
    assert "The order was refunded: no ticket of it is valid. €85.00 to pay back." in answer
    assert "The buyer will be told" in answer
    has(lines, "placed", "refund requested by grace €85.00: event moved")
    drain()
    answer, lines = shown(office, placed)
    assert "The buyer was told at" in answer
    has(lines, "refund requested", "email of the refund: first try", "email of the refund: sent")


def test_an_uncertain_email_is_marked(office: Client, placed: PlacedOrder) -> None:
    drain()
    for tries, times in ((1, "once"), (2, "2 times")):
        Delivery.objects.update(state=DeliveryState.UNCERTAIN, settled_at=None, tries=tries)
        _, lines = shown(office, placed)
        has(lines, f"email 1 of the tickets: uncertain given to the provider {times} without")


def test_a_resending_is_told_by_whom_and_what_became_of_it(
    office: Client, placed: PlacedOrder
) -> None:
    drain()
    office.post(address(placed, "resend"), {"seen": "1"})
    answer, _ = shown(office, placed)
    assert "will be emailed again: job" in answer
    drain()
    answer, lines = shown(office, placed)
    assert "Emailed to buyer@example.org" in answer
    has(
        lines, "email 1 of the tickets: sent",
        "staff by boxoffice resent the email, as number 2 (request ",
        "email 2 of the tickets: sent provider id",
    )  # fmt: skip


def test_another_job_of_an_email_that_was_sent_is_no_news(
    office: Client, placed: PlacedOrder
) -> None:
    drain()
    with transaction.atomic():
        enqueue("email_tickets", order_id=placed.id)
    OutboxRow.objects.update(dead_at=timezone.now())
    assert "Emailed to buyer@example.org" in shown(office, placed)[0]


def test_markup_in_what_was_typed_or_raised_stays_text(office: Client, mailbox: MailFolder) -> None:
    order = buy(new_type(name=XSS, event__title=XSS), buyer_name=XSS)
    OutboxRow.objects.update(dead_at=timezone.now(), dead_reason=XSS, dead_by=XSS)
    for page in (office.get(address(order)), office.get(address(order, "refund"))):
        assert "<script>alert" not in text(page)
    services.refund(order.id, XSS, Actor(XSS))
    assert "<script>alert" not in text(office.get(address(order)))


def test_the_looks_of_the_page_do_not_grow_with_its_tickets_and_jobs(
    office: Client, mailbox: MailFolder
) -> None:
    kind = new_type()
    small, large = buy(kind, 1), buy(kind, 8)
    drain()
    for generation in range(1, 5):
        services.resend(large.id, generation, Actor("grace"))
        drain()

    def looks(order: PlacedOrder) -> int:
        office.get(address(order))
        with CaptureQueriesContext(connection) as asked:
            office.get(address(order))
        return len(asked)

    assert looks(large) == looks(small)


# The actions

ACTIONS = {
    "resend": "tickets.resend_tickets",
    "render": "tickets.rerender_order",
    "refund": "orders.refund_order",
}
LABELS = {"resend": "Resend the email", "render": "Render again", "refund": "Refund…"}
FORMS: dict[str, dict[str, Any]] = {
    "resend": {"seen": "1"},
    "render": {},
    "refund": {"reason": "asked for", "seq": ["1", "2"], "seen": "0"},
}


def state() -> list[Any]:
    tables = (Order, OutboxRow, Refund, Delivery, TicketFile, LogEntry)
    return [list(table.objects.order_by("pk").values()) for table in tables]


@pytest.mark.parametrize("action", ACTIONS)
def test_without_the_permission_the_button_is_hidden_and_the_view_refuses(
    client: Client, placed: PlacedOrder, action: str
) -> None:
    drain()
    make_group()
    user = box_office()
    codename = ACTIONS[action].split(".")[1]
    user.groups.get().permissions.remove(Permission.objects.get(codename=codename))
    client.force_login(user)
    page = text(client.get(address(placed)))
    for other, label in LABELS.items():
        assert (label in page) is (other != action)
    before = state()
    assert client.post(address(placed, action), FORMS[action]).status_code == 403
    assert client.get(address(placed, action)).status_code == 403
    assert state() == before


@pytest.mark.parametrize("action", ACTIONS)
def test_who_may_not_or_is_not_logged_in_changes_nothing(placed: PlacedOrder, action: str) -> None:
    drain()
    before = state()
    nobody, staff = Client(), Client()
    staff.force_login(stranger())
    answer: Answer = nobody.post(address(placed, action), FORMS[action])
    assert answer["Location"].startswith("/admin/login/")
    assert staff.post(address(placed, action), FORMS[action]).status_code == 403
    assert state() == before


def test_reading_changes_nothing(office: Client, placed: PlacedOrder) -> None:
    drain()
    before = state()
    assert office.get(address(placed)).status_code == 200
    assert office.get(address(placed, "refund")).status_code == 200
    for action in ("resend", "render"):
        assert office.get(address(placed, action)).status_code == 405
    event = Order.objects.get().event_id
    assert office.get(reverse("admin:orders_order_attendees", args=[event])).status_code == 405
    assert state() == before


@pytest.mark.parametrize("action", ACTIONS)
def test_a_form_without_its_token_is_refused(placed: PlacedOrder, action: str) -> None:
    make_group()
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(box_office())
    before = state()
    assert browser.post(address(placed, action), FORMS[action]).status_code == 403
    assert state() == before


@pytest.mark.parametrize("action", ACTIONS)
def test_an_order_that_is_not_there_is_not_found(office: Client, action: str) -> None:
    assert office.post(f"/admin/orders/order/404/{action}/", FORMS[action]).status_code == 404


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("resend", "resent the email, as number 2"),
        ("render", "rendered again, by job "),
        ("refund", "refunded €85.00: asked for"),
    ],
)
def test_every_action_is_in_the_staff_log_with_who_what_and_the_request(
    office: Client, placed: PlacedOrder, action: str, words: str
) -> None:
    drain()
    answer = office.post(
        address(placed, action), FORMS[action], headers={"X-Request-ID": "press-4711"}
    )
    assert answer["Location"] == address(placed)
    entry = LogEntry.objects.get()
    assert entry.user.get_username() == "boxoffice"
    assert (entry.object_id, entry.object_repr) == (str(placed.id), f"order {placed.code}")
    assert entry.change_message.startswith(words)
    assert entry.change_message.endswith("(request press-4711)")
    assert OutboxRow.objects.get().request_id == "press-4711"


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_whose_line_cannot_be_written_did_not_happen(
    office: Client, placed: PlacedOrder, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drain()

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the web process died")

    monkeypatch.setattr(LogEntry.objects, "log_actions", fail)
    before = state()
    with pytest.raises(RuntimeError, match="died"):
        office.post(address(placed, action), FORMS[action])
    assert state() == before


def press(office: Client, order: PlacedOrder, label: str) -> Answer:
    """Press a button of the page as a browser does, with what its form carries."""
    page = text(office.get(address(order)))
    form = next(form for form in page.split("<form")[1:] if f">{label}</button>" in form)
    action = re.search(r'action="([^"]+)"', form)
    seen = re.search(r'name="seen" value="(\d+)"', form)
    assert action
    assert seen
    return office.post(unescape(action[1]), {"seen": seen[1]}, follow=True)


def test_a_double_click_on_resend_sends_one_email_and_a_new_page_another(
    office: Client, placed: PlacedOrder, mailbox: MailFolder
) -> None:
    drain()
    first, second = (
        office.post(address(placed, "resend"), {"seen": "1"}, follow=True) for _ in range(2)
    )
    assert "will be emailed to buyer@example.org once more" in text(first)
    assert "It was resent already" in text(second)
    drain()
    assert len(mailbox.messages()) == 2
    assert "once more" in text(press(office, placed, "Resend the email"))
    drain()
    assert len(mailbox.messages()) == 3


@pytest.mark.parametrize("seen", ["", "x", "0", "-1", "9" * 30])
def test_a_resend_form_that_was_tampered_with_sends_nothing(
    office: Client, placed: PlacedOrder, seen: str
) -> None:
    drain()
    assert office.post(address(placed, "resend"), {"seen": seen}).status_code == 302
    assert not enqueued("resend_tickets")


def test_what_cannot_be_done_is_said(office: Client, placed: PlacedOrder) -> None:
    page = text(office.get(address(placed)))
    assert LABELS["resend"] not in page
    assert LABELS["render"] in page
    answer = office.post(address(placed, "resend"), {"seen": "1"}, follow=True)
    assert "It has no file yet" in text(answer)
    job = OutboxRow.objects.get().pk
    answer = office.post(address(placed, "render"), follow=True)
    assert f"Job {job} is to render it already" in text(answer)
    Order.objects.update(status=OrderStatus.CANCELLED)
    for action in ("resend", "render"):
        answer = office.post(address(placed, action), FORMS[action], follow=True)
        assert "The order is cancelled" in text(answer)
    assert "nothing to refund" in text(office.get(address(placed, "refund")))
    for label in LABELS.values():
        assert label not in text(office.get(address(placed)))


def test_a_refund_asks_for_the_reason_and_shows_the_amount(
    office: Client, placed: PlacedOrder
) -> None:
    drain()
    page = text(office.get(address(placed, "refund")))
    for part in ("€85.00", placed.code, "Ada Lovelace", "Nachtkonzert", "cannot be undone"):
        assert part in page
    for reason in ("", "   ", "x" * 501):
        answer = office.post(address(placed, "refund"), {**FORMS["refund"], "reason": reason})
        assert (answer.status_code, "errorlist" in text(answer)) == (200, True)
    assert Order.objects.get().is_placed
    form = {**FORMS["refund"], "reason": "event moved"}
    answer = office.post(address(placed, "refund"), form, follow=True)
    assert "€85.00 are to be paid back" in text(answer)
    assert Refund.objects.get().reason == "event moved"
    form = {**FORMS["refund"], "reason": "event moved"}
    answer = office.post(address(placed, "refund"), form, follow=True)
    assert "nothing was changed" in text(answer)
    assert Refund.objects.count() == LogEntry.objects.count() == 1


def test_rendering_again_is_pressed_on_the_page(office: Client, placed: PlacedOrder) -> None:
    drain()
    assert "renders the tickets again" in text(press(office, placed, "Render again"))
    drain()
    assert "Emailed to buyer@example.org" in shown(office, placed)[0]


def paid_out(office: Client, order: PlacedOrder, seen: object) -> str:
    answer = office.post(address(order, "paid_out"), {"seen": seen}, follow=True)
    return text(answer)


def test_a_refund_is_marked_as_paid_out_once_with_who_and_when(
    office: Client, placed: PlacedOrder
) -> None:
    drain()
    assert "as paid out</button>" not in text(office.get(address(placed)))
    services.refund(placed.id, "moved", Actor("grace"))
    drain()
    answer, _ = shown(office, placed)
    assert "€85.00 to pay back. The buyer was told at" in answer
    assert "Pay it back, then mark it as paid out." in answer
    owed = Refund.objects.get()
    assert "is marked as paid out." in text(press(office, placed, "Mark €85.00 as paid out"))
    assert Refund.objects.get().status == "done"
    answer, lines = shown(office, placed)
    assert "€85.00 paid out. The buyer was told at" in answer
    assert "Nothing to do." in answer
    assert "as paid out</button>" not in text(office.get(address(placed)))
    has(lines, "refund requested by grace €85.00: moved",
        "staff by boxoffice marked €85.00 as paid out (request ")  # fmt: skip
    assert "was marked as paid out already" in paid_out(office, placed, owed.pk)
    assert LogEntry.objects.count() == 1


@pytest.mark.parametrize("seen", ["", "x", "0", "-1", "9" * 30, "other"])
def test_a_form_of_another_refund_marks_nothing(
    office: Client, placed: PlacedOrder, seen: str
) -> None:
    other = buy(new_type())
    for order in (placed, other):
        services.refund(order.id, "moved", Actor("grace"))
    paid_out(office, placed, other.id if seen != "other" else Refund.objects.get(order=other.id).pk)
    paid_out(office, placed, seen)
    assert set(Refund.objects.values_list("status", flat=True)) == {"requested"}
    assert not LogEntry.objects.exists()


def test_a_refund_that_the_provider_refuses_is_paid_by_hand(
    office: Client, placed: PlacedOrder
) -> None:
    services.refund(placed.id, "moved", Actor("grace"))
    drain()
    Refund.objects.update(status="failed", failure="card expired", settled_at=timezone.now())
    answer, lines = shown(office, placed)
    assert "€85.00 could not be paid back: card expired. The buyer was told" in answer
    assert "Pay it back by hand, then mark it as paid out." in answer
    has(lines, "refund requested", "refund: not paid back card expired")
    assert "is marked as paid out." in text(press(office, placed, "Mark €85.00 as paid out"))
    assert Refund.objects.get().status == "done"


def test_paying_out_is_for_who_may_refund_and_by_post_alone(
    client: Client, placed: PlacedOrder
) -> None:
    make_group()
    services.refund(placed.id, "moved", Actor("grace"))
    client.force_login(box_office())
    assert client.get(address(placed, "paid_out")).status_code == 405
    Group.objects.get(name="box office").permissions.remove(
        Permission.objects.get(codename="refund_order")
    )
    assert "as paid out</button>" not in text(client.get(address(placed)))
    answer = client.post(address(placed, "paid_out"), {"seen": Refund.objects.get().pk})
    assert answer.status_code == 403
    assert Refund.objects.get().status == "requested"
    assert not LogEntry.objects.exists()


def test_two_people_who_mark_it_at_once_write_one_line(placed: PlacedOrder) -> None:
    services.refund(placed.id, "moved", Actor("grace"))
    refund = Refund.objects.get().pk
    noted: list[str] = []

    def mark(_: int) -> bool:
        try:
            actor = Actor("grace", lambda order, words: noted.append(words))
            return services.paid_out(placed.id, refund, actor)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(mark, range(4))) == 1
    assert noted == ["marked €85.00 as paid out"]


def test_the_box_office_replays_dead_jobs_and_neither_discards_them_nor_pauses_kinds(
    office: Client,
) -> None:
    held = Group.objects.get(name="box office").permissions.filter(content_type__app_label="jobs")
    assert set(held.values_list("codename", flat=True)) == {
        "view_deadjob", "replay", "view_kindhold", "view_sample", "view_scheduledrun",
    }  # fmt: skip
