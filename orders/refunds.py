"""The only writer of refunds: takes an order back and its places, says what is owed or paid.

What `take_back` and `give_places_back` write is one transaction (T11), the caller's; the places
come last in it.
"""

from django.db import connection
from django.db.models import F, Sum

from jobs.correlation import request_id

from .models import Order, OrderLine, OrderStatus, Refund, RefundItem, RefundStatus


def take_back(order: Order, reason: str, actor: str) -> Refund | None:
    """The whole of a placed and locked order is refunded; None, nothing written, of any other.

    Who gets a refund must end with `give_places_back`.
    """
    placed = Order.objects.filter(pk=order.pk, status=OrderStatus.PLACED)
    if placed.update(status=OrderStatus.REFUNDED, version=F("version") + 1) != 1:
        return None
    refund = Refund.objects.create(
        order=order,
        amount=order.total,
        reason=reason,
        actor=actor,
        provider_key=f"refund/{order.code}/1",
        request_id=request_id(),
    )
    RefundItem.objects.bulk_create(
        RefundItem(refund=refund, order=order, seq=seq) for seq in range(1, _admissions(order) + 1)
    )
    return refund


def _admissions(order: Order) -> int:
    return int(order.lines.aggregate(number=Sum("quantity"))["number"] or 0)


def give_places_back(order: Order) -> None:
    """Last before COMMIT and in the order in which `place_order` takes them: the rows are hot."""
    lines = OrderLine.objects.filter(order=order).order_by("ticket_type_id")
    with connection.cursor() as cursor:
        for kind, number in list(lines.values_list("ticket_type_id", "quantity")):
            cursor.execute(
                "UPDATE orders_stock SET taken = taken - %s WHERE ticket_type_id = %s",
                [number, kind],
            )


def open_one(order: Order) -> Refund | None:
    """The refund of the order that nobody has paid out yet."""
    return order.refunds.filter(status=RefundStatus.REQUESTED).order_by("pk").first()


def pay_out(refund: Refund) -> bool:
    """It was paid. False, and nothing written, where that was known already."""
    waiting = Refund.objects.filter(pk=refund.pk, status=RefundStatus.REQUESTED)
    return waiting.update(status=RefundStatus.DONE) == 1


def owed(order: Order) -> int:
    """What is to be paid back for the order or was, in minor units; 0 where nothing is."""
    wanted = order.refunds.exclude(status=RefundStatus.FAILED)
    return int(wanted.aggregate(sum=Sum("amount"))["sum"] or 0)
