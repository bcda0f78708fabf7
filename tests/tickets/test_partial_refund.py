"""A part of an order is refunded: just these admissions, each once, at its price as sold."""

import email
import email.policy
import io
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from pypdf import PdfReader
from redis import Redis

from jobs.models import OutboxRow
from jobs.outbox import enqueue
from jobs.testing import drain, enqueued
from orders import admissions
from orders.models import Order, OrderLine, Refund, RefundItem, Stock, TicketType
from orders.services import PlacedOrder, place_order
from tests.books import books_are_in_order
from tests.conftest import Arm, MailFolder
from tests.people import buy, new_event, new_type, wish
from tickets import files, services
from tickets.models import Delivery, Ticket, TicketFile
from tickets.services import Actor, Refused

pytestmark = pytest.mark.django_db(transaction=True)
STAFF = Actor("boxoffice")


def refund(order: PlacedOrder, *seqs: int, **more: Any) -> bool:
    return services.refund(order.id, "cannot come", STAFF, seqs=seqs or None, **more)


def states(order: PlacedOrder) -> dict[int, str]:
    """Of each ticket, by its number."""
    return dict(Ticket.objects.filter(order_id=order.id).values_list("seq", "status"))


def pages(order: PlacedOrder) -> int:
    """Of the file of the order as it is now."""
    file = files.newest_file(Order.objects.get(pk=order.id))
    assert file is not None
    with files.ticket_storage().open(file.name) as stored:
        return len(PdfReader(io.BytesIO(stored.read())).pages)


def told(mailbox: MailFolder) -> list[str]:
    """The plain text of each email about a refund, with its subject before it, in their order."""
    messages = [
        email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
        for path in mailbox.messages()
    ]
    found = [one for one in messages if "refunded" in one["Subject"]]
    texts = [(one, one.get_body(("plain",))) for one in found]
    return [f"{one['Subject']}\n{body.get_content()}" for one, body in texts if body]


@pytest.fixture
def mixed(mailbox: MailFolder) -> PlacedOrder:
    """Two in the stalls at 42.50, two in the gallery at 20.00, in one order: 1, 2, 3, 4."""
    event = new_event()
    stalls = new_type(event=event, name="Stalls")
    gallery = new_type(event=event, name="Gallery", price=2000)
    return buy(stalls, quantities={stalls.pk: 2, gallery.pk: 2})


def taken() -> dict[str, int]:
    return dict(Stock.objects.values_list("ticket_type__name", "taken"))


def test_a_part_is_refunded_at_its_prices_and_the_rest_is_rendered_without_it(
    mixed: PlacedOrder, mailbox: MailFolder, redis: Redis
) -> None:
    drain()
    assert refund(mixed, 2, 3)
    now = Order.objects.get()
    assert (now.status, now.version) == ("placed", 2)
    assert states(mixed) == {1: "valid", 2: "void", 3: "void", 4: "valid"}
    assert taken() == {"Stalls": 1, "Gallery": 1}
    owed = Refund.objects.get()
    assert (owed.number, owed.amount, owed.provider_key) == (1, 6250, f"refund/{mixed.code}/1")
    drain()
    assert pages(mixed) == 2
    assert TicketFile.objects.count() == 2
    [words] = told(mailbox)
    for part in ("Part of your order", "1 x Stalls", "1 x Gallery", "€62.50", "stay valid"):
        assert part in words
    assert Delivery.objects.filter(kind="tickets").count() == 1
    books_are_in_order()


def test_tickets_that_come_after_a_refund_of_a_part_are_those_of_the_rest(
    mixed: PlacedOrder, mailbox: MailFolder, redis: Redis
) -> None:
    assert refund(mixed, 1, 4)
    drain()
    assert states(mixed) == {2: "valid", 3: "valid"}
    of_type = dict(Ticket.objects.values_list("seq", "ticket_type__name"))
    assert of_type == {2: "Stalls", 3: "Gallery"}
    assert pages(mixed) == 2
    books_are_in_order()


def test_the_email_of_the_tickets_names_what_is_left(
    mixed: PlacedOrder, mailbox: MailFolder
) -> None:
    refund(mixed, 1, 2)
    drain()
    words = Delivery.objects.get(kind="tickets").text
    assert "2 x Gallery" in words
    assert "Stalls" not in words
    assert "Total: €40.00" in words


