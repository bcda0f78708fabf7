"""Which ticket email of an order is its newest: begun, or asked for by a job, done or not."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Max

from jobs.models import OutboxRow, ProcessedJob

from .models import Delivery, MessageKind


def newest_generations(order_ids: Iterable[int]) -> dict[int, int]:
    """Of each order's ticket email: begun, or asked for by a job, done or not; at least 1.

    Each is one more than another: what rows say beyond that, anybody may have typed.
    """
    orders = {f"order:{pk}": pk for pk in order_ids}
    newest = dict.fromkeys(orders.values(), 1) | _newest_begun(orders.values())
    # The outbox first: rows move only that way, and one that moved meanwhile is found in both.
    asked = [
        (orders[subject], number)
        for table in (OutboxRow, ProcessedJob)
        for subject, args in _resendings(table, orders)
        if (number := _generation(args))
    ]
    for order_id, number in sorted(asked):
        if number == newest[order_id] + 1:
            newest[order_id] = number
    return newest


def _newest_begun(order_ids: Iterable[int]) -> dict[int, int]:
    begun = Delivery.objects.filter(order_id__in=list(order_ids), kind=MessageKind.TICKETS)
    return dict(begun.values_list("order_id").annotate(newest=Max("generation")))


def _resendings(
    table: type[OutboxRow] | type[ProcessedJob], subjects: Iterable[str]
) -> Iterable[tuple[str, Any]]:
    jobs = table._default_manager.filter(kind="resend_tickets", subject__in=list(subjects))
    return jobs.values_list("subject", "args")


def _generation(args: Any) -> int | None:
    number = args.get("generation") if isinstance(args, dict) else None
    return number if type(number) is int else None
