"""What replays of this app's jobs would do, for many at once in few looks at the database."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from jobs.prognosis import Effect, Prognosis
from orders.models import Order, OrderStatus

from . import deliveries, generations, repeats
from .deliveries import Message
from .models import (
    ACCEPTED,
    WITH_TICKETS,
    Delivery,
    DeliveryState,
    Email,
    MessageKind,
    Ticket,
    TicketFile,
    TicketStatus,
)
from .page import TEMPLATE_REVISION
from .times import ago, clock, length

SAFE = Prognosis(Effect.SAFE, "not done yet, safe")
FORGOTTEN = Prognosis(
    Effect.IMPOSSIBLE, "cannot be replayed: its words and address were forgotten, it is so old"
)
GONE = Prognosis(Effect.IMPOSSIBLE, "there is no such order")
FILE_TO_COME = Prognosis(Effect.SAFE, "its file is being made; it is sent once that is there: safe")
FILE_DELETED = Prognosis(
    Effect.IMPOSSIBLE, "its file was deleted, so long is the event past: render it again first"
)
NO_FILE = Prognosis(Effect.NOTHING, "the order has no file: nothing will happen")


def of_emails(messages: Sequence[Message]) -> list[Prognosis]:
    """Whether a replay of the job of each message would send it, and whether that is the first."""
    numbers = {message.order_id for message in messages}
    orders = _orders(numbers)
    begun = _begun(numbers)
    newest = _newest_sent(begun.values())
    with_file, with_deleted = _with_file(numbers)
    known = _asked_for(messages)
    now = timezone.now()

    def one(message: Message) -> Prognosis:
        order, delivery = orders.get(message.order_id), begun.get(message)
        if order is None:
            return GONE
        if words := unasked(message, known):
            return Prognosis(Effect.IMPOSSIBLE, words)
        if delivery and delivery.state in ACCEPTED:
            return already_sent(delivery, now)
        if words := _out_of_date(order, message.kind) or _of_older(message, order, delivery):
            return Prognosis(Effect.NOTHING, words)
        later = newest.get((message.order_id, message.kind))
        if later and later.generation > message.generation:
            return _overtaken(later, now)
        if message.kind in WITH_TICKETS and (order.pk, order.version) not in with_file:
            deleted = (order.pk, order.version) in with_deleted
            missing = FILE_DELETED if deleted else FILE_TO_COME
            return missing if is_asked_for(message) else NO_FILE
        return repeated(delivery, now) if delivery else SAFE

    return [one(message) for message in messages]


def unasked(message: Message, known: Mapping[int, int]) -> str:
    """Why nobody can have asked for this resending; empty where somebody can.

    `known`: the newest one of each order, see `generations.newest_generations`.
    """
    newest = known.get(message.order_id)
    if (
        newest is None
        or message.kind != MessageKind.TICKETS
        or 1 <= message.generation <= newest + 1
    ):
        return ""
    return f"nobody asked for email {message.generation} of this order: the newest is {newest}"


def _of_older(message: Message, order: Order, delivery: Delivery | None) -> str:
    of_version = message.kind != MessageKind.CHANGED or message.generation == order.version
    if of_version and not (delivery and deliveries.is_stale(delivery, order)):
        return ""
    return "its tickets were changed since, which has an email of its own: nothing will happen"


def is_asked_for(message: Message) -> bool:
    """Whether somebody asked for it: it is no placement's, and no change's."""
    return message.kind == MessageKind.TICKETS and message.generation > 1


def _asked_for(messages: Iterable[Message]) -> dict[int, int]:
    again = {
        message.order_id
        for message in messages
        if message.generation != 1 and message.kind == MessageKind.TICKETS
    }
    return generations.newest_generations(again) if again else {}


def of_renders(order_ids: Sequence[int]) -> list[Prognosis]:
    """Whether each order still wants its tickets made."""
    numbers = set(order_ids)
    orders = _orders(numbers)
    made = _versions(numbers)
    with_tickets = set(
        Ticket.objects.filter(order_id__in=numbers, status=TicketStatus.VALID).values_list(
            "order_id", flat=True
        )
    )

    def one(order_id: int) -> Prognosis:
        order = orders.get(order_id)
        if order is None:
            return GONE
        if words := _out_of_date(order, MessageKind.TICKETS):
            return Prognosis(Effect.NOTHING, words)
        revision, at = made.get((order.pk, order.version), (0, timezone.now()))
        if order.pk in with_tickets and revision == TEMPLATE_REVISION:
            return _made(at)
        return SAFE

    return [one(order_id) for order_id in order_ids]


def _orders(numbers: Iterable[int]) -> dict[int, Order]:
    found = Order.objects.filter(pk__in=numbers).only("pk", "status", "version")
    return {order.pk: order for order in found}


def _begun(numbers: Iterable[int]) -> dict[Message, Delivery]:
    found = Delivery.objects.filter(order_id__in=numbers).order_by("-pk")
    known = found.select_related("file").only(*deliveries.KNOWN, "file__order_version")
    return {deliveries.message_of(one): one for one in known}


def _newest_sent(begun: Iterable[Delivery]) -> dict[tuple[int, str], Delivery]:
    # Of refunds each email tells of another one: a later one replaces none.
    sent = [
        one for one in begun
        if one.state == DeliveryState.SENT and one.kind != MessageKind.REFUND
    ]  # fmt: skip
    return {(one.order_id, one.kind): one for one in sorted(sent, key=lambda one: one.generation)}


def _versions(numbers: Iterable[int]) -> Mapping[tuple[int, int], tuple[int, datetime]]:
    """Of each order and version that has a file: the newest template revision, and made when."""
    living = TicketFile.objects.filter(order_id__in=numbers, deleted_at=None)
    files = living.order_by("template_revision")
    found = files.values_list("order_id", "order_version", "template_revision", "made_at")
    return {(order, version): (revision, at) for order, version, revision, at in found}


def _with_file(numbers: Iterable[int]) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Orders and versions that have a file, and those that had one which is deleted."""
    files = TicketFile.objects.filter(order_id__in=numbers)
    found = files.values_list("order_id", "order_version", "deleted_at")
    living = {(order, version) for order, version, deleted in found if deleted is None}
    return living, {(order, version) for order, version, deleted in found if deleted}