def test_the_last_admission_refunds_the_order_and_each_refund_has_its_own_email(
    mixed: PlacedOrder, mailbox: MailFolder, redis: Redis
) -> None:
    drain()
    assert refund(mixed, 1)
    drain()
    assert refund(mixed)
    now = Order.objects.get()
    assert (now.status, now.version, taken()) == ("refunded", 3, {"Stalls": 0, "Gallery": 0})
    assert list(Refund.objects.order_by("number").values_list("number", "amount")) == [
        (1, 4250),
        (2, 8250),
    ]
    drain()
    assert set(states(mixed).values()) == {"void"}
    part, whole = sorted(told(mailbox))
    assert part.startswith("Part of your order")
    assert whole.startswith("Your order for")
    assert "€82.50" in whole
    keys = set(Delivery.objects.values_list("kind", "generation"))
    assert keys == {("tickets", 1), ("refund", 1), ("refund", 2)}
    books_are_in_order()


def test_two_refunds_before_any_job_are_followed_up_once_each(
    mixed: PlacedOrder, mailbox: MailFolder, redis: Redis
) -> None:
    refund(mixed, 1)
    refund(mixed, 2)
    drain()
    assert len(told(mailbox)) == 2
    assert not refund(mixed, 1)
    with transaction.atomic():
        enqueue("refund_order", order_id=mixed.id)
    drain()
    assert len(told(mailbox)) == 2
    books_are_in_order()


@pytest.mark.parametrize("seqs", [(1,), (1, 3), (5,), (0,), (4, 5), (-1,)])
def test_what_is_refunded_already_or_never_was_sold_changes_nothing(
    mixed: PlacedOrder, seqs: tuple[int, ...], redis: Redis
) -> None:
    refund(mixed, 1)
    before = (taken(), Order.objects.values().get(), OutboxRow.objects.count())
    assert not refund(mixed, *seqs)
    assert (taken(), Order.objects.values().get(), OutboxRow.objects.count()) == before
    assert Refund.objects.count() == 1


def test_no_admission_at_all_is_no_refund(mixed: PlacedOrder) -> None:
    assert not services.refund(mixed.id, "", STAFF, seqs=())
    assert not Refund.objects.exists()


def test_a_form_that_knew_of_fewer_refunds_changes_nothing(mixed: PlacedOrder) -> None:
    assert refund(mixed, 1, seen=0)
    assert not refund(mixed, 2, seen=0)
    assert refund(mixed, 2, seen=1)


def test_eight_people_who_refund_the_same_ticket_at_once_refund_it_once(
    mixed: PlacedOrder, redis: Redis
) -> None:
    start = threading.Barrier(8)

    def press(turn: int) -> bool:
        try:
            start.wait(10)
            return refund(mixed, 2, *([3] if turn % 2 else []))
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(press, range(8))) == 1
    assert RefundItem.objects.filter(seq=2).count() == 1
    books_are_in_order()


def test_four_people_who_refund_one_ticket_each_refund_the_order(
    mixed: PlacedOrder, redis: Redis
) -> None:
    drain()
    start = threading.Barrier(4)

    def press(seq: int) -> bool:
        try:
            start.wait(10)
            return refund(mixed, seq)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(press, (1, 2, 3, 4)))
    now = Order.objects.get()
    assert (now.status, now.version) == ("refunded", 5)
    assert sum(Refund.objects.values_list("amount", flat=True)) == now.total
    drain()
    books_are_in_order()


def test_the_database_itself_refuses_a_second_live_refund_of_an_admission(
    mixed: PlacedOrder,
) -> None:
    refund(mixed, 1)
    first = RefundItem.objects.get()
    with pytest.raises(IntegrityError, match="refund_item_once"):
        RefundItem.objects.create(refund=first.refund, order_id=mixed.id, seq=1)


def test_the_price_is_that_of_the_day_of_the_sale(mixed: PlacedOrder) -> None:
    TicketType.objects.update(price=1)
    refund(mixed, 1, 3)
    assert Refund.objects.get().amount == 6250


