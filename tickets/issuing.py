"""Making an order's tickets: the admissions it covers, their tokens, the words on the paper."""

from collections.abc import Iterator
from datetime import datetime

from babel.dates import format_date
from django.conf import settings
from django.utils import timezone

from orders.models import Order, OrderLine
from orders.money import in_words

from .models import Ticket
from .page import Admission, Paper
from .tokens import new_token


def drafts(order: Order) -> list[Ticket]:
    """The order's tickets: those that were issued, or else new ones, not saved yet."""
    issued = list(order.tickets.select_related("ticket_type"))
    return issued or list(_new_tickets(order, timezone.now().replace(microsecond=0)))


def _new_tickets(order: Order, now: datetime) -> Iterator[Ticket]:
    for seq, line in enumerate(_admissions(order), start=1):
        yield Ticket(
            order=order,
            seq=seq,
            ticket_type=line.ticket_type,
            holder_name=order.buyer_name,
            token=new_token(),
            issued_at=now,
        )


def _admissions(order: Order) -> Iterator[OrderLine]:
    for line in order.lines.select_related("ticket_type"):
        for _ in range(line.quantity):
            yield line


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
            Admission(
                seq=ticket.seq,
                token=ticket.token,
                holder=ticket.holder_name,
                type_name=sold[ticket.ticket_type_id].name,
                price=in_words(sold[ticket.ticket_type_id].price, order.currency),
            )
            for ticket in tickets
        ),
    )
