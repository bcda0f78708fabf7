"""The only writer of orders and stock: places an order in one short transaction."""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from jobs.correlation import request_id
from jobs.outbox import enqueue

from . import links
from .models import Event, EventStatus, Order, Stock, TicketType

CODE_ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"
"""Without 0 O 1 I L: codes are read out on the telephone. 31^8: two are never alike in practice,
and a code that is taken fails the unique index and the order, which the buyer sends again."""


class SaleRefused(Exception):
    """The order cannot be taken; the text says why, to the buyer. Nothing was written."""


class NotOnSale(SaleRefused):
    """The event is not on sale at this moment."""


class SoldOut(SaleRefused):
    """Fewer places are left than were asked for. `left` per ticket type id."""

    def __init__(self, left: Mapping[int, int], names: Mapping[int, str]) -> None:
        self.left = left
        super().__init__(" ".join(_left_in_words(names[pk], n) for pk, n in left.items()))


def _left_in_words(name: str, left: int) -> str:
    return f"{name}: only {left} left." if left else f"{name}: sold out."


class KeyReused(Exception):
    """The form's key has placed an order with other content already; `order` is that one."""

    def __init__(self, order: "PlacedOrder") -> None:
        super().__init__(order.code)
        self.order = order


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a buyer asks for: cleaned, not yet checked against the sale.

    `quantities`: ticket type id to a number of 1 or more. `order_key` is the form's own. `types`:
    these ticket types with their stock, as the page has just read them; read here where missing.
    """

    event: Event
    quantities: Mapping[int, int]
    email: str
    buyer_name: str
    order_key: str
    locale: str = "en"
    types: Mapping[int, TicketType] | None = None

    def digest(self) -> bytes:
        """Of the content: the same key with another digest is another order."""
        content = [self.event.pk, sorted(self.quantities.items()), self.email, self.buyer_name]
        return hashlib.sha256(json.dumps(content).encode()).digest()


@dataclass(frozen=True)
class PlacedOrder:
    """An order that is in the database, and the secret of its link."""

    id: int
    code: str
    secret: str


def place_order(wish: Wish) -> PlacedOrder:
    """T1: place the order, once per `order_key`, and enqueue the rendering of its tickets.

    Raises NotOnSale, SoldOut, KeyReused; nothing is written then.
    """
    try:
        refuse_unless_on_sale(wish.event)
        types = _types_with_places(wish)
        return _place(wish, types)
    except SaleRefused:
        # The sale may have ended, or the places gone, since the first of two clicks.
        if twin := _twin(wish):
            return twin
        raise


def _types_with_places(wish: Wish) -> dict[int, TicketType]:
    types = dict(wish.types or _read_types(wish))
    if not types.keys() >= wish.quantities.keys():
        raise NotOnSale("These tickets are not sold any more.")
    left = {pk: types[pk].stock.left for pk in wish.quantities}
    short = {pk: places for pk, places in left.items() if places < wish.quantities[pk]}
    # A cheap look without a lock refuses what is plainly sold out; the UPDATE later decides.
    if short:
        raise SoldOut(short, {pk: kind.name for pk, kind in types.items()})
    return types


def _read_types(wish: Wish) -> dict[int, TicketType]:
    found = TicketType.objects.filter(event=wish.event, pk__in=wish.quantities)
    return {kind.pk: kind for kind in found.select_related("stock")}


def refuse_unless_on_sale(event: Event) -> None:
    """Raise NotOnSale, in words for the buyer, unless the event is on sale at this moment."""
    now = timezone.now()
    if event.status == EventStatus.CANCELLED:
        raise NotOnSale("This event was cancelled.")
    if event.starts_at <= now:
        raise NotOnSale("This event is over.")
    if event.status != EventStatus.ON_SALE or event.sale_closes_at <= now:
        raise NotOnSale("The sale for this event has closed.")
    if event.sale_opens_at > now:
        opens = event.sale_opens_at.astimezone(event.zone)
        raise NotOnSale(f"The sale opens on {opens:%d %B %Y at %H:%M} ({event.tz}).")


def _place(wish: Wish, types: Mapping[int, TicketType]) -> PlacedOrder:
    with transaction.atomic(durable=True):
        new = _new_order(wish.event)
        if not _insert_order(
            wish, new, sum(types[pk].price * n for pk, n in wish.quantities.items())
        ):
            return _first_of(wish)
        _insert_lines(wish, types, new.id)
        enqueue("render_tickets", order_id=new.id)
        _take_places(wish.quantities, types)
    return new


def _new_order(event: Event) -> PlacedOrder:
    order_id = _next_id(event)
    code = "".join(secrets.choice(CODE_ALPHABET) for _ in range(8))
    return PlacedOrder(order_id, code, links.secret_of(order_id, links.newest_key(), 1))


def _next_id(event: Event) -> int:
    """The id of a new order, with the event locked against `announcements`. Raises NotOnSale.

    Whoever moves or cancels the event waits for the orders that are under way, and every order
    that waited for that has a greater id than those before: who is told is known exactly.
    """
    # The link's secret is made of the id, and its digest goes into the row with the INSERT. The
    # lock is the one that the foreign key takes at COMMIT; the id is drawn only once it is held.
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT nextval(pg_get_serial_sequence('orders_order', 'id')) FROM (
                SELECT FROM orders_event WHERE id = %s AND status = 'on_sale' FOR KEY SHARE
            ) AS open
            """,
            [event.pk],
        )
        found = cursor.fetchone()
    if found is None:
        refuse_unless_on_sale(Event.objects.get(pk=event.pk))
        raise NotOnSale("The sale for this event has closed.")
    return int(found[0])


