"""The only writer of tickets, files and deliveries; answers where an order stands."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from django.core.files.base import ContentFile
from django.core.files.storage import Storage, storages
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from jobs.outbox import enqueue, has_dead
from orders.models import Order, OrderStatus

from . import mail
from .models import Delivery, DeliveryState, MessageKind, Ticket, TicketFile, TicketStatus
from .page import TEMPLATE_REVISION


def ticket_storage() -> Storage:
    """Where the PDFs are kept: private, never served by address."""
    return storages["tickets"]


@dataclass(frozen=True, kw_only=True)
class Made:
    """A rendered and stored file, not yet the order's: the order may have changed meanwhile."""

    order_version: int
    tickets: Sequence[Ticket]
    name: str
    sha256: str
    size: int


def store(pdf: bytes, order: Order, tickets: Sequence[Ticket]) -> Made:
    """Keep the PDF under the address of its content: storing the same bytes twice is one file."""
    digest = hashlib.sha256(pdf).hexdigest()
    name = f"{digest[:2]}/{digest}.pdf"
    if not ticket_storage().exists(name):
        ticket_storage().save(name, ContentFile(pdf))
    return Made(
        order_version=order.version, tickets=tickets, name=name, sha256=digest, size=len(pdf)
    )


def issue(order: Order, made: Made, outbox_id: int) -> bool:
    """Inside `effects()`, with the order locked: its tickets, its file, and the job of its email.

    False, and nothing written, where the order changed since, or another job issued tickets.
    """
    issued = set(order.tickets.values_list("token", flat=True))
    fresh = order.is_placed and order.version == made.order_version
    if not fresh or (issued and issued != {ticket.token for ticket in made.tickets}):
        return False
    if not issued:
        for ticket in made.tickets:
            ticket.outbox_id = outbox_id
        Ticket.objects.bulk_create(made.tickets)
    TicketFile.objects.get_or_create(
        order=order,
        order_version=order.version,
        template_revision=TEMPLATE_REVISION,
        defaults={
            "name": made.name,
            "sha256": made.sha256,
            "size": made.size,
            "outbox_id": outbox_id,
        },
    )
    enqueue("email_tickets", subject=f"order:{order.pk}", order_id=order.pk)
    return True


def newest_file(order: Order) -> TicketFile | None:
    """The file of the order as it is now."""
    current = order.files.filter(order_version=order.version)
    return current.order_by("-template_revision").first()


def begin_delivery(order: Order, file: TicketFile, outbox_id: int) -> Delivery:
    """T7: the words of the ticket email and its first try, committed before the provider is called.

    A later try gets the row of the first one.
    """
    key = mail.idempotency_key(order.code, MessageKind.TICKETS, 1, order.email)
    message = mail.compose(order, file)
    with transaction.atomic(durable=True):
        delivery, _ = Delivery.objects.get_or_create(
            order=order,
            kind=MessageKind.TICKETS,
            generation=1,
            recipient=order.email,
            defaults={
                "message_id": mail.message_id(key),
                "idempotency_key": key,
                "subject": message.subject,
                "text": message.text,
                "html": message.html,
                "calendar": message.calendar,
                "file": file,
                "first_try_at": timezone.now(),
                "outbox_id": outbox_id,
            },
        )
    return delivery


def settle_sent(delivery: Delivery, provider_id: str) -> bool:
    """Inside `effects()`: the provider accepted the message. False where that was known already."""
    open_ones = Delivery.objects.filter(pk=delivery.pk).exclude(state=DeliveryState.SENT)
    changed = open_ones.update(state=DeliveryState.SENT, provider_id=provider_id, settled_at=Now())
    return changed == 1


@dataclass(frozen=True)
class Progress:
    """Where an order stands, for its buyer. `file` is what can be downloaded."""

    state: str
    tickets: int
    file: TicketFile | None


def progress(order: Order) -> Progress:
    """The order's state: placed, ready, emailed, delayed, cancelled, refunded."""
    tickets = order.tickets.filter(status=TicketStatus.VALID).count()
    if order.status != OrderStatus.PLACED:
        return Progress(order.status, tickets, None)
    file = newest_file(order)
    if (
        file is not None
        and order.deliveries.filter(kind=MessageKind.TICKETS, state=DeliveryState.SENT).exists()
    ):
        return Progress("emailed", tickets, file)
    if has_dead(f"order:{order.pk}"):
        return Progress("delayed", tickets, file)
    return Progress("ready" if file else "placed", tickets, file)
