"""The only writer of tickets; what staff does to an order (T11)."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from django.db import transaction

from jobs.outbox import enqueue
from jobs.story import open_jobs
from orders import admissions, refunds
from orders.models import Order, Refund, RefundStatus
from orders.money import in_words
from orders.services import lock_order, raise_version

from . import files, telling
from .files import Made, deleted_file, newest_file
from .generations import newest_generations
from .models import Ticket, TicketStatus


def issue(order: Order, made: Made, outbox_id: int) -> bool:
    """Inside `effects()`, with the order locked: its tickets, its file, and the job of its email.

    Where the order changed since, another render is enqueued instead. False, and nothing written,
    where it is not placed any more, has all that already, or another job issued its tickets. A
    file that takes the place of a deleted one has a version of its own, and no email. Raises
    TryLater where its content was deleted since it was stored.
    """
    if not order.is_placed:
        return False
    if order.version != made.order_version:
        enqueue("render_tickets", order_id=order.pk)
        return True
    valid = order.tickets.filter(status=TicketStatus.VALID)
    issued = set(valid.values_list("token", flat=True))
    if issued and issued != {ticket.token for ticket in made.tickets}:
        return False
    if not issued:
        _save_tickets(made, outbox_id)
    if issued and deleted_file(order) is not None:
        raise_version(order)
        return files.save(order, made, outbox_id)
    if not files.save(order, made, outbox_id) and issued:
        return False
    telling.enqueue_email(order)
    return True


def renew(order: Order, made: Made, outbox_id: int) -> bool:
    """Inside `effects()`, with the order locked: another file, under a version of its own, and no
    email, unless one is begun with the old file and not sent. Until then the old one is the
    order's file, and its codes are the same.

    Where the order changed since, another render is enqueued instead. False, and nothing written,
    where it is not placed any more, its tickets are others, or the file is the one it has.
    """
    if not order.is_placed:
        return False
    if order.version != made.order_version:
        enqueue("rerender_tickets", order_id=order.pk)
        return True
    present = newest_file(order)
    valid = order.tickets.filter(status=TicketStatus.VALID).values_list("token", flat=True)
    if present is None or present.sha256 == made.sha256:
        return False
    if set(valid) != {ticket.token for ticket in made.tickets}:
        return False
    raise_version(order)
    telling.enqueue_untold(order)
    return files.save(order, made, outbox_id)


def _save_tickets(made: Made, outbox_id: int) -> None:
    for ticket in made.tickets:
        ticket.outbox_id = outbox_id
    Ticket.objects.bulk_create(made.tickets)


def void_tickets(order: Order) -> int:
    """In the caller's transaction, with the order locked: no ticket of it is valid any more."""
    return order.tickets.filter(status=TicketStatus.VALID).update(status=TicketStatus.VOID)


def void_refunded(order: Order) -> int:
    """The same of those whose admission is refunded: all of a refunded order."""
    if not order.is_placed:
        return void_tickets(order)
    refunded = order.tickets.filter(status=TicketStatus.VALID, seq__in=admissions.refunded(order))
    return refunded.update(status=TicketStatus.VOID)


class Refused(Exception):
    """What was asked for cannot be done with this order; the text says why, nothing was written."""


@dataclass(frozen=True)
class Actor:
    """Who asks; `note` is told of the order and what was done to it, in the same transaction."""

    name: str
    note: Callable[[Order, str], None] = lambda order, words: None


def refund(
    order_id: int,
    reason: str,
    actor: Actor,
    *,
    seqs: Collection[int] | None = None,
    seen: int | None = None,
    used: bool = True,
) -> bool:
    """T11: take back all that is left of the order, or of it the admissions `seqs`.

    `seen`: how many refunds of it the page knew of. False, and nothing written, where there are
    more, where the order is not placed or one of these is refunded. Raises Refused where it takes
    back none that are `used`, and somebody went in with one of them.
    """
    with transaction.atomic(durable=True):
        order = lock_order(order_id)
        if seen is not None and refunds.newest_number(order) != seen:
            return False
        taken = refunds.take_back(order, reason, actor.name, seqs)
        if taken is None:
            return False
        if not used:
            _refuse_used(order, taken)
        void_refunded(order)
        enqueue("refund_order", order_id=order.pk)
        if order.is_placed:
            enqueue("render_tickets", order_id=order.pk)
        actor.note(order, _in_words(order, taken))
        refunds.give_places_back(taken)
    return True


def _refuse_used(order: Order, taken: Refund) -> None:
    # Locked: whoever is at the door with it now comes first, or finds it void.
    tickets = order.tickets.filter(seq__in=taken.items.values("seq"))
    gone_in = [one.seq for one in tickets.select_for_update(no_key=True) if was_used(one)]
    if gone_in:
        numbers = ", ".join(map(str, gone_in))
        raise Refused(f"Somebody went in with ticket {numbers}: it cannot be given back.")


def was_used(ticket: Ticket) -> bool:
    """Whether somebody went in with it."""
    return ticket.used_at is not None


def _in_words(order: Order, taken: Refund) -> str:
    amount = in_words(taken.amount, order.currency)
    which = ", ".join(str(one.seq) for one in refunds.covered(taken))
    part = f" for ticket {which}" if order.is_placed or taken.number > 1 else ""
    return f"refunded {amount}{part}: {taken.reason}"


def follow_up(order: Order, outbox_id: int) -> bool:
    """Inside `effects()`, with the order locked: what a render that was under way has made valid
    is void, and each refund has its email and its payment, jobs of their own. False where all that
    was so."""
    voided = void_refunded(order) if refunds.newest_number(order) or order.is_refunded else 0
    numbers = refunds.follow_up(order, outbox_id)
    for number in numbers:
        enqueue("email_refund", order_id=order.pk, number=number)
        enqueue("pay_refund", order_id=order.pk, number=number)
    return bool(voided or numbers)


def paid_out(order_id: int, refund_id: int, actor: Actor) -> bool:
    """T11: what is owed for the order was paid by hand. False, and nothing written, where that is
    known. Raises Refused while a job that has asked the provider goes on: it may be paid twice."""
    with transaction.atomic(durable=True):
        refund = Refund.objects.select_for_update(no_key=True).filter(pk=refund_id, order=order_id)
        found = refund.first()
        if found is None:
            return False
        _refuse_while_asked(found)
        if not refunds.pay_out(found):
            return False
        amount = in_words(found.amount, found.order.currency)
        actor.note(found.order, f"marked {amount} as paid out")
    return True


def _refuse_while_asked(refund: Refund) -> None:
    if refund.tried_at is None or refund.status != RefundStatus.REQUESTED:
        return
    for job in open_jobs(f"order:{refund.order_id}", "pay_refund"):
        if not job.dead and job.args.get("number") == refund.number:
            raise Refused(f"Job {job.outbox_id} has asked the payment provider for it already.")


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
    if gone := deleted_file(order):
        raise Refused(f"{files.told_deleted(gone)}. Render it again first, then resend the email.")
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