def _out_of_date(order: Order, kind: MessageKind) -> str:
    if kind in (MessageKind.REFUND, MessageKind.CANCELLED) or order.is_placed:
        return ""
    return f"the order is {order.status}, not {OrderStatus.PLACED}: nothing will happen"


def already_sent(delivery: Email, now: datetime) -> Prognosis:
    """Of an email that the provider has accepted."""
    at = delivery.settled_at
    when = f" at {clock(at, now)}" if at else ""
    back = ", and it came back" if delivery.state == DeliveryState.BOUNCED else ""
    return Prognosis(
        Effect.NOTHING,
        f"already done{when}: the provider accepted it under this key{back}, nothing will happen",
    )


def _made(at: datetime) -> Prognosis:
    return Prognosis(Effect.NOTHING, f"already done at {clock(at)}: nothing will happen")


def _overtaken(later: Delivery, now: datetime) -> Prognosis:
    when = f" at {clock(later.settled_at, now)}" if later.settled_at else ""
    return Prognosis(
        Effect.NOTHING, f"email {later.generation} was sent{when}: nothing will happen"
    )


def of_begun(email: Email, now: datetime) -> Prognosis:
    """Of an email that was begun, accepted or not."""
    return already_sent(email, now) if email.state in ACCEPTED else repeated(email, now)


def repeated(delivery: Email, now: datetime) -> Prognosis:
    """Of an email that was begun, and is not known to be accepted."""
    if delivery.masked_at:
        return FORGOTTEN
    since, window = ago(delivery.called_at or delivery.first_try_at, now), settings.MAIL_KEY_WINDOW
    if repeats.may_repeat(delivery, now):
        why = (
            f"older than the provider's {length(window)} window"
            if window
            else "the mail server, which knows no keys, may have taken it"
        )
        return Prognosis(Effect.MAY_REPEAT, f"a try began {since}, {why}: may send twice")
    why = (
        "under this key and the provider drops a second one"
        if delivery.tries
        else "and the provider did not take it"
    )
    return Prognosis(Effect.SAFE, f"a try began {since} {why}: safe")
