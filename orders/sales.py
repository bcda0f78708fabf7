"""What was sold and taken back on one day, event by event: figures alone, nobody's data."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from django.db.models import Count, F, Sum
from django.utils import timezone

from .models import Event, EventStatus, OrderLine, Refund, RefundItem, Stock

type Key = tuple[int, str]
"""An event's id and a currency."""


@dataclass(frozen=True, slots=True)
class Span:
    """Of a day: from its first moment up to that of the next day, on the clock of a zone."""

    begins: datetime
    ends: datetime


@dataclass(frozen=True, slots=True)
class Sales:
    """Of one event on one day: places sold and taken back, and for how much, in minor units.

    `left`: places that could still be sold when it was counted, of all ticket types.
    """

    event: Event
    currency: str
    sold: int
    amount: int
    refunded: int
    paid_back: int
    left: int


def span_of(day: date, zone: ZoneInfo) -> Span:
    """The day there: 23 or 25 hours long where its clock is changed."""
    first, last = (datetime.combine(one, time(), zone) for one in (day, day + timedelta(days=1)))
    return Span(first, last)


def sales_in(span: Span) -> list[Sales]:
    """Every event that sold or took back anything in it, or is on sale now; by start."""
    sold, refunded, paid_back = _sold(span), _refunded(span), _paid_back(span)
    on_sale = Event.objects.filter(status=EventStatus.ON_SALE, sale_closes_at__gt=timezone.now())
    keys = {*sold, *refunded, *paid_back, *on_sale.values_list("pk", "currency")}
    events = Event.objects.in_bulk([pk for pk, _ in keys])
    left = _left(events)
    found = [
        Sales(events[pk], code, *sold.get((pk, code), (0, 0)), refunded.get((pk, code), 0),
              paid_back.get((pk, code), 0), left.get(pk, 0))
        for pk, code in keys
    ]  # fmt: skip
    return sorted(found, key=lambda one: (one.event.starts_at, one.event.pk, one.currency))


def _sold(span: Span) -> dict[Key, tuple[int, int]]:
    lines = OrderLine.objects.filter(
        order__placed_at__gte=span.begins, order__placed_at__lt=span.ends
    ).order_by()
    keyed = lines.values_list("order__event_id", "order__currency")
    counted = keyed.annotate(number=Sum("quantity"), paid=Sum(F("quantity") * F("price")))
    return {(pk, code): (number, amount) for pk, code, number, amount in counted}


def _refunded(span: Span) -> dict[Key, int]:
    items = RefundItem.objects.filter(
        refund__requested_at__gte=span.begins, refund__requested_at__lt=span.ends
    ).order_by()
    keyed = items.values_list("order__event_id", "order__currency")
    return {(pk, code): number for pk, code, number in keyed.annotate(Count("pk"))}


def _paid_back(span: Span) -> dict[Key, int]:
    refunds = Refund.objects.filter(requested_at__gte=span.begins, requested_at__lt=span.ends)
    keyed = refunds.order_by().values_list("order__event_id", "order__currency")
    return {(pk, code): amount for pk, code, amount in keyed.annotate(Sum("amount"))}


def _left(events: Mapping[int, Event]) -> dict[int, int]:
    stock = Stock.objects.filter(ticket_type__event__in=events).order_by()
    keyed = stock.values_list("ticket_type__event_id")
    return dict(keyed.annotate(free=Sum(F("capacity") - F("taken"))))


def totals(sales: Sequence[Sales]) -> dict[str, tuple[int, int]]:
    """By currency: what came in, and what is paid back."""
    amounts: Counter[str] = Counter()
    back: Counter[str] = Counter()
    for one in sales:
        amounts[one.currency] += one.amount
        back[one.currency] += one.paid_back
    return {code: (amounts[code], back[code]) for code in sorted(amounts)}
