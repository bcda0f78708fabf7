"""The emails about an order: their words, their keys, and the message that goes out."""

import hashlib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from email.policy import Policy, default
from email.utils import format_datetime
from typing import Any
from urllib.parse import urlsplit

from babel.dates import format_date
from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.urls import reverse

from orders import admissions, announcements, refunds
from orders.admissions import Admission
from orders.links import secret_of
from orders.models import Announcement, Order
from orders.money import in_words

from .models import ANNOUNCED, LINK, Delivery, Email, MessageKind, TicketFile, TicketStatus

EVENT_LENGTH = timedelta(hours=2)
"""Shown in the buyer's calendar: posters tell no end."""


@dataclass(frozen=True)
class Words:
    """A rendered message, the link a placeholder; `calendar` empty where there is no date."""

    subject: str
    text: str
    html: str
    calendar: str


def idempotency_key(code: str, kind: str, generation: int, recipient: str) -> str:
    """The same for every try of one message to one recipient; without the address in it."""
    address = hashlib.sha256(recipient.encode()).hexdigest()[:16]
    return f"{kind}/{code}/{generation}/{address}"


def message_id(key: str) -> str:
    """The Message-ID of every try."""
    host = urlsplit(settings.BASE_URL).hostname or "localhost"
    return f"<{hashlib.sha256(key.encode()).hexdigest()[:32]}@{host}>"


SUBJECTS = {
    MessageKind.TICKETS: "Your tickets for {title} ({code})",
    MessageKind.CHANGED: "Your tickets for {title} were changed ({code})",
    MessageKind.REFUND: "Your order for {title} was refunded ({code})",
    MessageKind.MOVED: "{title} has a new time ({code})",
    MessageKind.CANCELLED: "{title} is cancelled ({code})",
    MessageKind.REMINDER: "{title} is on {day} ({code})",
}
WITH_DATE = (MessageKind.TICKETS, MessageKind.MOVED)
"""The emails that put the event into the buyer's calendar."""
PART_REFUNDED = "Part of your order for {title} was refunded ({code})"


def compose(order: Order, kind: MessageKind, file: TicketFile | None, generation: int = 1) -> Words:
    """Render the words once: a deploy between two tries may change the templates.

    `generation`: which refund of the order, or announcement of its event, where they tell of one.
    """
    left = admissions.left(order)
    about = _about(order, kind, generation)
    context = {
        "order": order,
        "event": order.event,
        "lines": admissions.shares(about),
        "amount": refunds.amount_of(about),
        "total": in_words(refunds.amount_of(about), order.currency),
        "left": left,
        "tickets": order.tickets.filter(status=TicketStatus.VALID),
        "announcement": _announcement(order, kind, generation),
        "attached": file is not None and file.size <= settings.MAIL_ATTACHMENT_LIMIT,
        "shop": settings.SHOP_NAME,
        "link": LINK,
    }
    subject = PART_REFUNDED if kind == MessageKind.REFUND and left else SUBJECTS[kind]
    return Words(
        subject=header(_filled_in(subject, order)),
        text=render_to_string(f"emails/{kind}.txt", context),
        html=render_to_string(f"emails/{kind}.html", context),
        calendar=_calendar(order) if kind in WITH_DATE else "",
    )


def _filled_in(subject: str, order: Order) -> str:
    # A date, not "tomorrow": it may be sent late, or read later.
    day = format_date(order.event.starts, "EEEE, d MMMM", locale="en")
    return subject.format(title=order.event.title, code=order.code, day=day)


def _about(order: Order, kind: MessageKind, generation: int) -> list[Admission]:
    if kind == MessageKind.REFUND:
        return _covered(order, generation)
    if kind == MessageKind.CANCELLED:
        return _covered(order, refunds.newest_number(order))
    return admissions.left(order)


def _announcement(order: Order, kind: MessageKind, number: int) -> Announcement | None:
    if kind not in ANNOUNCED.values():
        return None
    return order.event.announcements.get(number=number)


def _covered(order: Order, number: int) -> list[Admission]:
    refund = refunds.numbered(order.pk, number)
    return refunds.covered(refund) if refund else []


def header(text: str) -> str:
    """`text` as it may stand in a header."""
    # Whatever was typed in the admin: a line end would begin another header.
    visible = "".join(" " if unicodedata.category(letter)[0] in "CZ" else letter for letter in text)
    return " ".join(visible.split())[:250]


def _calendar(order: Order) -> str:
    # Slow to load, and most processes make none.
    from icalendar import Calendar, Event

    event = Event()
    event.add("uid", f"{order.code}@{urlsplit(settings.BASE_URL).hostname}")
    # A later one, under the same uid, takes the place of what the buyer's calendar has.
    event.add("sequence", announcements.newest_number(order.event))
    event.add("dtstamp", order.placed_at)
    event.add("dtstart", order.event.starts)
    event.add("dtend", (order.event.starts_at + EVENT_LENGTH).astimezone(order.event.zone))
    event.add("summary", order.event.title)
    event.add("location", order.event.venue)
    event.add("description", f"Doors open at {order.event.doors:%H:%M}. Order {order.code}.")
    calendar = Calendar()
    calendar.add("prodid", "-//Stagedoor//tickets//EN")
    calendar.add("version", "2.0")
    calendar.add_component(event)
    calendar.add_missing_timezones()
    return str(calendar.to_ical().decode())


def outgoing(email: Email, pdf: bytes | None) -> EmailMultiAlternatives:
    """The message of every try of `email`; `pdf` None leaves the link alone."""
    links = {placeholder: link_of(order) for placeholder, order in email.links().items()}
    message = _Message(
        subject=email.subject,
        body=_filled(email.text, links),
        to=[email.recipient],
        headers={
            "Date": format_datetime(email.first_try_at),
            "Message-ID": email.message_id,
            "Idempotency-Key": email.idempotency_key,
            "Auto-Submitted": "auto-generated",
        },
    )
    message.attach_alternative(_filled(email.html, links), "text/html")
    if isinstance(email, Delivery):
        _attach(message, email, pdf)
    return message


class _Message(EmailMultiAlternatives):
    """The same bytes at every try: Django leaves the lines between the parts to chance."""

    def message(self, *, policy: "Policy[Any] | None" = default) -> Any:
        """As Django makes it, the lines between the parts made of its Message-ID."""
        made = super().message(policy=policy)
        name = hashlib.sha256(self.extra_headers["Message-ID"].encode()).hexdigest()[:32]
        for number, part in enumerate(made.walk()):
            if part.get_content_maintype() == "multipart":
                part.set_boundary(f"={name}-{number}")
        return made


def link_of(order: Order) -> str:
    """The order's secret link."""
    secret = secret_of(order.pk, order.link_key, order.link_version)
    return f"{settings.BASE_URL}{reverse('order-link', args=[secret])}"


def _filled(words: str, links: Mapping[str, str]) -> str:
    for placeholder, link in links.items():
        words = words.replace(placeholder, link)
    return words


def _attach(message: EmailMultiAlternatives, delivery: Delivery, pdf: bytes | None) -> None:
    code = delivery.order.code
    if pdf is not None:
        message.attach(f"tickets-{code}.pdf", pdf, "application/pdf")
    if delivery.calendar:
        message.attach(f"event-{code}.ics", delivery.calendar, "text/calendar")
