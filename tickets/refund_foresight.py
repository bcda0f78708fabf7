"""What replays of the jobs of refunds would do, for many at once in few looks at the database."""

from collections.abc import Iterable, Mapping, Sequence

from django.db.models import Exists, OuterRef, Q

from jobs.prognosis import Effect, Prognosis
from orders import refunds
from orders.models import Order, OrderStatus, Refund, RefundItem, RefundStatus

from . import foresight
from .deliveries import Message
from .foresight import GONE, SAFE
from .models import Ticket, TicketStatus

ASKED = Prognosis(Effect.SAFE, "the provider was asked, and pays nothing more under this key: safe")
PAID = Prognosis(Effect.NOTHING, "it is paid out: nothing will happen")
NOT_PAID = Prognosis(Effect.NOTHING, "the provider refused to pay it: nothing will happen")
FOLLOWED_UP = Prognosis(
    Effect.NOTHING, "already done: no ticket of it is valid, its own jobs are written; "
    "nothing will happen",
)  # fmt: skip


def no_refund(order_id: int, number: int, newest: Mapping[int, int]) -> str:
    """Why there is no such refund to tell of or to pay; empty where there is one."""
    if 1 <= number <= newest.get(order_id, 0):
        return ""
    return f"the order has no refund {number}: there are {newest.get(order_id, 0)}"


def of_refund_emails(messages: Sequence[Message]) -> list[Prognosis]:
    """Whether a replay of the job of each message would send it, and whether that is the first."""
    newest = refunds.newest_numbers({one.order_id for one in messages})

    def one(message: Message, found: Prognosis) -> Prognosis:
        words = no_refund(message.order_id, message.generation, newest)
        return Prognosis(Effect.IMPOSSIBLE, words) if words and found is not GONE else found

    return list(map(one, messages, foresight.of_emails(messages)))


def of_refunds(order_ids: Sequence[int]) -> list[Prognosis]:
    """Whether something is left to be done after the refunds of each order."""
    numbers = set(order_ids)
    status = dict(Order.objects.filter(pk__in=numbers).values_list("pk", "status"))
    newest = refunds.newest_numbers(numbers)
    to_do = _to_do(numbers)

    def one(order_id: int) -> Prognosis:
        if order_id not in status:
            return GONE
        if order_id in to_do:
            return SAFE
        if order_id in newest:
            return FOLLOWED_UP
        words = f"the order is {status[order_id]}, not {OrderStatus.REFUNDED}: nothing will happen"
        return Prognosis(Effect.NOTHING, words)

    return [one(order_id) for order_id in order_ids]


def _to_do(numbers: Iterable[int]) -> set[int]:
    waiting = Refund.objects.filter(order_id__in=numbers, outbox_id=None)
    item = RefundItem.objects.filter(order=OuterRef("order"), seq=OuterRef("seq"), live=True)
    valid = Ticket.objects.filter(order_id__in=numbers, status=TicketStatus.VALID)
    wrong = valid.filter(Q(Exists(item)) | Q(order__status=OrderStatus.REFUNDED))
    found = waiting.values_list("order_id", flat=True)
    return set(found.union(wrong.values_list("order_id", flat=True)))


def of_payments(asked: Sequence[tuple[int, int]]) -> list[Prognosis]:
    """Whether a replay of the job of each order's refund of that number would pay it."""
    numbers = {order_id for order_id, _ in asked}
    orders = set(Order.objects.filter(pk__in=numbers).values_list("pk", flat=True))
    newest = refunds.newest_numbers(numbers)
    known = {(one.order_id, one.number): one for one in Refund.objects.filter(order_id__in=numbers)}

    def one(order_id: int, number: int) -> Prognosis:
        if order_id not in orders:
            return GONE
        refund = known.get((order_id, number))
        if refund is None:
            return Prognosis(Effect.IMPOSSIBLE, no_refund(order_id, number, newest))
        return _of_payment(refund)

    return [one(order_id, number) for order_id, number in asked]


def _of_payment(refund: Refund) -> Prognosis:
    if refund.status == RefundStatus.DONE:
        return PAID
    if refund.status == RefundStatus.FAILED:
        return NOT_PAID
    return SAFE if refund.tried_at is None else ASKED