def test_admissions_are_numbered_as_the_tickets_are(mixed: PlacedOrder, redis: Redis) -> None:
    drain()
    order = Order.objects.get()
    sold = {one.seq: one.line.ticket_type_id for one in admissions.sold(order)}
    assert sold == dict(Ticket.objects.values_list("seq", "ticket_type_id"))
    assert OrderLine.objects.count() == 2


def test_a_ticket_that_was_used_is_refunded_by_staff_alone(
    mixed: PlacedOrder, mailbox: MailFolder
) -> None:
    drain()
    Ticket.objects.filter(seq=2).update(used_at=timezone.now())
    with pytest.raises(Refused, match="went in with ticket 2"):
        refund(mixed, 1, 2, used=False)
    assert not Refund.objects.exists()
    assert taken() == {"Stalls": 2, "Gallery": 2}
    assert refund(mixed, 1, used=False)
    assert refund(mixed, 2)


def test_a_refund_by_a_buyer_waits_for_the_door_and_sees_who_went_in(
    mixed: PlacedOrder, mailbox: MailFolder
) -> None:
    drain()
    scanned, found = threading.Event(), []

    def press() -> None:
        try:
            scanned.wait(10)
            refund(mixed, 1, used=False)
        except Refused as refusal:
            found.append(str(refusal))
        finally:
            connection.close()

    thread = threading.Thread(target=press)
    thread.start()
    with transaction.atomic():
        Ticket.objects.filter(seq=1).update(used_at=timezone.now())
        scanned.set()
        thread.join(0.3)
        assert thread.is_alive()
    thread.join(10)
    assert len(found) == 1
    assert not Refund.objects.exists()


def test_a_part_refunded_while_its_order_is_rendered_leaves_no_page_of_it(
    mixed: PlacedOrder, at_failpoint: Arm, mailbox: MailFolder, redis: Redis
) -> None:
    done: list[bool] = []

    def press(place: str) -> None:
        if place == "runner.before_effects/render_tickets" and not done:
            done.append(refund(mixed, 1))

    at_failpoint(press)
    drain()
    assert done == [True]
    assert states(mixed) == {2: "valid", 3: "valid", 4: "valid"}
    assert pages(mixed) == 3
    books_are_in_order()


def test_an_order_refunded_to_the_last_while_it_is_read_for_a_render_renders_nothing(
    mixed: PlacedOrder, mailbox: MailFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = admissions.left

    def left(order: Order) -> list[admissions.Admission]:
        if not Refund.objects.exists():
            monkeypatch.setattr(admissions, "left", real)
            refund(mixed)
        return real(order)

    monkeypatch.setattr(admissions, "left", left)
    drain()
    assert not Ticket.objects.exists()
    assert not OutboxRow.objects.exists()


def test_places_of_a_part_are_sold_again(redis: Redis) -> None:
    kind = new_type(capacity=2)
    order = buy(kind, 2)
    refund(order, 1)
    buy(kind, 1)
    assert Stock.objects.get().taken == 2
    books_are_in_order()


def test_refunds_of_parts_and_orders_at_once_leave_the_stock_of_each_type_right(
    redis: Redis,
) -> None:
    event = new_event()
    kinds = [new_type(event=event) for _ in range(3)]
    orders = [
        place_order(wish(kinds[0], quantities={kind.pk: 2 for kind in reversed(kinds)}))
        for _ in range(6)
    ]
    start = threading.Barrier(18)

    def one(turn: int) -> None:
        try:
            start.wait(10)
            if turn % 3 == 0:
                place_order(wish(kinds[0], quantities={kind.pk: 2 for kind in kinds}))
            else:
                assert refund(orders[turn // 3], *([1, 3] if turn % 3 == 1 else [6, 4, 2]))
        finally:
            connection.close()

    with ThreadPoolExecutor(18) as pool:
        list(pool.map(one, range(18)))
    assert sum(Stock.objects.values_list("taken", flat=True)) == 6 * 6 + 6 * 6 - 6 * 5
    books_are_in_order()


def test_a_refund_of_a_part_enqueues_its_job_and_a_render(mixed: PlacedOrder) -> None:
    drain()
    refund(mixed, 1)
    assert enqueued("refund_order") == enqueued("render_tickets") == [{"order_id": mixed.id}]
    drain()
    assert not OutboxRow.objects.exists()
