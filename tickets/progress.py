"""Where an order stands, for its buyer."""

from dataclasses import dataclass

from jobs.outbox import has_dead
from orders.models import Order, OrderStatus

from .models import ACCEPTED, WITH_TICKETS, DeliveryState, TicketFile, TicketStatus
from .services import newest_file
from .telling import was_told


@dataclass(frozen=True)
class Progress:
    """`file` is what can be downloaded."""

    state: str
    tickets: int
    file: TicketFile | None


def progress(order: Order) -> Progress:
    """The order's state: placed, ready, emailed, bounced, delayed, cancelled, refunded."""
    tickets = order.tickets.filter(status=TicketStatus.VALID).count()
    if order.status != OrderStatus.PLACED:
        return Progress(order.status, tickets, None)
    file = newest_file(order)
    if file is not None and was_told(order):
        return Progress("bounced" if _came_back(order) else "emailed", tickets, file)
    if has_dead(f"order:{order.pk}"):
        return Progress("delayed", tickets, file)
    return Progress("ready" if file else "placed", tickets, file)


def _came_back(order: Order) -> bool:
    accepted = order.deliveries.filter(kind__in=WITH_TICKETS, state__in=ACCEPTED)
    newest = accepted.order_by("-outbox_id").values_list("state", flat=True).first()
    return newest == DeliveryState.BOUNCED
