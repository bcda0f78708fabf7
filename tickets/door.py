"""The door: what was scanned or typed becomes one ticket, and lets somebody in once (T12)."""

import hashlib
import re
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import Count, QuerySet
from django.utils import timezone

from orders.models import Event, EventStatus
from orders.services import CODE_ALPHABET

from .models import Answer, Scan, Ticket, TicketStatus
from .tokens import is_token, meant

CODE_LENGTH = 8
"""Letters of an order's code; the number of the ticket follows."""
SAME_PRESS = timedelta(seconds=10)
"""A scanner that ends a code with two Enters sends the form twice: the second one is no scan."""
SHOWN = 10
"""Scans on the page."""


@dataclass(frozen=True, kw_only=True)
class Door:
    """Who stands there, and the `key` that the form of this scan carries.

    `asked`: whoever came has said the name on the ticket.
    """

    by: str
    key: str
    asked: bool = False


def scan(event: Event, typed: str, door: Door) -> Scan:
    """T12: the answer to one scan. The first one of a valid ticket lets in, every later one not:
    one conditional UPDATE decides, however many doors there are.

    By an order's code and a number nobody is let in unless `door.asked`: they are no secret, and
    an older paper, of somebody who gave the ticket away, shows the same ones.
    """
    key = _digest(door.key, typed)
    with transaction.atomic(durable=True):
        answer, ticket = _answered(event, typed, door)
        if answer == Answer.USED and (first := _same_press(ticket, key)):
            return first
        return Scan.objects.create(
            event=event, ticket=ticket, answer=answer, by=door.by, key=key, at=timezone.now()
        )


def _answered(event: Event, typed: str, door: Door) -> tuple[Answer, Ticket | None]:
    found = _meant(event, typed)
    if len(found) > 1:
        return Answer.WHICH, None
    if not found:
        return Answer.UNKNOWN, None
    if not door.asked and not _is_secret(typed) and _is_open(found[0], event):
        return Answer.NAME, found[0]
    if _admit(found[0], event, door):
        return Answer.VALID, found[0]
    ticket = _tickets().get(pk=found[0].pk)
    return _refusal(ticket, event), ticket


def _is_secret(typed: str) -> bool:
    return is_token(meant(_plain(typed)))


def _is_open(ticket: Ticket, event: Event) -> bool:
    unused = ticket.status == TicketStatus.VALID and ticket.used_at is None
    return unused and _is_for(ticket, event)


def _is_for(ticket: Ticket, event: Event) -> bool:
    return ticket.order.event_id == event.pk and event.status != EventStatus.CANCELLED


def _admit(ticket: Ticket, event: Event, door: Door) -> bool:
    if not _is_for(ticket, event):
        return False
    # Of columns of its own alone: across a join it would be a subquery, which is not looked at
    # again after a wait, and two doors would let in two. By the token too: who gave the ticket a
    # new one meanwhile has made this one worthless.
    open_ones = Ticket.objects.filter(
        pk=ticket.pk, token=ticket.token, status=TicketStatus.VALID, used_at=None
    )
    return open_ones.update(used_at=timezone.now(), used_by=door.by) == 1


def _refusal(ticket: Ticket, event: Event) -> Answer:
    if ticket.order.event_id != event.pk:
        return Answer.OTHER_EVENT
    # Of a cancelled event it may still be valid: its refund waits for its turn.
    if ticket.status != TicketStatus.VALID or event.status == EventStatus.CANCELLED:
        return Answer.VOID
    return Answer.USED if ticket.used_at else Answer.UNKNOWN


def _same_press(ticket: Ticket | None, key: str) -> Scan | None:
    fresh = Scan.objects.filter(
        ticket=ticket, key=key, answer=Answer.VALID, at__gt=timezone.now() - SAME_PRESS
    )
    return fresh.select_related("ticket__order__event", "ticket__ticket_type").first()


def _digest(key: str, typed: str) -> str:
    # With what was typed: a page from the browser's memory, used for another ticket, is another
    # scan. Of it nothing can be read back: a token has 130 bits.
    return hashlib.sha256(f"{key}\0{_plain(typed)}".encode(errors="replace")).hexdigest()[:32]


def _plain(typed: str) -> str:
    return re.sub(r"[\s\-‐-―_./#]", "", typed).upper()


def _meant(event: Event, typed: str) -> list[Ticket]:
    """The ticket of that token, or of that order's code and the ticket's number in it.

    Of an order's code alone: all its tickets.
    """
    text = _plain(typed)
    if is_token(token := meant(text)):
        return list(_tickets().filter(token=token))
    code, number = text[:CODE_LENGTH], text[CODE_LENGTH:]
    if len(code) < CODE_LENGTH or not set(code) <= set(CODE_ALPHABET):
        return []
    of_order = _tickets().filter(order__code=code)
    if number:
        return list(of_order.filter(seq=int(number))) if re.fullmatch(r"[0-9]{1,4}", number) else []
    return list(of_order)


def _tickets() -> QuerySet[Ticket]:
    return Ticket.objects.select_related("order__event", "ticket_type").order_by("seq")


def newest_scans(event: Event) -> list[Scan]:
    """The last ten at every door of the event, the newest first."""
    found = Scan.objects.filter(event=event).select_related(
        "ticket__order__event", "ticket__ticket_type"
    )
    return list(found.order_by("-pk")[:SHOWN])


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many are in, of how many who may come."""

    inside: int
    expected: int


def crowd(event: Event) -> Crowd:
    """Of the event, now."""
    valid = Ticket.objects.filter(order__event=event, status=TicketStatus.VALID)
    # A count of a column leaves its nulls out.
    return Crowd(**valid.aggregate(inside=Count("used_at"), expected=Count("pk")))
