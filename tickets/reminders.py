"""The only writer of reminders: which events are due for one, whom it concerns, how far it is.

Whoever buys after it was due needs none: the tickets came on the last day.
"""

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta

from django.conf import settings
from django.db.models import Count, Exists, Max, OuterRef, QuerySet
from django.utils import timezone

from jobs.outbox import put
from orders import batches
from orders.batches import seconds_for
from orders.models import AnnouncementKind, Event, EventStatus, Order, OrderStatus

from .models import Reminder, Ticket, TicketStatus

DAY = timedelta(days=1)
AHEAD = 2 * DAY + timedelta(hours=1)
"""From the earliest reminder to the start: the day before, its own, and the hour of autumn."""
MISSED = 2 * DAY
"""For how long after its start it is written down that an event had no reminder."""


def due_at(event: Event) -> datetime:
    """REMINDER_HOUR on the day before, on the wall clock where the event is."""
    return datetime.combine(_day(event) - DAY, time(settings.REMINDER_HOUR), tzinfo=event.zone)


def _day(event: Event) -> date:
    return event.starts.date()


def due_events(now: datetime) -> list[int]:
    """Ids of the events whose reminder is due and not begun, in one order everywhere."""
    near = Event.objects.filter(starts_at__range=(now - MISSED, now + AHEAD))
    open_ones = near.exclude(status=EventStatus.CANCELLED).order_by("pk")
    begun = set(Reminder.objects.filter(event__in=near).values_list("event_id", "day"))
    return [
        event.pk
        for event in open_ones
        if due_at(event) <= now and (event.pk, _day(event)) not in begun
    ]


def begin(event_id: int, outbox_id: int) -> bool:
    """Inside `effects()`: the event's reminder, and the job of its first batch. False, and nothing
    written, where it is begun, or not due any more."""
    # Locked: another run of this waits here, and so does whoever moves or cancels the event.
    event = Event.objects.select_for_update(no_key=True).get(pk=event_id)
    now = timezone.now()
    begun = event.reminders.filter(day=_day(event)).exists()
    if begun or event.status == EventStatus.CANCELLED or due_at(event) > now:
        return False
    reminder = _created(event, now, outbox_id)
    if reminder.done_at is None:
        _enqueue_batch(reminder, after=0.0)
    return True


def _created(event: Event, now: datetime, outbox_id: int) -> Reminder:
    covered = _placed_before(event, due_at(event)).aggregate(number=Count("pk"), last=Max("pk"))
    skipped = _needless(event) or ("the event had begun" if event.starts_at <= now else "")
    return Reminder.objects.create(
        event=event,
        number=(event.reminders.aggregate(newest=Max("number"))["newest"] or 0) + 1,
        day=_day(event),
        due_at=due_at(event),
        skipped=skipped,
        outbox_id=outbox_id,
        last_order_id=covered["last"] or 0,
        total=covered["number"],
        done_at=now if skipped or not covered["number"] else None,
    )


def _placed_before(event: Event, moment: datetime) -> QuerySet[Order]:
    return event.orders.filter(status=OrderStatus.PLACED, placed_at__lt=moment)


def _needless(event: Event) -> str:
    moved = event.announcements.filter(
        kind=AnnouncementKind.MOVED, created_at__gte=due_at(event), starts_at=event.starts_at
    )
    return "the event moved on the last day, which its buyers are told" if moved.exists() else ""


def _enqueue_batch(reminder: Reminder, after: float) -> None:
    put("remind_event", {"reminder_id": reminder.pk, "cursor": reminder.cursor}, after=after)


def tell_next(reminder: Reminder) -> None:
    """Inside `effects()`, with the reminder locked: the emails of its next batch, one after the
    other at the provider's rate, and the job of the batch after it."""
    if why := overtaken(reminder, reminder.event):
        _skip(reminder, why)
        return
    orders = batches.next_of(reminder, with_tickets(reminder))
    for place, order in enumerate(orders):
        args = {"order_id": order.pk, "reminder_id": reminder.pk}
        put("remind_order", args, after=seconds_for(place))
    if batches.advance(reminder, orders):
        _enqueue_batch(reminder, after=seconds_for(len(orders)))


def _skip(reminder: Reminder, why: str) -> None:
    Reminder.objects.filter(pk=reminder.pk).update(skipped=why, done_at=timezone.now())


def with_tickets(reminder: Reminder) -> QuerySet[Order]:
    """The orders that it covers as they are now: placed, with a valid ticket."""
    valid = Ticket.objects.filter(order=OuterRef("pk"), status=TicketStatus.VALID)
    return _placed_before(reminder.event, reminder.due_at).filter(Exists(valid))


def overtaken(reminder: Reminder, event: Event) -> str:
    """Why there is nothing to remind of any more; empty where there is."""
    if event.status == EventStatus.CANCELLED:
        return "the event was cancelled"
    if _day(event) != reminder.day:
        return "the event moved to another day"
    return "the event had begun" if event.starts_at <= timezone.now() else _needless(event)


def concerned(reminders: Sequence[Reminder], order_ids: Sequence[int]) -> set[tuple[int, int]]:
    """Of these, the pairs of reminder and order whose buyer is to be reminded now."""
    return {
        (reminder.pk, pk)
        for reminder in reminders
        if not overtaken(reminder, reminder.event)
        for pk in with_tickets(reminder).filter(pk__in=order_ids).values_list("pk", flat=True)
        if pk <= reminder.cursor
    }
