"""Which email a new file brings: the first one, or word that the tickets changed.

The email that tells of a change goes by the version of the order: it is sent once for each, and
has nothing to do once there is a newer one, whose file brings word of all changes before it.
"""

from django.db.models import Max

from jobs.outbox import enqueue
from orders.models import Order

from .models import ACCEPTED, WITH_TICKETS, Act


def enqueue_email(order: Order) -> None:
    """In the transaction that brings the locked order its new file: the job that emails it."""
    if _change_is_untold(order):
        enqueue("email_changed_tickets", order_id=order.pk, order_version=order.version)
    else:
        enqueue("email_tickets", order_id=order.pk)


def _change_is_untold(order: Order) -> bool:
    begun = _newest_carried(order)
    if begun is None or begun >= order.version:
        return False
    told = _newest_carried(order, *ACCEPTED)
    # What was begun with an older file is not tried again: its tickets may be void.
    return told is None or _renamed_since(order, told)


def was_told(order: Order) -> bool:
    """Whether the provider has accepted an email with the tickets as their holders are now."""
    told = _newest_carried(order, *ACCEPTED)
    return told is not None and not _renamed_since(order, told)


def _newest_carried(order: Order, *states: str) -> int | None:
    """The order's version in the newest file that was emailed: begun, or as far as `states`."""
    emails = order.deliveries.filter(kind__in=WITH_TICKETS)
    if states:
        emails = emails.filter(state__in=states)
    found: int | None = emails.aggregate(newest=Max("file__order_version"))["newest"]
    return found


def _renamed_since(order: Order, version: int) -> bool:
    return order.acts.filter(what=Act.RENAME, order_version__gt=version).exists()
