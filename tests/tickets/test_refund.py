"""A refund: once, in one commit, whatever else is under way with the order."""

import contextlib
import email
import email.policy
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from redis import Redis

from jobs import failpoint
from jobs.models import OutboxRow, ProcessedJob
from jobs.outbox import enqueue
from jobs.testing import drain, enqueued
from orders.models import Order, OrderStatus, Refund, RefundItem, Stock
from orders.services import PlacedOrder, place_order
from tests.books import books_are_in_order
from tests.conftest import Arm, MailFolder
from tests.people import buy, new_event, new_type, wish
from tests.processes import SHIPPED
from tickets import rendering, services
from tickets.models import Delivery, Ticket, TicketStatus
from tickets.services import Actor

pytestmark = pytest.mark.django_db(transaction=True)

STAFF = Actor("boxoffice")


def refund(order: PlacedOrder) -> bool:
    return services.refund(order.id, "event moved", STAFF)


def taken() -> int:
    return sum(Stock.objects.values_list("taken", flat=True))


def test_a_refund_says_what_is_owed_voids_gives_back_and_enqueues_in_one_commit(
    mailbox: MailFolder,
) -> None:
    order = buy(new_type(), 3)
    drain()
    assert refund(order)
    now = Order.objects.get()
    assert (now.status, now.version, taken()) == ("refunded", 2, 0)
    owed = Refund.objects.get()
    assert (owed.amount, owed.status, owed.reason) == (12750, "requested", "event moved")
    assert owed.actor == "boxoffice"
    assert list(RefundItem.objects.values_list("order_id", "seq", "live")) == [
        (order.id, 1, True),
        (order.id, 2, True),
        (order.id, 3, True),
    ]
    assert set(Ticket.objects.values_list("status", flat=True)) == {"void"}
    assert enqueued("refund_order") == [{"order_id": order.id}]


def test_the_buyer_of_a_refunded_order_is_told_once(redis: Redis, mailbox: MailFolder) -> None:
    order = buy(new_type(name="Parkett"), 2)
    drain()
    refund(order)
    drain()
    told = Delivery.objects.get(kind="refund")
    assert (told.state, told.generation, told.file, told.calendar) == ("sent", 1, None, "")
    path = mailbox.messages()[0]
    for path in mailbox.messages():
        message = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
        if "refunded" in message["Subject"]:
            break
    words = {part.get_content_type(): str(part.get_content()) for part in message.walk()
             if not part.is_multipart()}  # fmt: skip
    assert set(words) == {"text/plain", "text/html"}
    for text in words.values():
        for shown in ("€85.00", order.code, "2 ", "Parkett", f"/o/{order.secret}/"):
            assert shown in text
    with transaction.atomic():
        enqueue("refund_order", order_id=order.id)
    drain()
    assert len(mailbox.messages()) == 2
    assert ProcessedJob.objects.order_by("-pk")[0].result == "nothing to do"
    books_are_in_order()


def test_a_second_press_changes_nothing_and_says_so(mailbox: MailFolder) -> None:
    kind = new_type()
    order, other = buy(kind, 2), buy(kind, 1)
    assert refund(order)
    assert not refund(order)
    assert (Refund.objects.count(), len(enqueued("refund_order")), taken()) == (1, 1, 1)
    assert Order.objects.get(pk=order.id).version == 2
    assert Order.objects.get(pk=other.id).is_placed


def test_a_cancelled_order_is_not_refunded() -> None:
    order = buy(new_type())
    Order.objects.update(status=OrderStatus.CANCELLED)
    assert not refund(order)
    assert not Refund.objects.exists()
    assert taken() == 1


def test_eight_presses_at_once_are_one_refund(redis: Redis) -> None:
    kind = new_type()
    order, _ = buy(kind, 4), buy(kind, 1)
    start = threading.Barrier(8)

    def press(_: int) -> bool:
        try:
            start.wait(10)
            return refund(order)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(press, range(8))) == 1
    assert (Refund.objects.count(), RefundItem.objects.count(), taken()) == (1, 4, 1)
    books_are_in_order()


