"""The only writer of announcements: an event is moved or cancelled (T11), its buyers are told."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction
from django.db.models import Count, Max, Q, QuerySet, Sum

from jobs.correlation import request_id
from jobs.outbox import put

from . import batches
from .models import (
    Announcement,
    AnnouncementKind,
    Event,
    EventStatus,
    Order,
    OrderStatus,
    Refund,
)


@dataclass(frozen=True, kw_only=True)
class Deed:
    """Who does it, what the buyers are to read, and the newest announcement that the page showed.

    `seen`: its number, 0 for none: the same form twice, or two people's, do it once. `note` is
    told of the event and what was done, in the same transaction.
    """

    seen: int
    by: str
    words: str = ""
    reason: str = ""
    note: Callable[[Event, str], None] = lambda event, words: None


@dataclass(frozen=True, kw_only=True)
class When:
    """A start: on the event's wall clock and in UTC, and minutes from the doors to it."""

    starts_local: datetime
    starts_fold: int | None
    starts_at: datetime
    doors_minutes: int


@dataclass(frozen=True)
class Reach:
    """Whom an announcement would tell now: placed orders, and by currency what they cost but for
    what was refunded of them."""

    orders: int
    totals: dict[str, int] = field(default_factory=dict)


def newest_number(event: Event) -> int:
    """Of its announcements; 0 where there is none."""
    return int(event.announcements.aggregate(newest=Max("number"))["newest"] or 0)


def newest_numbers(event_ids: Iterable[int]) -> dict[int, int]:
    """The same of many events, by their ids; those without any are left out."""
    found = Announcement.objects.filter(event_id__in=list(event_ids)).order_by()
    return dict(found.values_list("event_id").annotate(newest=Max("number")))


def reach(event: Event) -> Reach:
    """Of an announcement that is made now."""
    found = _placed(event).values_list("currency").annotate(Count("pk"), Sum("total"))
    rows = list(found.order_by("currency"))
    gone = Refund.objects.filter(order__in=_placed(event)).values_list("order__currency")
    refunded = dict(gone.annotate(Sum("amount")))
    return Reach(
        sum(number for _, number, _ in rows),
        {code: total - refunded.get(code, 0) for code, _, total in rows},
    )


def _placed(event: Event) -> QuerySet[Order]:
    return Order.objects.filter(event=event, status=OrderStatus.PLACED)


def move(event_id: int, to: When, deed: Deed) -> Announcement | None:
    """T11: the event starts at another time. None, and nothing written, where it was moved or
    cancelled since the page was read, or starts then already."""
    with transaction.atomic(durable=True):
        event = _locked(event_id, deed)
        if event is None or not _moved(event, to):
            return None
        announcement = _announce(
            event, AnnouncementKind.MOVED, to.starts_at, to.doors_minutes, deed
        )
        deed.note(event, f"moved to {to.starts_local:%d %b %Y %H:%M} ({event.tz})")
    return announcement


def _moved(event: Event, to: When) -> bool:
    there = Q(starts_at=to.starts_at, doors_minutes=to.doors_minutes)
    others = Event.objects.filter(~there, pk=event.pk).exclude(status=EventStatus.CANCELLED)
    changed = others.update(
        starts_local=to.starts_local,
        starts_fold=to.starts_fold,
        starts_at=to.starts_at,
        doors_minutes=to.doors_minutes,
    )
    return changed == 1


def cancel(event_id: int, deed: Deed) -> Announcement | None:
    """T11: the event does not take place: it is not sold from this commit on. None, and nothing
    written, where it was moved or cancelled since the page was read."""
    with transaction.atomic(durable=True):
        event = _locked(event_id, deed)
        if event is None or not _cancelled(event):
            return None
        kind = AnnouncementKind.CANCELLED
        announcement = _announce(event, kind, event.starts_at, event.doors_minutes, deed)
        deed.note(event, f"cancelled: {deed.reason}")
    return announcement


def _cancelled(event: Event) -> bool:
    alive = Event.objects.filter(pk=event.pk).exclude(status=EventStatus.CANCELLED)
    return alive.update(status=EventStatus.CANCELLED) == 1


def _locked(event_id: int, deed: Deed) -> Event | None:
    # Against orders too, which hold their event FOR KEY SHARE from before their id is drawn: all
    # that are under way are waited for, and those that come later get greater ids.
    event = Event.objects.select_for_update().get(pk=event_id)
    return event if newest_number(event) == deed.seen else None


def _announce(
    event: Event, kind: AnnouncementKind, starts_at: datetime, doors_minutes: int, deed: Deed
) -> Announcement:
    covered = _placed(event).aggregate(number=Count("pk"), last=Max("pk"))
    announcement = Announcement.objects.create(
        event=event,
        number=deed.seen + 1,
        kind=kind,
        words=deed.words,
        reason=deed.reason,
        by=deed.by,
        request_id=request_id(),
        old_starts_at=event.starts_at,
        old_doors_minutes=event.doors_minutes,
        starts_at=starts_at,
        doors_minutes=doors_minutes,
        last_order_id=covered["last"] or 0,
        total=covered["number"],
    )
    _enqueue_batch(announcement, after=0.0)
    return announcement


def _enqueue_batch(announcement: Announcement, after: float) -> None:
    args = {"announcement_id": announcement.pk, "cursor": announcement.cursor}
    put("announce_event", args, after=after)


def lock_batch(announcement_id: int, cursor: int) -> Announcement | None:
    """Inside `effects()`: the announcement, locked; None where that batch is not its next one."""
    return batches.lock(Announcement, announcement_id, cursor)


def lock_orders(announcement: Announcement) -> list[Order]:
    """Inside `effects()`: the orders of its next batch, locked, by their ids."""
    # All before any place is given back: whoever refunds one locks first its order, then places.
    locked = _placed(announcement.event).select_for_update(no_key=True)
    return batches.next_of(announcement, locked)


def advance(announcement: Announcement, orders: Sequence[Order]) -> None:
    """Inside `effects()`: these are told; the next batch is a job, or there is none."""
    if batches.advance(announcement, orders):
        _enqueue_batch(announcement, after=batches.seconds_for(len(orders)))
