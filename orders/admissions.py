"""The admissions of an order: each has a number in the order as it was sold, its `seq`.

Orders of tickets name them by it: a refund can come before the tickets.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from .models import Order, OrderLine, RefundItem


@dataclass(frozen=True, slots=True)
class Admission:
    """One of them, and the line that sold it."""

    seq: int
    line: OrderLine


def sold(order: Order) -> list[Admission]:
    """All of them, refunded or not, in the order of their numbers."""
    return [Admission(seq, line) for seq, line in enumerate(_lines(order), start=1)]


def _lines(order: Order) -> Iterator[OrderLine]:
    for line in order.lines.select_related("ticket_type"):
        for _ in range(line.quantity):
            yield line


def left(order: Order) -> list[Admission]:
    """Those that are not refunded."""
    gone = refunded(order)
    return [one for one in sold(order) if one.seq not in gone]


def refunded(order: Order) -> set[int]:
    """The numbers of those that are refunded."""
    return set(RefundItem.objects.filter(order=order, live=True).values_list("seq", flat=True))


@dataclass(frozen=True, slots=True)
class Share:
    """So many admissions of one line; for people to read."""

    quantity: int
    name: str
    price: int


def shares(admissions: list[Admission]) -> list[Share]:
    """What these come to, line by line; lines without any are left out."""
    lines = {one.line.pk: one.line for one in admissions}
    counts = dict.fromkeys(lines, 0)
    for one in admissions:
        counts[one.line.pk] += 1
    return [Share(counts[pk], line.name, line.price) for pk, line in lines.items()]