def test_refunds_and_orders_of_several_types_at_once_do_not_block_each_other(redis: Redis) -> None:
    event = new_event()
    kinds = [new_type(event=event) for _ in range(3)]
    # Refunds whose lines were written in another order than the types' own.
    orders = [
        place_order(wish(kinds[0], quantities={kind.pk: 1 for kind in reversed(kinds)}))
        for _ in range(12)
    ]
    start = threading.Barrier(24)

    def one(turn: int) -> None:
        try:
            start.wait(10)
            if turn % 2:
                assert refund(orders[turn // 2])
            else:
                place_order(wish(kinds[0], quantities={kind.pk: 1 for kind in kinds}))
        finally:
            connection.close()

    with ThreadPoolExecutor(24) as pool:
        list(pool.map(one, range(24)))
    assert set(Stock.objects.values_list("taken", flat=True)) == {12}
    books_are_in_order()


def test_a_refund_that_cannot_be_written_gives_nothing_back(monkeypatch: Any) -> None:
    order = buy(new_type(), 2)

    def fail(_: Order, words: str) -> None:
        raise RuntimeError(words)

    with pytest.raises(RuntimeError, match=r"refunded €85\.00: event moved"):
        services.refund(order.id, "event moved", Actor("boxoffice", fail))
    assert Order.objects.get().is_placed
    assert taken() == 2
    assert not Refund.objects.exists()
    assert not enqueued("refund_order")


def test_places_that_were_given_back_are_sold_again(redis: Redis) -> None:
    kind = new_type(capacity=2)
    refund(buy(kind, 2))
    buy(kind, 2)
    assert taken() == 2
    books_are_in_order()


def test_a_ticket_that_is_valid_all_the_same_is_voided_by_the_job(mailbox: MailFolder) -> None:
    order = buy(new_type())
    drain()
    refund(order)
    Ticket.objects.update(status=TicketStatus.VALID)
    drain()
    assert Ticket.objects.get().status == "void"


def test_the_job_of_a_refund_does_nothing_to_an_order_that_is_placed(mailbox: MailFolder) -> None:
    order = buy(new_type())
    drain()
    with transaction.atomic():
        enqueue("refund_order", order_id=order.id)
    drain()
    assert Ticket.objects.get().status == "valid"
    assert len(mailbox.messages()) == 1


def test_a_render_that_met_another_version_of_its_order_enqueues_the_next(
    redis: Redis, at_failpoint: Arm, mailbox: MailFolder
) -> None:
    order = buy(new_type())
    changed: list[str] = []

    def change(place: str) -> None:
        if place == "runner.before_effects/render_tickets" and not changed:
            changed.append(place)
            Order.objects.filter(pk=order.id).update(version=F("version") + 1)

    at_failpoint(change)
    drain()
    assert Ticket.objects.get().status == "valid"
    assert ProcessedJob.objects.filter(kind="render_tickets").count() == 2
    assert len(mailbox.messages()) == 1
    books_are_in_order()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that cost no time."""
    blank = rendering.Rendered(pdf=b"%PDF", missing=())
    monkeypatch.setattr(rendering, "render_pdf", lambda html: blank)


ALONE = [
    f"runner.{place}/{kind}"
    for kind in ("render_tickets", "email_tickets", "resend_tickets", "refund_order")
    for place in ("before_effects", "committed")
]
INSIDE = [
    f"runner.{place}/{kind}"
    for kind in ("render_tickets", "email_tickets", "resend_tickets")
    for place in ("moved", "before_commit")
]
"""The job's transaction is open: the press comes from elsewhere, and may have to wait for it."""


class Presses:
    """Staff that refunds `order` at each of these places, and resends or renders at others."""

    def __init__(self, order: PlacedOrder, refunds: set[str], others: set[str]) -> None:
        self.order = order
        self.refunds = refunds
        self.others = others
        self.done: list[bool] = []
        self.valid_all_the_same: set[str] = set()
        self.threads: list[threading.Thread] = []

    def at(self, place: str) -> None:
        self._press(place)
        # The job of the refund would void it: by then the door may have let somebody in.
        valid = Ticket.objects.filter(order_id=self.order.id, status=TicketStatus.VALID)
        if place in ALONE and valid.exclude(order__status=OrderStatus.PLACED).exists():
            self.valid_all_the_same.add(place)

    def _press(self, place: str) -> None:
        if place in self.others and place in ALONE:
            self.others.discard(place)
            with contextlib.suppress(services.Refused):
                services.resend(self.order.id, 1, STAFF)
            with contextlib.suppress(services.Refused):
                services.render_again(self.order.id, STAFF)
        if place in self.refunds:
            self.refunds.discard(place)
            self._refund_elsewhere() if place in INSIDE else self._refund()

    def _refund(self) -> None:
        self.done.append(refund(self.order))

    def _refund_elsewhere(self) -> None:
        thread = threading.Thread(target=self._in_thread)
        thread.start()
        thread.join(0.05)
        self.threads.append(thread)

    def _in_thread(self) -> None:
        try:
            self._refund()
        finally:
            connection.close()

    def finish(self) -> None:
        for thread in self.threads:
            thread.join(10)


@contextlib.contextmanager
def armed(presses: Presses) -> Iterator[None]:
    failpoint.arm(presses.at)
    try:
        yield
    finally:
        failpoint.arm(None)
        presses.finish()


@hypothesis_settings(
    max_examples=1000 if SHIPPED else 50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    refunds=st.sets(st.sampled_from(ALONE + INSIDE), max_size=3),
    others=st.sets(st.sampled_from(ALONE), max_size=3),
    before=st.booleans(),
    number=st.integers(1, 3),
)
def test_whenever_a_refund_comes_no_ticket_of_it_is_valid_and_its_places_come_back_once(
    refunds: set[str],
    others: set[str],
    before: bool,
    number: int,
    redis: Redis,
    mailbox: MailFolder,
    quick: None,
) -> None:
    order = buy(new_type(), number)
    presses = Presses(order, set(refunds), set(others))
    if before:
        presses._refund()
    with armed(presses):
        drain()
    drain()
    now = Order.objects.get(pk=order.id)
    tickets = Ticket.objects.filter(order=now, status=TicketStatus.VALID).count()
    stock = Stock.objects.get(ticket_type__orderline__order=now)
    told = Delivery.objects.filter(order=now, kind="refund", state="sent").count()
    assert sum(presses.done) == (1 if presses.done else 0)
    assert not presses.valid_all_the_same
    if presses.done:
        assert (now.status, tickets, stock.taken, told) == ("refunded", 0, 0, 1)
    else:
        assert (now.status, tickets, stock.taken, told) == ("placed", number, number, 0)
    assert Delivery.objects.filter(order=now, kind="tickets").count() <= 2
    assert not OutboxRow.objects.exists()


def test_the_books_are_in_order_after_a_refund_that_met_a_render(
    redis: Redis, mailbox: MailFolder, quick: None
) -> None:
    for place in (*ALONE, *INSIDE):
        presses = Presses(buy(new_type(), 2), {place}, set())
        with armed(presses):
            drain()
        drain()
    books_are_in_order()