def _insert_order(wish: Wish, new: PlacedOrder, total: int) -> bool:
    # A concurrent twin (same key) waits here until the first has committed or rolled back.
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO orders_order (id, code, secret_digest, link_key, link_version, version,
                event_id, email, buyer_name, locale, currency, total, status, idempotency_key,
                request_hash, request_id)
            VALUES (%s, %s, %s, %s, 1, 1, %s, %s, %s, %s, %s, %s, 'placed', %s, %s, %s)
            ON CONFLICT (idempotency_key) DO NOTHING
            """,
            [
                new.id, new.code, links.digest_of(new.secret), links.newest_key(), wish.event.pk,
                wish.email, wish.buyer_name, wish.locale, wish.event.currency, total,
                wish.order_key, wish.digest(), request_id(),
            ],
        )  # fmt: skip
        return bool(cursor.rowcount == 1)


def _insert_lines(wish: Wish, types: Mapping[int, TicketType], order_id: int) -> None:
    # This transaction is in plain SQL: building it by the ORM took a fifth of the request's time.
    chosen = [types[pk] for pk in wish.quantities]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO orders_orderline (order_id, ticket_type_id, quantity, price, name)
            SELECT %s, * FROM unnest(%s::bigint[], %s::smallint[], %s::bigint[], %s::text[])
            """,
            [
                order_id, [kind.pk for kind in chosen], list(wish.quantities.values()),
                [kind.price for kind in chosen], [kind.name for kind in chosen],
            ],
        )  # fmt: skip


def _take_places(quantities: Mapping[int, int], types: Mapping[int, TicketType]) -> None:
    # Last before COMMIT, in one order everywhere: the row is hot, and deadlocks need two orders.
    with connection.cursor() as cursor:
        for pk in sorted(quantities):
            cursor.execute(
                """
                UPDATE orders_stock SET taken = taken + %s
                WHERE ticket_type_id = %s AND taken + %s <= capacity
                """,
                [quantities[pk], pk, quantities[pk]],
            )
            if cursor.rowcount != 1:
                raise SoldOut({pk: _places_left(pk)}, {pk: types[pk].name})


def _places_left(pk: int) -> int:
    # The box office may have taken the whole type away at this very moment.
    stock = Stock.objects.filter(pk=pk).first()
    return stock.left if stock else 0


def _first_of(wish: Wish) -> PlacedOrder:
    twin = _twin(wish)
    if twin is None:
        raise RuntimeError("the row that was in conflict is committed, and orders are not deleted")
    return twin


def _twin(wish: Wish) -> PlacedOrder | None:
    order = Order.objects.filter(idempotency_key=wish.order_key).first()
    if order is None:
        return None
    secret = links.secret_of(order.pk, order.link_key, order.link_version)
    placed = PlacedOrder(order.pk, order.code, secret)
    if bytes(order.request_hash) != wish.digest():
        raise KeyReused(placed)
    return placed


def is_known(event: Event) -> bool:
    """Whether somebody relies on when it starts: `announcements` alone changes that then."""
    return event.orders.exists() or event.announcements.exists()


WHEN = {"tz", "starts_local", "starts_fold", "starts_at", "doors_minutes"}


def save_details(event: Event) -> bool:
    """In the caller's transaction: what the form of an event changes. False where its start was
    left as it is, since somebody relies on it by now.

    Never its status, which may be another one by now than when the form was read.
    """
    # Orders hold their event FOR KEY SHARE: none is placed between this look and the commit.
    free = not is_known(Event.objects.select_for_update().get(pk=event.pk))
    columns = {column.name for column in Event._meta.concrete_fields}
    event.save(update_fields=columns - {"id", "status"} - (set() if free else WHEN))
    return free


def raise_version(order: Order) -> None:
    """In the caller's transaction, with the order locked: something on its tickets has changed."""
    Order.objects.filter(pk=order.pk).update(version=F("version") + 1)
    order.version += 1


def set_status(event_id: int, to: EventStatus) -> bool:
    """Publish or close an event; False where its present status does not allow that."""
    allowed = {
        EventStatus.ON_SALE: (EventStatus.DRAFT, EventStatus.CLOSED),
        EventStatus.CLOSED: (EventStatus.ON_SALE,),
    }[to]
    return Event.objects.filter(pk=event_id, status__in=allowed).update(status=to) == 1


def open_stock(kind: TicketType, capacity: int) -> None:
    """The places of a new ticket type; nothing for one that has some."""
    Stock.objects.get_or_create(ticket_type=kind, defaults={"capacity": capacity})


def set_capacity(ticket_type_id: int, capacity: int) -> bool:
    """One conditional UPDATE; False where more than `capacity` places are taken already."""
    fits = Stock.objects.filter(pk=ticket_type_id, taken__lte=capacity)
    return fits.update(capacity=capacity) == 1


def lock_order(order_id: int) -> Order:
    """The order as it is now, locked against every change of it until the transaction ends."""
    # NO KEY: a plain FOR UPDATE would wait for every insert of a row that refers to the order.
    return Order.objects.select_for_update(no_key=True).get(pk=order_id)
