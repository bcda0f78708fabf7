"""The only writer of tickets and files; what staff does to an order (T11)."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.core.files.base import ContentFile
from django.core.files.storage import Storage, storages
from django.db import transaction

from jobs.outbox import enqueue
from jobs.story import open_jobs
from orders import refunds
from orders.models import Order, Refund
from orders.money import in_words
from orders.services import lock_order

from .deliveries import newest_generations
from .models import Ticket, TicketFile, TicketStatus
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

    Where the order changed since, another render is enqueued instead. False, and nothing written,
    where it is not placed any more, has all that already, or another job issued its tickets.
    """
    if not order.is_placed:
        return False
    if order.version != made.order_version:
        enqueue("render_tickets", order_id=order.pk)
        return True
    issued = set(order.tickets.values_list("token", flat=True))
    if issued and issued != {ticket.token for ticket in made.tickets}:
        return False
    if not issued:
        _save_tickets(made, outbox_id)
    if not _save_file(order, made, outbox_id) and issued:
        return False
    enqueue("email_tickets", order_id=order.pk)
    return True


def _save_tickets(made: Made, outbox_id: int) -> None:
    for ticket in made.tickets:
        ticket.outbox_id = outbox_id
    Ticket.objects.bulk_create(made.tickets)


def _save_file(order: Order, made: Made, outbox_id: int) -> bool:
    content = {"name": made.name, "sha256": made.sha256, "size": made.size}
    _, new = TicketFile.objects.get_or_create(
        order=order,
        order_version=order.version,
        template_revision=TEMPLATE_REVISION,
        defaults={**content, "outbox_id": outbox_id},
    )
    return new


def void_tickets(order: Order) -> int:
    """In the caller's transaction, with the order locked: no ticket of it is valid any more."""
    return order.tickets.filter(status=TicketStatus.VALID).update(status=TicketStatus.VOID)


def newest_file(order: Order) -> TicketFile | None:
    """The file of the order as it is now."""
    current = order.files.filter(order_version=order.version)
    return current.order_by("-template_revision").first()


class Refused(Exception):
    """What was asked for cannot be done with this order; the text says why, nothing was written."""


@dataclass(frozen=True)
class Actor:
    """Who asks; `note` is told of the order and what was done to it, in the same transaction."""

    name: str
    note: Callable[[Order, str], None] = lambda order, words: None


def refund(order_id: int, reason: str, actor: Actor) -> bool:
    """T11: take the whole order back. False, and nothing written, where it is not placed."""
    with transaction.atomic(durable=True):
        order = lock_order(order_id)
        taken = refunds.take_back(order, reason, actor.name)
        if taken is None:
            return False
        void_tickets(order)
        enqueue("refund_order", order_id=order.pk)
        actor.note(order, f"refunded {in_words(taken.amount, order.currency)}: {reason}")
        refunds.give_places_back(order)
    return True


def paid_out(order_id: int, refund_id: int, actor: Actor) -> bool:
    """T11: what is owed for the order was paid. False, and nothing written, where that is known."""
    with transaction.atomic(durable=True):
        refund = Refund.objects.select_related("order").filter(pk=refund_id, order=order_id).first()
        if refund is None or not refunds.pay_out(refund):
            return False
        amount = in_words(refund.amount, refund.order.currency)
        actor.note(refund.order, f"marked {amount} as paid out")
    return True


def resend(order_id: int, seen: int, actor: Actor) -> bool:
    """T11: send the tickets once more, to the order's present address, under a key of its own.

    `seen`: the newest generation that the page showed. False, and nothing written, where there is
    a newer one: the same form again, or a colleague's. Raises Refused.
    """
    with transaction.atomic(durable=True):
        order = lock_order(order_id)
        _refuse_unless_sendable(order)
        if newest_generation(order) != seen:
            return False
        enqueue("resend_tickets", order_id=order.pk, generation=seen + 1)
        actor.note(order, f"resent the email, as number {seen + 1}")
    return True


def newest_generation(order: Order) -> int:
    """Of the order's ticket email: begun, or waiting for its job; at least 1, the first one's."""
    return newest_generations([order.pk])[order.pk]


def _refuse_unless_sendable(order: Order) -> None:
    _refuse_unless_placed(order)
    if newest_file(order) is None:
        raise Refused("It has no file yet: there is nothing to send. Render it again first.")


def _refuse_unless_placed(order: Order) -> None:
    if not order.is_placed:
        raise Refused(f"The order is {order.get_status_display()}: its tickets are not valid.")


def render_again(order_id: int, actor: Actor) -> int:
    """T11: make tickets and file once more; the id of the job. Raises Refused."""
    with transaction.atomic(durable=True):
        order = lock_order(order_id)
        _refuse_unless_placed(order)
        for job in open_jobs(f"order:{order.pk}", "render_tickets"):
            if not job.dead:
                raise Refused(f"Job {job.outbox_id} is to render it already.")
        outbox_id = enqueue("render_tickets", order_id=order.pk)
        actor.note(order, f"rendered again, by job {outbox_id}")
    return outbox_id
