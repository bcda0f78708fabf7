"""How the templates write money and times: in the event's currency and zone."""

from datetime import datetime

from babel.dates import format_date, format_time
from django import template

from orders.models import Event
from orders.money import in_words

register = template.Library()


@register.filter
def money(minor: int, currency: str) -> str:
    """4250|money:"EUR" → €42.50."""
    return in_words(minor, currency)


@register.filter
def in_zone(moment: datetime, event: Event) -> str:
    """The moment on the event's wall clock, with the zone's name."""
    local = moment.astimezone(event.zone)
    return f"{day(local)}, {clock(local)} ({event.tz})"


@register.filter
def day(local: datetime) -> str:
    """Saturday, 5 December 2026, of a time that is in its zone already."""
    return format_date(local, "EEEE, d MMMM y", locale="en")


@register.filter
def date_part(local: datetime, pattern: str) -> str:
    """One part of the date in CLDR's pattern letters: MMM → Dec."""
    return format_date(local, pattern, locale="en")


@register.filter
def clock(local: datetime) -> str:
    """20:00, of a time that is in its zone already."""
    return format_time(local, "HH:mm", tzinfo=local.tzinfo, locale="en")
