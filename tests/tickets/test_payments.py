"""Money goes back once for each refund, whatever is cut, and what is refused is seen."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection, transaction
from django.db.models import F
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from redis import Redis

from jobs.models import OutboxRow, ProcessedJob
from jobs.outbox import enqueue
from jobs.prognosis import Effect
from jobs.registry import kind_named
from jobs.testing import drain
from orders.box_office import make_group
from orders.models import Order, Refund
from orders.payments import PaymentRefused
from orders.services import PlacedOrder
from tests import payments
from tests.books import books_are_in_order
from tests.conftest import Arm, MailFolder
from tests.payments import AWAY, REFUSED, Ledger
from tests.people import box_office, buy, new_type
from tests.web import text
from tickets import services
from tickets.models import Delivery
from tickets.paying import RefundArgs
from tickets.services import Actor, Refused

pytestmark = pytest.mark.django_db(transaction=True)
STAFF = Actor("boxoffice")


@pytest.fixture
def ledger(settings: Any) -> Iterator[Ledger]:
    """Refunds are paid by the tests' provider."""
    settings.PAYMENTS = "tests.payments.Provider"
    yield payments.reset()
    payments.reset()


@pytest.fixture
def order(mailbox: MailFolder) -> PlacedOrder:
    """Two tickets, made and emailed."""
    placed = buy(new_type(), 2)
    drain()
    return placed


def due_again() -> None:
    OutboxRow.objects.live().update(available_at=timezone.now(), relayed_at=None, entry_id=None)


def state() -> tuple[str, str, str]:
    refund = Refund.objects.get()
    return refund.status, refund.provider_id, refund.failure


def refund(order: PlacedOrder, *seqs: int) -> None:
    assert services.refund(order.id, "cannot come", STAFF, seqs=seqs or None)


def answered(client: Client, order: PlacedOrder) -> str:
    """The page of the order, for the box office."""
    if "sessionid" not in client.cookies:
        make_group()
        client.force_login(box_office())
    return text(client.get(reverse("admin:orders_order_change", args=[order.id])))


def test_recorded_moves_nothing_and_leaves_it_to_be_paid_by_hand(
    order: PlacedOrder, redis: Redis
) -> None:
    refund(order)
    drain()
    assert state() == ("requested", "", "")
    assert Refund.objects.get().tried_at is None
    assert ProcessedJob.objects.get(kind="pay_refund").result == "nothing to do"
    assert services.paid_out(order.id, Refund.objects.get().pk, STAFF)
    assert Refund.objects.get().settled_at is not None
    books_are_in_order()


def test_a_provider_pays_each_refund_under_its_own_key(
    order: PlacedOrder, ledger: Ledger, redis: Redis
) -> None:
    refund(order, 1)
    drain()
    refund(order)
    drain()
    keys = [f"refund/{order.code}/{number}" for number in (1, 2)]
    assert ledger.paid == dict.fromkeys(keys, (4250, "EUR"))
    assert ledger.calls == keys
    assert set(Refund.objects.values_list("status", flat=True)) == {"done"}
    books_are_in_order()


def test_tickets_that_cost_nothing_are_taken_back_and_nobody_is_asked_to_pay(
    mailbox: MailFolder, ledger: Ledger, client: Client, redis: Redis
) -> None:
    order = buy(new_type(price=0), 2)
    drain()
    refund(order)
    drain()
    assert state() == ("done", "", "")
    assert not ledger.calls
    assert Order.objects.get().is_refunded
    page = answered(client, order)
    assert "Nothing is to be paid back." in page
    assert "as paid out" not in page
    [told] = Delivery.objects.filter(kind="refund")
    assert "pay back" not in told.text + told.html
    books_are_in_order()


def test_a_second_job_pays_nothing(order: PlacedOrder, ledger: Ledger) -> None:
    refund(order)
    drain()
    with transaction.atomic():
        enqueue("pay_refund", order_id=order.id, number=1)
    drain()
    assert len(ledger.calls) == 1
    assert ProcessedJob.objects.latest("outbox_id").result == "nothing to do"


@pytest.mark.parametrize("after", [False, True])
def test_a_provider_that_is_away_is_asked_again_and_has_paid_once(
    order: PlacedOrder, ledger: Ledger, after: bool, redis: Redis
) -> None:
    ledger.failures, ledger.after = [AWAY, AWAY], after
    refund(order)
    drain()
    row = OutboxRow.objects.get()
    assert (row.kind, row.attempts) == ("pay_refund", 0)
    assert "does not serve: timed out" in row.last_error
    assert state() == ("requested", "", "")
    for _ in range(2):
        due_again()
        drain()
    assert len(ledger.calls) == 3
    assert list(ledger.paid.values()) == [(8500, "EUR")]
    assert state() == ("done", f"re_refund/{order.code}/1", "")
    books_are_in_order()


