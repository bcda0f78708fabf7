"""The attendees of an event as CSV: one row for each admission sold, in constant memory."""

import csv
import unicodedata
from collections.abc import Iterator

from orders.models import Event, Order, OrderStatus

from .issuing import admissions
from .models import Ticket

HEADER = ("order", "seq", "ticket type", "holder", "buyer", "email", "status")
BEING_MADE = "being made"
CHUNK = 500
"""Orders in memory at once."""
BOM = "\ufeff"
"""Without it spreadsheet programs take UTF-8 for something else."""


class _Line:
    """What `csv` writes to: the line is what `write` is given back."""

    def write(self, text: str) -> str:
        return text


def attendees(event: Event) -> Iterator[str]:
    """The lines of the file: admissions of placed orders, by order; those without a ticket too."""
    writer = csv.writer(_Line())
    yield BOM + str(writer.writerow(HEADER))
    for order in _orders(event):
        for row in _rows(order):
            yield str(writer.writerow([harmless(cell) for cell in row]))


def _orders(event: Event) -> Iterator[Order]:
    placed = Order.objects.filter(event=event, status=OrderStatus.PLACED).order_by("pk")
    return placed.prefetch_related("lines", "tickets").iterator(CHUNK)


def _rows(order: Order) -> Iterator[tuple[str, ...]]:
    tickets = {ticket.seq: ticket for ticket in order.tickets.all()}
    for seq, line in enumerate(admissions(order.lines.all()), start=1):
        ticket: Ticket | None = tickets.get(seq)
        yield (
            order.code,
            str(seq),
            line.name,
            ticket.holder_name if ticket else order.buyer_name,
            order.buyer_name,
            order.email,
            ticket.status if ticket else BEING_MADE,
        )


def harmless(cell: str) -> str:
    """`cell` as no spreadsheet program takes for a formula: with an apostrophe where it might.

    Also after spaces and what is invisible, and for the wide and small variants of the signs.
    """
    if cell[:1] in ("\t", "\r", "\n"):
        return f"'{cell}"
    for letter in cell:
        if unicodedata.category(letter)[0] in "CZ":
            continue
        return f"'{cell}" if unicodedata.normalize("NFKC", letter)[:1] in "=+-@" else cell
    return cell
