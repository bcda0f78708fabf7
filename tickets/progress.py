"""Where an order stands, for its buyer."""

from dataclasses import dataclass

from jobs.outbox import has_dead
from jobs.prediction import seconds_left
from orders.models import Order, OrderStatus

from .estimate import WAITS, sentence
from .files import deleted_file, newest_file
from .models import ACCEPTED, WITH_TICKETS, DeliveryState, TicketFile, TicketStatus
from .telling import was_told


@dataclass(frozen=True)
class Progress:
    """`file` is what can be downloaded. `estimate`: when the state ends, in words, or empty."""

    state: str
    tickets: int
    file: TicketFile | None
    estimate: str = ""


def progress(order: Order) -> Progress:
    """The order's state: placed, ready, emailed, bounced, delayed, email_delayed, partly_refunded,
    deleted, cancelled, refunded."""
    tickets = order.tickets.filter(status=TicketStatus.VALID).count()
    if order.status != OrderStatus.PLACED:
        return Progress(order.status, tickets, None)
    file = newest_file(order)
    state = _state(order, file)
    return Progress(state, tickets, file, _estimate(order, state))


def _state(order: Order, file: TicketFile | None) -> str:
    if file is None and deleted_file(order):
        return "deleted"
    told = file is not None and was_told(order)
    if told and _came_back(order):
        return "bounced"
    refunded = order.refunds.exists()
    if file is None or not (told or refunded):
        if has_dead(f"order:{order.pk}"):
            return "email_delayed" if file else "delayed"
        if not refunded:
            return "ready" if file else "placed"
    return "partly_refunded" if refunded else "emailed"


def _estimate(order: Order, state: str) -> str:
    if state not in WAITS:
        return ""
    kind, _ = WAITS[state]
    return sentence(state, seconds_left(f"order:{order.pk}", kind))


def _came_back(order: Order) -> bool:
    accepted = order.deliveries.filter(kind__in=WITH_TICKETS, state__in=ACCEPTED)
    newest = accepted.order_by("-outbox_id").values_list("state", flat=True).first()
    return newest == DeliveryState.BOUNCED
