"""One batch of an announcement: its orders get what changes for them, and the job that tells."""

from collections.abc import Sequence

from django.db.models import F

from jobs.models import OutboxRow
from jobs.outbox import enqueue, put
from orders import announcements, refunds
from orders.batches import seconds_for
from orders.models import Announcement, Order, Refund
from orders.services import raise_version

from . import telling
from .models import TicketFile
from .services import void_refunded

EMAILS = ("email_tickets", "resend_tickets", "email_changed_tickets")
"""The jobs that send the order's file."""


def tell_next(announcement: Announcement, outbox_id: int) -> None:
    """Inside `effects()`, with the announcement locked: its next batch, and the job of the one
    after it. The emails come due one after the other, at the provider's rate."""
    orders = announcements.lock_orders(announcement)
    taken: list[Refund] = []
    if announcement.is_cancellation:
        taken = _take_back(announcement, orders, outbox_id)
    else:
        _renew(orders)
    for place, order in enumerate(orders):
        args = {"order_id": order.pk, "announcement_id": announcement.pk}
        put("announce_order", args, after=seconds_for(place))
    announcements.advance(announcement, orders)
    refunds.give_places_back(*taken)


def _take_back(announcement: Announcement, orders: Sequence[Order], outbox_id: int) -> list[Refund]:
    found = []
    for place, order in enumerate(orders):
        taken = refunds.take_back(order, f"cancelled: {announcement.reason}", announcement.by)
        if taken is None:
            continue
        void_refunded(order)
        # The email that tells of the cancellation tells of the refund: there is no second one.
        refunds.note_follow_up(taken, outbox_id)
        args = {"order_id": order.pk, "number": taken.number}
        put("pay_refund", args, after=seconds_for(place))
        found.append(taken)
    return found


def _renew(orders: Sequence[Order]) -> None:
    """The tickets show when the event starts. Where the buyer has them the new file only takes the
    place of the old one, behind all tickets; else a render that is under way is stale."""
    delivered = _delivered(orders)
    for place, order in enumerate(orders):
        if order.pk in delivered:
            put("rerender_tickets", {"order_id": order.pk}, after=seconds_for(place))
        else:
            raise_version(order)
            enqueue("render_tickets", order_id=order.pk)


def _delivered(orders: Sequence[Order]) -> set[int]:
    """Those whose file is made and was emailed, and is not about to be."""
    living = TicketFile.objects.filter(order__in=orders, deleted_at=None)
    current = living.filter(order_version=F("order__version"))
    made = set(current.values_list("order_id", flat=True))
    told = {order.pk for order in orders if order.pk in made and telling.was_told(order)}
    return told - _about_to_be(orders)


def _about_to_be(orders: Sequence[Order]) -> set[int]:
    subjects = {f"order:{order.pk}": order.pk for order in orders}
    rows = OutboxRow.objects.filter(kind__in=EMAILS, subject__in=subjects, dead_at=None)
    return {subjects[subject] for subject in rows.values_list("subject", flat=True)}


def concerns(announcement: Announcement, order: Order, newest: int) -> bool:
    """Whether the buyer of the order is to be told, as things are now.

    `newest`: the number of the event's newest announcement, the only one that is of use.
    """
    covered = order.event_id == announcement.event_id and order.pk <= announcement.cursor
    if not covered or announcement.number != newest:
        return False
    return order.is_refunded if announcement.is_cancellation else order.is_placed
