"""Goes through the orders of an event batch by batch: each a job, at the provider's rate.

The cursor is committed with each batch, and the next one is a job of its own: killed anywhere it
goes on where it was.
"""

from collections.abc import Sequence

from django.conf import settings
from django.db import models
from django.db.models import F, QuerySet
from django.db.models.functions import Now


class Batched(models.Model):
    """How far the orders up to the id `last_order_id` have come: those up to `cursor` had their
    turn, `told` of them; `total` were to be told when it began."""

    last_order_id = models.BigIntegerField()
    cursor = models.BigIntegerField(default=0)
    told = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField()
    done_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True


def lock[B: Batched](kind: type[B], pk: int, cursor: int) -> B | None:
    """Inside `effects()`: it and its event, itself locked; None where that batch is not its next
    one."""
    waiting = kind._default_manager.filter(pk=pk, cursor=cursor, done_at=None)
    return waiting.select_for_update(no_key=True, of=("self",)).select_related("event").first()


def next_of[O: models.Model](batched: Batched, orders: QuerySet[O]) -> list[O]:
    """Those of the orders that are in its next batch, by their ids."""
    waiting = orders.filter(pk__gt=batched.cursor, pk__lte=batched.last_order_id)
    return list(waiting.order_by("pk")[: settings.MAIL_BULK_BATCH])


def advance(batched: Batched, orders: Sequence[models.Model]) -> bool:
    """Inside `effects()`: these had their turn. Whether there is another batch, to be enqueued."""
    more: bool = len(orders) == settings.MAIL_BULK_BATCH
    batched.cursor = orders[-1].pk if more else batched.last_order_id
    type(batched)._default_manager.filter(pk=batched.pk).update(
        cursor=batched.cursor,
        told=F("told") + len(orders),
        done_at=None if more else Now(),
    )
    return more


def seconds_for(emails: int) -> float:
    """How long so many emails take at the provider's rate."""
    return emails / float(settings.MAIL_BULK_RATE)
