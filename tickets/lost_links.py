"""The only writer of lost links: who asks for the links of an address, and the email that answers.

Nobody learns from it whether an address has orders: what is asked is written down and becomes a
job, whatever the address; the job looks.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet, Value
from django.db.models.functions import Lower, Now
from django.template.loader import render_to_string

from jobs.correlation import request_id
from jobs.outbox import enqueue
from orders.models import Order

from . import deliveries, mail, repeats
from .models import LinkDelivery, LostLinkRequest, placeholder
from .tokens import new_token

HOUR = timedelta(hours=1)
ANSWERS = 3
"""Emails to one address in an hour; who asks for more is told nothing of it."""
NEWEST = 20
"""Links in one email."""
OVER_AFTER = timedelta(hours=12)
"""After its start an event is taken for over: a link is missed most at the door."""
TURN_LOCK, ADDRESS_LOCK = 731_741, 731_742
"""Advisory locks: one counts and writes at a time, of all that is asked and for one address."""


class TooMany(Exception):
    """So many ask in this minute that nobody is listened to, whatever the address."""


def ask(email: str) -> None:
    """T11: the links of this address are asked for, whether it has any or not. Raises TooMany."""
    _refuse_above_rate()
    with transaction.atomic(durable=True):
        _lock(TURN_LOCK, "")
        _refuse_above_rate()
        asked = LostLinkRequest.objects.create(
            email=email, code=new_token(), request_id=request_id()
        )
        enqueue("email_links", asked_id=asked.pk)


def _refuse_above_rate() -> None:
    lately = LostLinkRequest.objects.filter(asked_at__gt=Now() - timedelta(minutes=1))
    if lately.count() >= settings.LOST_LINKS_PER_MINUTE:
        raise TooMany


def _lock(number: int, name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [number, name])


def begin(asked: LostLinkRequest, outbox_id: int) -> LinkDelivery | None:
    """T7: the words of the answer and its first try, committed before the provider is called.

    None where the address has no order to come, or was answered often enough.
    """
    known = LinkDelivery.objects.filter(asked=asked).first()
    if known is not None:
        return known
    orders = orders_of(asked.email)
    return _first_try(asked, orders, outbox_id) if orders else None


def orders_of(email: str) -> list[Order]:
    """Of this address, in whatever case: those whose event is not over, the newest first; one more
    than are told, where there are more."""
    found = to_come(Lower(Value(email))).select_related("event")
    return list(found.order_by("-placed_at", "-pk")[: NEWEST + 1])


def to_come(address: Lower) -> QuerySet[Order]:
    """The orders of the address, in lower case, whose event is not over."""
    # Lower case by PostgreSQL on both sides, as its index has it.
    of_address = Order.objects.alias(low=Lower("email")).filter(low=address)
    return of_address.filter(event__starts_at__gt=Now() - OVER_AFTER)


def _first_try(
    asked: LostLinkRequest, orders: Sequence[Order], outbox_id: int
) -> LinkDelivery | None:
    # Not to what was typed: two addresses that look the same can be written differently.
    recipient = orders[0].email
    key = mail.idempotency_key(asked.code, "links", 1, recipient)
    subject, text, html = compose(orders)
    with transaction.atomic(durable=True):
        _lock(ADDRESS_LOCK, recipient.lower())
        if _answered(recipient) >= ANSWERS:
            return None
        delivery, created = LinkDelivery.objects.get_or_create(
            asked=asked,
            defaults={
                "recipient": recipient,
                "order_ids": [order.pk for order in orders[:NEWEST]],
                "message_id": mail.message_id(key),
                "idempotency_key": key,
                "subject": subject,
                "text": text,
                "html": html,
                "outbox_id": outbox_id,
                **deliveries.first_try(),
            },
        )
    delivery.call_noted = created and settings.MAIL_KEY_WINDOW > 0
    return delivery


def _answered(recipient: str) -> int:
    return _answers_to(recipient).filter(first_try_at__gt=Now() - HOUR).count()


def _answers_to(recipient: str) -> QuerySet[LinkDelivery]:
    return LinkDelivery.objects.alias(low=Lower("recipient")).filter(low=Lower(Value(recipient)))


def emails_with(order: Order) -> QuerySet[LinkDelivery]:
    """The answers that had the order's link, without their words."""
    return _answers_to(order.email).filter(order_ids__contains=[order.pk]).defer("text", "html")


def compose(orders: Sequence[Order]) -> tuple[str, str, str]:
    """Subject, text and HTML; each link a placeholder."""
    context = {
        "orders": [
            {"order": order, "event": order.event, "link": placeholder(number)}
            for number, order in enumerate(orders[:NEWEST], start=1)
        ],
        "more": len(orders) > NEWEST,
        "newest": NEWEST,
        "shop": settings.SHOP_NAME,
    }
    return (
        mail.header(f"Your orders at {settings.SHOP_NAME}"),
        render_to_string("emails/links.txt", context),
        render_to_string("emails/links.html", context),
    )


def begin_again(asked_ids: Iterable[int]) -> None:
    """In the replay of their jobs: a person accepts that these may come twice."""
    repeats.allow_again(LinkDelivery.objects.filter(asked_id__in=list(asked_ids)))
