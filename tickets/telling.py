"""Which email a new file brings: the first one, or word that the tickets changed.

The email that tells of a change goes by the version of the order: it is sent once for each, and
has nothing to do once there is a newer one, whose file brings word of all changes before it.
"""

from django.db.models import Max, QuerySet

from jobs.outbox import enqueue
from jobs.purging import beyond_retention
from orders.models import Order

from .models import ACCEPTED, WITH_TICKETS, Act, Delivery


def enqueue_email(order: Order) -> None:
    """In the transaction that brings the locked order its new file: the job that emails it."""
    # Of an event so long ago it is not known any more what its buyers were told.
    if not enqueue_untold(order) and not beyond_retention(order.event.starts_at):
        enqueue("email_tickets", order_id=order.pk)


def enqueue_untold(order: Order) -> bool:
    """The same of a file that needs no email of its own, unless something is untold: False."""
    untold = _change_is_untold(order)
    if untold:
        enqueue("email_changed_tickets", order_id=order.pk, order_version=order.version)
    return untold


def _change_is_untold(order: Order) -> bool:
    newest = _with_tickets(order).select_related("file").order_by("-pk").first()
    if newest is None or newest.file is None or newest.file.order_version >= order.version:
        return False
    # What was begun with an older file is not tried again: its tickets may be void.
    return newest.state not in ACCEPTED or not was_told(order)


def was_told(order: Order) -> bool:
    """Whether the provider has accepted an email with the tickets as their holders are now."""
    accepted = _with_tickets(order).filter(state__in=ACCEPTED)
    told = accepted.aggregate(newest=Max("file__order_version"))["newest"]
    return told is not None and not _renamed_since(order, told)


def _with_tickets(order: Order) -> QuerySet[Delivery]:
    return order.deliveries.filter(kind__in=WITH_TICKETS)


def _renamed_since(order: Order, version: int) -> bool:
    return order.acts.filter(what=Act.RENAME, order_version__gt=version).exists()
