"""The writer of deliveries, with `repeats`: the words of an email, its first try, how it ended."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Coalesce, Now
from django.utils import timezone

from orders.models import Order
from orders.services import lock_order

from . import mail, metrics
from .models import ACCEPTED, Bounce, Delivery, DeliveryState, Email, MessageKind, TicketFile

KNOWN = (
    "order_id", "kind", "generation", "state", "tries", "first_try_at", "called_at", "settled_at",
    "bounced_at", "masked_at",
)  # fmt: skip
"""What is read of many deliveries: their words are long."""


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
    if known is not None:
        return known
    row = _composed(message, order, file, outbox_id)
    with transaction.atomic(durable=True):
        return _put(message, order, row)


def begin_with(message: Message, order: Order, file: TicketFile, outbox_id: int) -> Delivery | None:
    """`begin`, of an email that carries the order's file. None where that is not the order's any
    more, or not the one it was begun with: the newer file has an email of its own."""
    known = _of(message).select_related("file").first()
    if known is not None:
        return None if is_stale(known, order) else known
    row = _composed(message, order, file, outbox_id)
    with transaction.atomic(durable=True):
        # Locked: whoever then brings the order another file finds this email begun.
        if lock_order(order.pk).version != file.order_version:
            return None
        return _put(message, order, row)


def is_stale(delivery: Delivery, order: Order) -> bool:
    """Whether it was begun and not sent, with an older file than the order's."""
    unsent = delivery.state not in ACCEPTED
    return unsent and delivery.file is not None and delivery.file.order_version != order.version


def _of(message: Message) -> QuerySet[Delivery]:
    found = Delivery.objects.filter(
        order_id=message.order_id, kind=message.kind, generation=message.generation
    )
    return found.order_by("pk")


def _composed(
    message: Message, order: Order, file: TicketFile | None, outbox_id: int
) -> dict[str, Any]:
    key = mail.idempotency_key(order.code, message.kind, message.generation, order.email)
    words = mail.compose(order, message.kind, file, message.generation)
    return {
        "message_id": mail.message_id(key),
        "idempotency_key": key,
        "subject": words.subject,
        "text": words.text,
        "html": words.html,
        "calendar": words.calendar,
        "file": file,
        "outbox_id": outbox_id,
    }


def first_try() -> dict[str, Any]:
    """What the row of an email says that is begun now."""
    now, with_key = timezone.now(), settings.MAIL_KEY_WINDOW > 0
    # The key protects a call that is noted and never made: one commit less.
    called = {"tries": 1, "called_at": now} if with_key else {}
    return {"first_try_at": now, **called}


def _put(message: Message, order: Order, row: dict[str, Any]) -> Delivery:
    delivery, created = Delivery.objects.get_or_create(
        order=order,
        kind=message.kind,
        generation=message.generation,
        recipient=order.email,
        defaults={**row, **first_try()},
    )
    delivery.call_noted = created and settings.MAIL_KEY_WINDOW > 0
    return delivery


def settle_sent(delivery: Email, provider_id: str, outbox_id: int) -> bool:
    """Inside `effects()`: the provider accepted the message. False where that was known already.

    `outbox_id`: the job that did it, which another one may have begun.
    """
    open_ones = _row(delivery).exclude(state__in=ACCEPTED)
    changed = open_ones.update(
        state=DeliveryState.SENT, provider_id=provider_id, settled_at=Now(), outbox_id=outbox_id
    )
    return changed == 1


def _row(email: Email) -> QuerySet[Any]:
    return type(email)._default_manager.filter(pk=email.pk)


def note_call(email: Email) -> bool:
    """T7: from now on the provider may have taken it, whatever is cut or lost after this commit.

    False, and nothing written, where another run of the job has called, or sent, meanwhile.
    """
    if email.call_noted:
        return True
    known = _row(email).filter(tries=email.tries).exclude(state__in=ACCEPTED)
    # Under a key it is not uncertain: the next call finds out.
    state = {} if settings.MAIL_KEY_WINDOW else {"state": DeliveryState.UNCERTAIN}
    with transaction.atomic(durable=True):
        changed = known.update(
            tries=email.tries + 1, called_at=Coalesce("called_at", Now()), **state
        )
    email.tries += changed
    email.call_noted = changed == 1
    return email.call_noted


def take_call_back(email: Email) -> None:
    """T7: the provider did not take the call that was noted last, if any was."""
    if not email.call_noted:
        return
    left = email.tries - 1
    none_left = {} if left else {"state": DeliveryState.QUEUED, "called_at": None}
    noted = _row(email).filter(tries=email.tries).exclude(state__in=ACCEPTED)
    with transaction.atomic(durable=True):
        noted.update(tries=left, **none_left)


def note_bounce(provider_id: str, at: datetime, reason: Bounce) -> Email | None:
    """T13: an accepted email came back. Again: nothing. None where no email goes by this id."""
    for table in Email.__subclasses__():
        found = table._default_manager.filter(provider_id=provider_id)
        with transaction.atomic(durable=True):
            # Hooks come in any order: what arrived after this moment had not come back for good.
            sent = found.filter(state=DeliveryState.SENT).exclude(arrived_at__gt=at)
            changed = sent.update(state=DeliveryState.BOUNCED, bounced_at=at, bounce=reason)
        if changed:
            metrics.BOUNCES.labels(reason).inc()
        if email := found.first():
            return email
    return None


def note_arrival(provider_id: str, at: datetime) -> None:
    """T13: an accepted email is in its mailbox, also one that had come back: a full mailbox is
    tried again by some providers. Nothing where no email goes by this id."""
    for table in Email.__subclasses__():
        found = table._default_manager.filter(provider_id=provider_id, state__in=ACCEPTED)
        with transaction.atomic(durable=True):
            found.exclude(arrived_at__gte=at).update(arrived_at=at)
            found.filter(state=DeliveryState.BOUNCED, bounced_at__lt=at).update(
                state=DeliveryState.SENT, bounced_at=None, bounce=""
            )


def message_of(delivery: Delivery) -> Message:
    """Which email of its order it is."""
    return Message(delivery.order_id, MessageKind(delivery.kind), delivery.generation)


def is_begun(message: Message) -> bool:
    """Whether its words are written, and its first call noted."""
    return _of(message).exists()


def is_newest(message: Message, order: Order) -> bool:
    """Whether nothing is newer: no email of its kind that was sent, no version of the order."""
    of_version = message.kind != MessageKind.CHANGED or message.generation == order.version
    return of_version and not newer_sent(message)


def newer_sent(message: Message) -> bool:
    """Whether the buyer was sent a later email of this kind: this one has nothing to add."""
    later = Delivery.objects.filter(
        order_id=message.order_id, kind=message.kind, generation__gt=message.generation
    )
    return later.filter(state=DeliveryState.SENT).exists()
