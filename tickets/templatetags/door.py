"""Times at the door: on the event's own clock, the day only where it is another one."""

from datetime import datetime

from django import template
from django.utils import timezone

from orders.models import Event

register = template.Library()


@register.filter
def at_door(moment: datetime, event: Event) -> str:
    """`19:42:07`, of another day `4 Dec 19:42:07`."""
    local = moment.astimezone(event.zone)
    return f"{_day(local, event)}{local:%H:%M:%S}"


@register.filter
def moment_at_door(moment: datetime, event: Event) -> str:
    """`at 19:42`, of another day `on 4 Dec at 19:42`."""
    local = moment.astimezone(event.zone)
    day = _day(local, event)
    return f"on {day}at {local:%H:%M}" if day else f"at {local:%H:%M}"


def _day(local: datetime, event: Event) -> str:
    today = timezone.now().astimezone(event.zone).date()
    return "" if local.date() == today else f"{local.day} {local:%b} "
