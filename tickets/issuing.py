"""Making an order's tickets: the admissions it covers, their tokens, the words on the paper."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from babel.dates import format_date
from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from orders import admissions
from orders.admissions import Admission
from orders.models import Order
from orders.money import in_words

from . import page
from .models import Ticket, TicketStatus
from .page import Paper
from .tokens import new_token


def drafts(order: Order) -> list[Ticket]:
    """The order's tickets but for the refunded ones: those that were issued, or new ones, unsaved.

    None where all was refunded since `order` was read.
    """
    admitted = admissions.left(order)
    seqs = {one.seq for one in admitted}
    issued = [ticket for ticket in _issued(order) if ticket.seq in seqs]
    return issued or list(_new_tickets(order, admitted, timezone.now().replace(microsecond=0)))


def _issued(order: Order) -> QuerySet[Ticket]:
    return order.tickets.filter(status=TicketStatus.VALID).select_related("ticket_type")


def _new_tickets(order: Order, admitted: Iterable[Admission], now: datetime) -> Iterator[Ticket]:
    for one in admitted:
        yield Ticket(
            order=order,
            seq=one.seq,
            ticket_type=one.line.ticket_type,
            holder_name=order.buyer_name,
            token=new_token(),
            issued_at=now,
        )


def paper(order: Order, tickets: list[Ticket]) -> Paper:
    """The words of the order's file, in the event's zone; prices and names as sold."""
    event = order.event
    sold = {line.ticket_type_id: line for line in order.lines.all()}
    return Paper(
        event_title=event.title,
        venue=event.venue,
        starts=f"{format_date(event.starts, 'EEEE, d MMMM y', locale='en')}, {event.starts:%H:%M}",
        doors=f"{event.doors:%H:%M}",
        zone=event.tz,
        order_code=order.code,
        seller=settings.SHOP_NAME,
        language="en",
        issued_at=max(ticket.issued_at for ticket in tickets),
        admissions=tuple(
            page.Admission(
                seq=ticket.seq,
                token=ticket.token,
                holder=ticket.holder_name,
                type_name=sold[ticket.ticket_type_id].name,
                price=in_words(sold[ticket.ticket_type_id].price, order.currency),
            )
            for ticket in tickets
        ),
    )
