"""Gauges of the last check of the stock; no series before there was one."""

from collections.abc import Iterator

from jobs.gauges import Reading, gauge

from .models import StockCheck


@gauge(
    "stagedoor_stock_difference",
    "Places taken that are not sold or the reverse; sold admissions and valid tickets.",
    ("of",),
)
def difference() -> Iterator[Reading]:
    """By how many the newest check found them to differ."""
    if newest := StockCheck.objects.order_by("-pk").first():
        yield ("places",), newest.places
        yield ("tickets",), newest.tickets


@gauge("stagedoor_stock_checked_timestamp_seconds", "When the stock was checked.")
def checked() -> Iterator[Reading]:
    """By the clock of PostgreSQL."""
    if newest := StockCheck.objects.order_by("-pk").first():
        yield (), newest.at.timestamp()