def test_a_worker_that_dies_after_the_provider_has_paid_pays_nothing_more(
    order: PlacedOrder, ledger: Ledger, at_failpoint: Arm, redis: Redis
) -> None:
    cut: list[str] = []

    def die(place: str) -> None:
        if place == "runner.before_commit/pay_refund" and not cut:
            cut.append(place)
            raise ConnectionError("cut")

    at_failpoint(die)
    refund(order)
    drain()
    assert state()[0] == "requested"
    due_again()
    drain()
    assert cut
    assert len(ledger.calls) == 2
    assert len(ledger.paid) == 1
    assert state()[0] == "done"
    books_are_in_order()


def test_what_the_provider_refuses_is_seen_and_paid_by_hand(
    order: PlacedOrder, ledger: Ledger, client: Client, redis: Redis
) -> None:
    ledger.failures = [REFUSED]
    refund(order)
    drain()
    assert state() == ("failed", "", "the card has expired")
    page = answered(client, order)
    assert "€85.00 could not be paid back: the card has expired." in page
    assert "refund: not paid back" in page
    assert "Pay it back by hand, then mark it as paid out." in page
    assert not OutboxRow.objects.exists()
    assert services.paid_out(order.id, Refund.objects.get().pk, STAFF)
    assert Refund.objects.get().status == "done"
    books_are_in_order()


def test_a_refused_admission_is_not_refunded_again(order: PlacedOrder, ledger: Ledger) -> None:
    ledger.failures = [PaymentRefused("x" * 500)]
    refund(order, 1)
    drain()
    assert len(state()[2]) == 200
    assert not services.refund(order.id, "again", STAFF, seqs=[1])
    refund(order)
    assert Order.objects.get().is_refunded


def test_nobody_marks_as_paid_what_a_job_has_asked_the_provider_for(
    order: PlacedOrder, ledger: Ledger, client: Client
) -> None:
    ledger.failures, ledger.after = [AWAY], True
    refund(order)
    drain()
    [row] = OutboxRow.objects.all()
    with pytest.raises(Refused, match=f"Job {row.pk} has asked the payment provider"):
        services.paid_out(order.id, Refund.objects.get().pk, STAFF)
    assert "asked of the payment provider since" in answered(client, order)
    OutboxRow.objects.update(dead_at=timezone.now())
    assert "The payment is not made: job" in answered(client, order)
    assert services.paid_out(order.id, Refund.objects.get().pk, STAFF)
    assert LogEntry.objects.count() == 0


def test_what_was_marked_as_paid_by_hand_is_not_paid_by_the_job(
    order: PlacedOrder, ledger: Ledger, redis: Redis
) -> None:
    refund(order)
    assert services.paid_out(order.id, Refund.objects.get().pk, STAFF)
    drain()
    assert not ledger.calls
    books_are_in_order()


def test_one_of_a_person_and_a_job_pays(
    order: PlacedOrder, ledger: Ledger, at_failpoint: Arm
) -> None:
    """The person presses while the job is about to ask."""
    pressed: list[bool] = []

    def press() -> None:
        try:
            pressed.append(services.paid_out(order.id, Refund.objects.get().pk, STAFF))
        finally:
            connection.close()

    def at(place: str) -> None:
        if place == "runner.committed/refund_order":
            thread = threading.Thread(target=press)
            thread.start()
            thread.join(10)

    at_failpoint(at)
    refund(order)
    drain()
    assert pressed == [True]
    assert not ledger.calls


def test_a_replay_of_a_payment_is_foreseen(order: PlacedOrder, ledger: Ledger) -> None:
    foresee = kind_named("pay_refund").foresee
    assert foresee is not None
    refund(order)
    asked = [RefundArgs(order.id, 1), RefundArgs(order.id, 2), RefundArgs(404, 1)]
    assert [one.effect for one in foresee(asked)] == [
        Effect.SAFE, Effect.IMPOSSIBLE, Effect.IMPOSSIBLE,
    ]  # fmt: skip
    Refund.objects.update(tried_at=F("requested_at"))
    assert "under this key" in foresee(asked)[0].text
    for status, words in (("done", "paid out"), ("failed", "refused")):
        Refund.objects.update(status=status)
        assert foresee(asked)[0].effect is Effect.NOTHING
        assert words in foresee(asked)[0].text


def test_a_payment_of_no_refund_is_dead_at_once(order: PlacedOrder, ledger: Ledger) -> None:
    with transaction.atomic():
        enqueue("pay_refund", order_id=order.id, number=1)
        enqueue("email_refund", order_id=order.id, number=-1)
    drain()
    dead = OutboxRow.objects.dead().values_list("dead_reason", flat=True)
    assert len(dead) == 2
    assert all("the order has no refund" in reason for reason in dead)
    assert not ledger.calls
