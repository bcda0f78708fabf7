"""Placing orders: never more than there are places, once per click, all or nothing."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from jobs.models import OutboxRow
from orders import services
from orders.models import Event, EventStatus, Order, OrderLine, Stock, TicketType
from orders.services import KeyReused, NotOnSale, PlacedOrder, SoldOut, Wish, place_order
from tests.people import EventFactory, TicketTypeFactory, buy, wish

pytestmark = pytest.mark.django_db(transaction=True)


def nothing_written() -> bool:
    return not (Order.objects.exists() or OrderLine.objects.exists() or OutboxRow.objects.exists())


def at_once[T](number: int, action: Callable[[int], T], threads: int = 24) -> list[T | Exception]:
    """Run `action` so many times in threads that start together; each closes its connection."""
    together = Barrier(threads)

    def run(turn: int) -> T | Exception:
        if turn < threads:
            together.wait(20)
        try:
            return action(turn)
        except Exception as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(number)))


def test_two_hundred_buyers_get_exactly_the_hundred_and_fifty_places_there_are() -> None:
    kind = TicketTypeFactory(capacity=150)
    answers = at_once(200, lambda turn: place_order(wish(kind, email=f"b{turn}@example.org")))
    sold = [answer for answer in answers if isinstance(answer, PlacedOrder)]
    assert len(sold) == 150
    assert sum(isinstance(answer, SoldOut) for answer in answers) == 50
    stock = Stock.objects.get(pk=kind.pk)
    assert (stock.taken, stock.capacity) == (150, 150)
    assert Order.objects.count() == OrderLine.objects.count() == 150
    assert OutboxRow.objects.filter(kind="render_tickets").count() == 150
    assert len({one.code for one in sold}) == len({one.secret for one in sold}) == 150


def test_orders_of_several_types_at_once_meet_no_deadlock() -> None:
    event = EventFactory()
    first, second = (TicketTypeFactory(event=event, capacity=60) for _ in range(2))

    def order(turn: int) -> PlacedOrder:
        pair = (first, second) if turn % 2 else (second, first)
        return place_order(wish(first, quantities={kind.pk: 1 for kind in pair}))

    assert all(isinstance(answer, PlacedOrder) for answer in at_once(60, order))
    assert list(Stock.objects.values_list("taken", flat=True)) == [60, 60]


def test_one_key_posted_fifty_times_at_once_is_one_order() -> None:
    kind = TicketTypeFactory()
    same = wish(kind, 2)
    answers = at_once(50, lambda _: place_order(same))
    assert {answer.code for answer in answers if isinstance(answer, PlacedOrder)} == {
        Order.objects.get().code
    }
    assert answers == [answers[0]] * 50
    assert OutboxRow.objects.count() == 1
    assert Stock.objects.get().taken == 2


def test_one_key_posted_at_once_for_the_last_place_gives_all_the_one_order() -> None:
    kind = TicketTypeFactory(capacity=1)
    same = wish(kind)
    answers = at_once(24, lambda _: place_order(same))
    assert answers == [answers[0]] * 24
    assert isinstance(answers[0], PlacedOrder)


@pytest.mark.parametrize(
    "changes",
    [{"email": "other@example.org"}, {"buyer_name": "Mary Shelley"}, {"number": 3}],
    ids=["email", "name", "quantity"],
)
def test_a_key_with_other_content_names_the_order_that_it_placed(changes: dict[str, Any]) -> None:
    kind = TicketTypeFactory()
    first = buy(kind, order_key="k" * 32)
    with pytest.raises(KeyReused) as refused:
        buy(kind, order_key="k" * 32, **changes)
    assert refused.value.order == first
    assert Order.objects.count() == OutboxRow.objects.count() == 1
    assert Stock.objects.get().taken == 1


def test_the_second_click_gets_its_order_although_the_sale_closed_meanwhile() -> None:
    kind = TicketTypeFactory()
    same = wish(kind)
    first = place_order(same)
    Event.objects.update(status=EventStatus.CLOSED)
    again = wish(TicketType.objects.select_related("event").get(), order_key=same.order_key)
    assert place_order(again) == first


def test_the_second_click_gets_its_order_although_the_places_are_gone() -> None:
    kind = TicketTypeFactory(capacity=1)
    same = wish(kind)
    assert place_order(same) == place_order(same)
    with pytest.raises(SoldOut):
        buy(kind)


def test_a_twin_whose_first_was_rolled_back_gets_an_answer_of_its_own() -> None:
    kind = TicketTypeFactory(capacity=1)
    same = wish(kind)

    with pytest.raises(SoldOut):
        _place_after(same, lambda: Stock.objects.update(taken=1))
    Stock.objects.update(taken=0)
    assert place_order(same).code == Order.objects.get().code


def _place_after(wanted: Wish, change: Callable[[], object]) -> PlacedOrder:
    """Place an order whose unlocked look at the stock was before `change`."""
    types = services._types_with_places(wanted)
    change()
    return services._place(wanted, types)


def test_what_is_plainly_sold_out_is_refused_without_a_write() -> None:
    kind = TicketTypeFactory(name="Stalls", capacity=2)
    with pytest.raises(SoldOut, match="Stalls: only 2 left") as refused:
        buy(kind, 3)
    assert refused.value.left == {kind.pk: 2}
    assert nothing_written()


def test_places_that_go_during_the_order_take_all_of_it_back() -> None:
    event = EventFactory()
    first = TicketTypeFactory(event=event)
    last = TicketTypeFactory(event=event, name="Gallery", capacity=5)
    wanted = wish(first, quantities={first.pk: 2, last.pk: 5})
    with pytest.raises(SoldOut, match="Gallery: only 1 left"):
        _place_after(wanted, lambda: Stock.objects.filter(pk=last.pk).update(taken=4))
    assert nothing_written()
    assert Stock.objects.get(pk=first.pk).taken == 0


def test_a_type_that_is_taken_away_during_the_order_is_sold_out() -> None:
    kind = TicketTypeFactory(name="Balcony")
    with pytest.raises(SoldOut, match="Balcony: sold out"):
        _place_after(wish(kind), lambda: TicketType.objects.all().delete())
    with pytest.raises(NotOnSale, match="not sold any more"):
        place_order(wish(kind))
    assert nothing_written()


def test_an_order_inside_another_transaction_is_refused() -> None:
    kind = TicketTypeFactory()
    with pytest.raises(RuntimeError, match="durable"), transaction.atomic():
        buy(kind)
    assert nothing_written()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": EventStatus.CANCELLED}, "cancelled"),
        ({"status": EventStatus.CLOSED}, "closed"),
        ({"status": EventStatus.DRAFT}, "closed"),
        ({"starts_at": timezone.now() - timedelta(minutes=1)}, "over"),
        ({"sale_closes_at": timezone.now() - timedelta(minutes=1)}, "closed"),
        ({"sale_opens_at": timezone.now() + timedelta(days=1)}, "The sale opens on"),
    ],
    ids=["cancelled", "closed", "draft", "past", "after the sale", "before the sale"],
)
def test_an_event_that_is_not_on_sale_says_why(changes: dict[str, object], words: str) -> None:
    kind = TicketTypeFactory()
    for name, value in changes.items():
        setattr(kind.event, name, value)
    with pytest.raises(NotOnSale, match=words):
        buy(kind)
    assert nothing_written()


def test_lines_keep_price_and_name_as_sold() -> None:
    kind = TicketTypeFactory(name="Stalls", price=4250)
    buy(kind, 2)
    TicketType.objects.update(name="Parkett", price=9900)
    line = OrderLine.objects.get()
    assert (line.name, line.price, line.quantity) == ("Stalls", 4250, 2)
    order = Order.objects.get()
    assert (order.total, order.currency) == (8500, "EUR")


def test_two_equal_orders_with_keys_of_their_own_are_two() -> None:
    kind = TicketTypeFactory()
    assert buy(kind).code != buy(kind).code
    assert Stock.objects.get().taken == 2


def test_the_jobs_row_is_about_the_order_and_carries_its_id_alone() -> None:
    order = buy(TicketTypeFactory())
    row = OutboxRow.objects.get()
    assert (row.kind, row.args, row.subject) == (
        "render_tickets",
        {"order_id": order.id},
        f"order:{order.id}",
    )


def test_capacity_never_goes_below_what_is_taken() -> None:
    kind = TicketTypeFactory(capacity=10)
    buy(kind, 4)
    assert not services.set_capacity(kind.pk, 3)
    assert Stock.objects.get().capacity == 10
    assert services.set_capacity(kind.pk, 4)
    with pytest.raises(SoldOut):
        buy(kind)


def test_capacity_cut_during_a_sale_ends_at_or_above_what_is_taken() -> None:
    kind = TicketTypeFactory(capacity=40)

    def act(turn: int) -> bool | PlacedOrder:
        return services.set_capacity(kind.pk, 20) if turn % 4 == 0 else buy(kind)

    answers = at_once(60, act, threads=12)
    stock = Stock.objects.get()
    assert stock.taken == sum(isinstance(answer, PlacedOrder) for answer in answers)
    assert stock.taken <= stock.capacity
    assert stock.capacity in (20, 40)


@pytest.mark.parametrize(
    ("before", "to", "allowed"),
    [
        (EventStatus.DRAFT, EventStatus.ON_SALE, True),
        (EventStatus.CLOSED, EventStatus.ON_SALE, True),
        (EventStatus.CANCELLED, EventStatus.ON_SALE, False),
        (EventStatus.ON_SALE, EventStatus.CLOSED, True),
        (EventStatus.DRAFT, EventStatus.CLOSED, False),
        (EventStatus.CANCELLED, EventStatus.CLOSED, False),
    ],
)
def test_an_event_changes_only_to_what_its_status_allows(
    before: EventStatus, to: EventStatus, allowed: bool
) -> None:
    event = EventFactory(status=before)
    assert services.set_status(event.pk, to) is allowed
    event.refresh_from_db()
    assert event.status == (to if allowed else before)
