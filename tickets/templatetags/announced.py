"""How far the buyers of an event were told that it was moved or cancelled, and reminded of it."""

from dataclasses import dataclass
from datetime import datetime

from django import template
from django.db.models import Count

from orders.models import Announcement, Event
from tickets.answer_parts import on_its_way
from tickets.models import ACCEPTED, ANNOUNCED, Delivery, MessageKind, Reminder

register = template.Library()


@dataclass(frozen=True, slots=True)
class Told:
    """One announcement. `sent`: emails that were accepted; `told`: orders whose turn has come."""

    number: int
    cancelled: bool
    starts_at: datetime
    created_at: datetime
    by: str
    reason: str
    total: int
    told: int
    sent: int
    going: bool

    @property
    def of(self) -> int:
        """How many are to be told: some may have been refunded before their turn."""
        return self.total if self.going else self.told

    @property
    def done(self) -> bool:
        """Whether every email was accepted."""
        return not self.going and self.sent >= self.told


@register.inclusion_tag("tickets/announcements.html")
def announcements(event: Event) -> dict[str, object]:
    """What was announced, the newest first."""
    found = list(event.announcements.order_by("-number"))
    sent = _sent(event, *ANNOUNCED.values()) if found else {}
    told = [_told(one, sent.get(one.number, 0)) for one in found]
    going = on_its_way() if any(one.going for one in told) else ""
    return {"event": event, "announcements": told, "on_its_way": going}


def _sent(event: Event, *kinds: MessageKind) -> dict[int, int]:
    accepted = Delivery.objects.filter(order__event=event, kind__in=kinds, state__in=ACCEPTED)
    return dict(accepted.values_list("generation").annotate(Count("pk")))


def _told(one: Announcement, sent: int) -> Told:
    return Told(
        number=one.number,
        cancelled=one.is_cancellation,
        starts_at=one.starts_at,
        created_at=one.created_at,
        by=one.by,
        reason=one.reason,
        total=one.total,
        told=one.told,
        sent=sent,
        going=one.done_at is None,
    )


@dataclass(frozen=True, slots=True)
class Reminded:
    """One reminder, and how many of its emails were accepted."""

    row: Reminder
    sent: int


@register.inclusion_tag("tickets/reminders.html")
def reminders(event: Event) -> dict[str, object]:
    """What buyers were reminded of, the newest first."""
    found = list(event.reminders.order_by("-number"))
    sent = _sent(event, MessageKind.REMINDER) if found else {}
    return {"event": event, "reminders": [Reminded(one, sent.get(one.number, 0)) for one in found]}
