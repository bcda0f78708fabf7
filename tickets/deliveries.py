"""The only writer of deliveries: the words of an email, its first try, how it ended."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Max, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from orders.models import Order

from . import mail
from .models import Delivery, DeliveryState, MessageKind, TicketFile

MARGIN = 3600
"""Seconds before the provider forgets a key in which no second try is made (design §5)."""


@dataclass(frozen=True, slots=True)
class Message:
    """One email of an order, sent once: `generation` 1, and one more for each resending."""

    order_id: int
    kind: MessageKind
    generation: int = 1


def begin(message: Message, order: Order, file: TicketFile | None, outbox_id: int) -> Delivery:
    """T7: the words of the email and its first try, committed before the provider is called.

    A later try gets the row of the first one, whatever the order says by now.
    """
    known = _of(message).first()
    return known or _first_try(message, order, file, outbox_id)


def _of(message: Message) -> QuerySet[Delivery]:
    found = Delivery.objects.filter(
        order_id=message.order_id, kind=message.kind, generation=message.generation
    )
    return found.order_by("pk")


def _first_try(message: Message, order: Order, file: TicketFile | None, outbox_id: int) -> Delivery:
    key = mail.idempotency_key(order.code, message.kind, message.generation, order.email)
    words = mail.compose(order, message.kind, file)
    with transaction.atomic(durable=True):
        delivery, _ = Delivery.objects.get_or_create(
            order=order,
            kind=message.kind,
            generation=message.generation,
            recipient=order.email,
            defaults={
                "message_id": mail.message_id(key),
                "idempotency_key": key,
                "subject": words.subject,
                "text": words.text,
                "html": words.html,
                "calendar": words.calendar,
                "file": file,
                "first_try_at": timezone.now(),
                "outbox_id": outbox_id,
            },
        )
    return delivery


def settle_sent(delivery: Delivery, provider_id: str, outbox_id: int) -> bool:
    """Inside `effects()`: the provider accepted the message. False where that was known already.

    `outbox_id`: the job that did it, which another one may have begun.
    """
    open_ones = Delivery.objects.filter(pk=delivery.pk).exclude(state=DeliveryState.SENT)
    changed = open_ones.update(
        state=DeliveryState.SENT, provider_id=provider_id, settled_at=Now(), outbox_id=outbox_id
    )
    return changed == 1


def note_uncertain(delivery: Delivery) -> bool:
    """T7: the server was lost in the middle of this try. False where an earlier one was too."""
    with transaction.atomic(durable=True):
        queued = Delivery.objects.filter(pk=delivery.pk, state=DeliveryState.QUEUED)
        return queued.update(state=DeliveryState.UNCERTAIN) == 1


def begin_again(message: Message) -> None:
    """In the replay of its job: a person accepts that it may come twice; the next try is a first.

    Changes nothing of a message that was sent.
    """
    open_ones = _of(message).exclude(state=DeliveryState.SENT)
    open_ones.update(state=DeliveryState.QUEUED, first_try_at=timezone.now())


def newest_begun(order: Order) -> int:
    """The newest generation of its ticket email of which a try began; 0 before the first."""
    begun = order.deliveries.filter(kind=MessageKind.TICKETS)
    return int(begun.aggregate(newest=Max("generation"))["newest"] or 0)


def repeats_are_dropped(first_try_at: datetime, now: datetime) -> bool:
    """Whether the provider, asked now, still knows the key of that try."""
    window: int = settings.MAIL_KEY_WINDOW
    return window > 0 and (now - first_try_at).total_seconds() <= window - MARGIN
