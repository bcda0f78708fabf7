"""What whoever holds an order's link does to it (T11): the email once more, another holder.

Each is one transaction, one job, and a row that limits count and the timeline tells.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from jobs.correlation import request_id
from jobs.outbox import enqueue
from orders.models import Event, EventStatus, Order
from orders.services import lock_order, raise_version

from .files import deleted_file, newest_file
from .models import Act, BuyerAct, Ticket, TicketStatus
from .services import Refused, newest_generation
from .tokens import new_token

HOUR = timedelta(hours=1)
LIMITS = {Act.RESEND: 3, Act.RENAME: 10}
"""In an hour, of one order."""
ASKED = "asked for the email"


class TooOften(Refused):
    """The limit is reached; the text says until when."""


class Outdated(Refused):
    """The ticket is not as the page showed it."""


@dataclass(frozen=True, slots=True)
class NewHolder:
    """Another name for the ticket `seq`, whose version was `seen`; cleaned."""

    seq: int
    seen: int
    name: str


def refuse_resend(order: Order) -> None:
    """Raise Refused, in words for the buyer, where there is nothing to send."""
    _refuse_unless_placed(order)
    if deleted_file(order):
        raise Refused(
            "The event is long over: we do not keep the tickets of past events. If you still need "
            "them, please write to us."
        )
    if newest_file(order) is None:
        raise Refused(
            "Your tickets are being made. The email comes by itself as soon as they are there."
        )


def refuse_resend_offer(order: Order) -> None:
    """The same for a page that offers it: also where the limit is reached."""
    refuse_resend(order)
    _refuse_above_limit(order, Act.RESEND, ASKED)


def resend(order_id: int, seen: int) -> bool:
    """T11: send the tickets once more, see `services.resend`. Raises Refused."""
    with transaction.atomic(durable=True):
        order = lock_order(order_id)
        refuse_resend(order)
        if newest_generation(order) != seen:
            return False
        _refuse_above_limit(order, Act.RESEND, ASKED)
        job = enqueue("resend_tickets", order_id=order.pk, generation=seen + 1)
        _note(order, Act.RESEND, job, f"asked for the email again, number {seen + 1}")
    return True


def rename(order_id: int, new: NewHolder) -> bool:
    """T11: another holder: from this commit on the old code opens no door.

    False, and nothing written, where the ticket has that name already: the same form again.
    Raises Ticket.DoesNotExist, Refused.
    """
    with transaction.atomic(durable=True):
        order = lock_order(order_id)
        refuse_rename(order)
        # Locked: whoever lets somebody in with it now comes first, or finds no such code.
        ticket = order.tickets.select_for_update(no_key=True).get(seq=new.seq)
        refuse_ticket(ticket)
        if ticket.holder_name == new.name:
            return False
        _refuse_above_limit(order, Act.RENAME, "changed a name")
        _put_name(ticket, new)
        raise_version(order)
        job = enqueue("render_tickets", order_id=order.pk)
        _note(order, Act.RENAME, job, f"ticket {new.seq}: {ticket.holder_name} → {new.name}")
    return True


def refuse_rename(order: Order) -> None:
    """Raise Refused, in words for the buyer, where no name of the order can be changed now."""
    _refuse_unless_placed(order)
    _refuse_once_begun(order.event)
    if not order.tickets.exists():
        raise Refused("Your tickets are being made. Names can be changed once they are there.")


def refuse_ticket(ticket: Ticket) -> None:
    """Raise Refused, in words for the buyer, where this ticket's name can not be changed."""
    if ticket.status != TicketStatus.VALID:
        raise Refused(f"Ticket {ticket.seq} is not valid any more.")
    if ticket.used_at is not None:
        raise Refused(f"Somebody went in with ticket {ticket.seq} already.")


def _refuse_unless_placed(order: Order) -> None:
    if not order.is_placed:
        raise Refused(
            f"This order was {order.get_status_display()}: its tickets are no longer valid."
        )


def _refuse_once_begun(event: Event) -> None:
    if event.status == EventStatus.CANCELLED:
        raise Refused("The event was cancelled.")
    if event.starts_at <= timezone.now():
        raise Refused("The event has begun: names cannot be changed any more.")


def _put_name(ticket: Ticket, new: NewHolder) -> None:
    as_seen = Ticket.objects.filter(pk=ticket.pk, version=new.seen, status=TicketStatus.VALID)
    changed = as_seen.update(
        holder_name=new.name,
        token=new_token(),
        version=F("version") + 1,
        issued_at=timezone.now().replace(microsecond=0),
    )
    if changed != 1:
        raise Outdated(
            "This ticket was changed since you opened the page: it is shown as it is now, and your "
            "change was not made."
        )


def _refuse_above_limit(order: Order, what: Act, words: str) -> None:
    # Counted under the order's lock, by the clock of the database: two presses are not both third.
    lately = order.acts.filter(what=what, at__gt=Now() - HOUR).order_by("-at")
    times = list(lately.values_list("at", flat=True)[: LIMITS[what]])
    if len(times) == LIMITS[what]:
        again = _in_words(times[-1] + HOUR, order.event)
        raise TooOften(
            f"You {words} {LIMITS[what]} times within an hour. It is possible again at {again}."
        )


def _in_words(moment: datetime, event: Event) -> str:
    local = (moment + timedelta(seconds=59)).astimezone(event.zone)
    return f"{local:%H:%M} ({event.tz})"


def _note(order: Order, what: Act, job: int, words: str) -> None:
    BuyerAct.objects.create(
        order=order,
        what=what,
        note=words,
        order_version=order.version,
        outbox_id=job,
        request_id=request_id(),
    )


def renamable(order: Order) -> list[Ticket]:
    """The order's valid tickets, for a page that offers to change their holders."""
    valid = order.tickets.filter(status=TicketStatus.VALID)
    return list(valid.select_related("ticket_type"))


def names_are_open(order: Order) -> bool:
    """Whether names of this order can be changed now."""
    try:
        refuse_rename(order)
    except Refused:
        return False
    return True
