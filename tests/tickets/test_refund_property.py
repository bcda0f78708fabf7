"""A refund and a placement, whichever of the two the workers finish first: on the handlers."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from redis import Redis

from jobs import failpoint
from jobs.models import OutboxRow
from jobs.testing import drain
from orders.models import Order, Refund, RefundItem, Stock
from orders.services import PlacedOrder
from tests.books import books_are_in_order
from tests.conftest import MailFolder
from tests.people import buy, new_event, new_type
from tests.processes import SHIPPED
from tickets import files, rendering, services
from tickets.models import Delivery, Ticket
from tickets.services import Actor

pytestmark = pytest.mark.django_db(transaction=True)
STAFF = Actor("boxoffice")
EXAMPLES = 10_000 if SHIPPED else 80
KINDS = ("render_tickets", "email_tickets", "refund_order", "email_refund", "pay_refund")
ALONE = [f"runner.{where}/{kind}" for kind in KINDS for where in ("before_effects", "committed")]
INSIDE = [
    f"runner.{where}/{kind}"
    for kind in ("render_tickets", "email_tickets", "refund_order")
    for where in ("moved", "before_commit")
]
"""The job's transaction is open: the press comes from elsewhere, and may have to wait for it."""
START = "start"
"""Before any job."""
NUMBER = 4
"""Tickets of the order: two of each of two types, at 42.50 and 20.00."""
PRICES = {1: 4250, 2: 4250, 3: 2000, 4: 2000}

type Press = frozenset[int] | None
"""The admissions that somebody refunds; None: all that is left."""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that cost no time."""
    monkeypatch.setattr(rendering, "render_pdf", lambda html: blank(html))


def blank(html: str) -> rendering.Rendered:
    """A file that says only how many pages it has."""
    return rendering.Rendered(pdf=f"%PDF {html.count('<section>')}".encode(), missing=())


class Presses:
    """People who refund parts of `order` at these places, each once."""

    def __init__(self, order: PlacedOrder, wanted: dict[str, Press]) -> None:
        self.order = order
        self.wanted = dict(wanted)
        self.refunded: set[int] = set()
        self.done = 0
        self.valid_all_the_same: set[str] = set()
        self.threads: list[threading.Thread] = []

    def at(self, place: str) -> None:
        if place in self.wanted:
            seqs = self.wanted.pop(place)
            self._elsewhere(seqs) if place in INSIDE else self.press(seqs)
        # The job of the refund would void it: by then the door may have let somebody in.
        valid = Ticket.objects.filter(order_id=self.order.id, status="valid")
        if place in ALONE and valid.filter(seq__in=items(self.order)).exists():
            self.valid_all_the_same.add(place)

    def press(self, seqs: Press) -> None:
        if services.refund(self.order.id, "cannot come", STAFF, seqs=seqs):
            self.done += 1

    def _elsewhere(self, seqs: Press) -> None:
        thread = threading.Thread(target=self._in_thread, args=[seqs])
        thread.start()
        thread.join(0.03)
        self.threads.append(thread)

    def _in_thread(self, seqs: Press) -> None:
        try:
            self.press(seqs)
        finally:
            connection.close()

    @contextlib.contextmanager
    def armed(self) -> Iterator[None]:
        failpoint.arm(self.at)
        try:
            yield
        finally:
            failpoint.arm(None)
            for thread in self.threads:
                thread.join(10)


def items(order: PlacedOrder) -> list[int]:
    found = RefundItem.objects.filter(order_id=order.id).order_by("seq")
    return list(found.values_list("seq", flat=True))


def sell() -> PlacedOrder:
    event = new_event()
    stalls, gallery = new_type(event=event), new_type(event=event, price=2000)
    return buy(stalls, quantities={stalls.pk: 2, gallery.pk: 2})


def pages(order: Order) -> int:
    file = files.newest_file(order)
    assert file is not None
    with files.ticket_storage().open(file.name) as stored:
        return int(stored.read().split()[1])


def check(order: PlacedOrder, presses: Presses) -> None:
    """The state to which all of it must have led, in whatever order it came."""
    now = Order.objects.get(pk=order.id)
    gone = items(order)
    left = sorted(set(PRICES) - set(gone))
    assert len(gone) == len(set(gone))
    assert now.status == ("placed" if left else "refunded")
    assert not presses.valid_all_the_same
    tickets = Ticket.objects.filter(order=now, status="valid")
    assert sorted(tickets.values_list("seq", flat=True)) == left
    stock = Stock.objects.filter(ticket_type__orderline__order=now).order_by("ticket_type_id")
    held = [sum(seq in left for seq in seqs) for seqs in ((1, 2), (3, 4))]
    assert list(stock.values_list("taken", flat=True)) == held
    refunds = Refund.objects.filter(order=now).order_by("number")
    assert [one.number for one in refunds] == list(range(1, presses.done + 1))
    assert sum(one.amount for one in refunds) == sum(PRICES[seq] for seq in gone)
    told = Delivery.objects.filter(order=now, kind="refund", state="sent")
    assert sorted(told.values_list("generation", flat=True)) == [one.number for one in refunds]
    assert now.version == 1 + presses.done
    if left:
        assert pages(now) == len(left)
    assert not OutboxRow.objects.exists()


CHOICES = st.none() | st.frozensets(st.integers(1, NUMBER), min_size=1)


@hypothesis_settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    wanted=st.dictionaries(st.sampled_from([START, *ALONE, *INSIDE]), CHOICES, max_size=3),
    late=st.none() | st.frozensets(st.integers(1, NUMBER), min_size=1, max_size=2),
)
def test_whatever_is_refunded_whenever_its_tickets_are_void_and_all_others_valid(
    wanted: dict[str, Press], late: Press, redis: Redis, mailbox: MailFolder, quick: None
) -> None:
    order = sell()
    presses = Presses(order, wanted)
    if START in presses.wanted:
        presses.press(presses.wanted.pop(START))
    with presses.armed():
        drain()
    drain()
    check(order, presses)
    if late is not None:
        presses.press(late)
        drain()
        check(order, presses)


PLACES = [START, *ALONE, *INSIDE]


@pytest.mark.parametrize("seqs", [None, frozenset({2, 3})], ids=["all", "some"])
def test_the_books_are_in_order_wherever_a_refund_came(
    seqs: Press, redis: Redis, mailbox: MailFolder, quick: None
) -> None:
    for place in PLACES:
        order = sell()
        presses = Presses(order, {place: seqs})
        if place == START:
            presses.press(seqs)
        with presses.armed():
            drain()
        drain()
        check(order, presses)
    books_are_in_order()


def test_a_render_that_ends_after_a_refund_has_ended_leaves_nothing(
    redis: Redis, mailbox: MailFolder, monkeypatch: Any
) -> None:
    """A whole refund, its job and its email, while one file is rendered."""
    order = sell()
    refunded: list[bool] = []

    def slowly(html: str) -> rendering.Rendered:
        if not refunded:
            refunded.append(True)
            services.refund(order.id, "cannot come", STAFF)
            drain()
            assert Delivery.objects.filter(kind="refund", state="sent").exists()
        return blank(html)

    monkeypatch.setattr(rendering, "render_pdf", slowly)
    drain()
    drain()
    assert not Ticket.objects.exists()
    assert not OutboxRow.objects.exists()
    books_are_in_order()
