"""The only writer of refunds: takes an order back or a part of it, and says what is owed or paid.

What `take_back` and `give_places_back` write is one transaction (T11), the caller's; the places
come last in it.
"""

from collections import Counter
from collections.abc import Collection, Iterable

from django.db import connection, transaction
from django.db.models import F, Max, QuerySet, Sum
from django.db.models.functions import Now
from django.utils import timezone

from jobs.correlation import request_id

from . import admissions
from .admissions import Admission
from .models import Order, OrderStatus, Refund, RefundItem, RefundStatus
from .payments import Owed, Paid, PaymentRefused

TO_PAY = (RefundStatus.REQUESTED, RefundStatus.FAILED)
"""What the buyer is still owed: of a failed one the provider has paid nothing."""


def take_back(
    order: Order, reason: str, actor: str, seqs: Collection[int] | None = None
) -> Refund | None:
    """Refund all that is left of a placed and locked order, or those of its admissions.

    None, and nothing written, of an order that is not placed, and where one of them is refunded
    already or never was. The order is refunded with its last admission. Who gets a refund must end
    with `give_places_back`.
    """
    left = admissions.left(order)
    chosen = left if seqs is None else [one for one in left if one.seq in seqs]
    if not chosen or (seqs is not None and len(chosen) != len(set(seqs))):
        return None
    status = OrderStatus.REFUNDED if len(chosen) == len(left) else OrderStatus.PLACED
    placed = Order.objects.filter(pk=order.pk, status=OrderStatus.PLACED)
    if placed.update(status=status, version=F("version") + 1) != 1:
        return None
    order.status = status
    return _write(order, chosen, reason, actor)


def _write(order: Order, chosen: list[Admission], reason: str, actor: str) -> Refund:
    number, amount = newest_number(order) + 1, amount_of(chosen)
    # Nobody can be asked to pay nothing, and nobody waits for it.
    paid = {} if amount else {"status": RefundStatus.DONE, "settled_at": timezone.now()}
    refund = Refund.objects.create(
        **paid,
        order=order,
        number=number,
        amount=amount,
        reason=reason,
        actor=actor,
        provider_key=f"refund/{order.code}/{number}",
        request_id=request_id(),
    )
    RefundItem.objects.bulk_create(
        RefundItem(refund=refund, order=order, seq=one.seq) for one in chosen
    )
    return refund


def amount_of(chosen: Iterable[Admission]) -> int:
    """What these were sold for, in minor units."""
    return sum(one.line.price for one in chosen)


def newest_number(order: Order) -> int:
    """How many refunds the order has had: they are numbered from 1 on."""
    return int(order.refunds.aggregate(newest=Max("number"))["newest"] or 0)


def newest_numbers(order_ids: Iterable[int]) -> dict[int, int]:
    """The same of many orders; those without any are left out."""
    found = Refund.objects.filter(order_id__in=list(order_ids)).values_list("order_id")
    return dict(found.annotate(newest=Max("number")))


def numbered(order_id: int, number: int) -> Refund | None:
    """That refund of the order, with the order."""
    found = Refund.objects.select_related("order").filter(order_id=order_id, number=number)
    return found.first()


def covered(refund: Refund) -> list[Admission]:
    """The admissions that it takes back."""
    seqs = set(refund.items.values_list("seq", flat=True))
    return [one for one in admissions.sold(refund.order) if one.seq in seqs]


def give_places_back(*taken: Refund) -> None:
    """Of all that the transaction took back, last before COMMIT, and in the order in which
    `place_order` takes them: the rows are hot."""
    counts = Counter(one.line.ticket_type_id for refund in taken for one in covered(refund))
    with connection.cursor() as cursor:
        for kind, number in sorted(counts.items()):
            cursor.execute(
                "UPDATE orders_stock SET taken = taken - %s WHERE ticket_type_id = %s",
                [number, kind],
            )


def follow_up(order: Order, outbox_id: int) -> list[int]:
    """In the caller's transaction, with the order locked: the numbers of refunds that no job has
    followed up yet, which this one does."""
    waiting = Refund.objects.filter(order=order, outbox_id=None)
    numbers = sorted(waiting.values_list("number", flat=True))
    waiting.update(outbox_id=outbox_id)
    return numbers


def note_follow_up(refund: Refund, outbox_id: int) -> None:
    """In the caller's transaction: the job `outbox_id` follows this one up by itself."""
    Refund.objects.filter(pk=refund.pk).update(outbox_id=outbox_id)


def to_pay(order: Order) -> list[Refund]:
    """Those that a person can mark as paid out, the oldest first."""
    return list(order.refunds.filter(status__in=TO_PAY).order_by("number"))


def pay_out(refund: Refund) -> bool:
    """It was paid by hand. False, and nothing written, where that was known already."""
    waiting = Refund.objects.filter(pk=refund.pk, status__in=TO_PAY)
    return waiting.update(status=RefundStatus.DONE, settled_at=Now()) == 1


def note_try(refund: Refund) -> bool:
    """T7: from now on the provider may have paid it, whatever is cut or lost after this commit.

    False, and nothing written, where it is settled meanwhile.
    """
    with transaction.atomic(durable=True):
        return _requested(refund).update(tried_at=timezone.now()) == 1


def settle(refund: Refund, answer: Paid | Owed | PaymentRefused) -> bool:
    """Inside `effects()`: what the provider answered. False where that changes nothing."""
    match answer:
        case Paid(provider_id):
            changes = {"status": RefundStatus.DONE, "provider_id": provider_id[:200]}
        case PaymentRefused():
            changes = {"status": RefundStatus.FAILED, "failure": str(answer)[:200]}
        case Owed():
            # Nobody was asked for money: whoever pays by hand need not look there first.
            _requested(refund).update(tried_at=None)
            return False
    return _requested(refund).update(**changes, settled_at=Now()) == 1


def _requested(refund: Refund) -> QuerySet[Refund]:
    return Refund.objects.filter(pk=refund.pk, status=RefundStatus.REQUESTED)


def owed(order: Order) -> int:
    """What is still to be paid back for the order, in minor units; 0 where nothing is."""
    return _sum(order.refunds.exclude(status=RefundStatus.DONE))


def paid_back(order: Order) -> int:
    """What was paid back for the order, in minor units."""
    return _sum(order.refunds.filter(status=RefundStatus.DONE))


def _sum(refunds: QuerySet[Refund]) -> int:
    return int(refunds.aggregate(sum=Sum("amount"))["sum"] or 0)
