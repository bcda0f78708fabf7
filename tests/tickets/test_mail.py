"""The ticket email: what is in it, the same at every try, no header made of what was typed."""

import email
import email.policy
import io
import unicodedata
from collections.abc import Callable
from email.message import EmailMessage
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.core.mail import EmailMessage as DjangoMessage
from django.test import Client, override_settings
from django.utils import timezone
from icalendar import Calendar
from pypdf import PdfReader

from jobs.models import OutboxRow
from jobs.testing import drain
from orders.models import Event
from orders.services import PlacedOrder
from stagedoor.mailbox import Mailbox
from tests.conftest import MailFolder
from tests.people import TicketTypeFactory, buy
from tests.web import Answer
from tickets import mail
from tickets.files import ticket_storage
from tickets.models import LINK, Delivery, Ticket, TicketFile

pytestmark = pytest.mark.django_db(transaction=True)


def the_message(mailbox: MailFolder) -> EmailMessage:
    [path] = mailbox.messages()
    return email.message_from_bytes(path.read_bytes(), policy=email.policy.default)


def parts(message: EmailMessage) -> dict[str, EmailMessage]:
    """The leaves of the message by type."""
    return {part.get_content_type(): part for part in message.walk() if not part.is_multipart()}


def calendar_of(message: EmailMessage) -> Calendar:
    found = Calendar.from_ical(parts(message)["text/calendar"].get_content())
    assert isinstance(found, Calendar)
    return found


def send(number: int = 1, **event: object) -> PlacedOrder:
    """Sell, make and email tickets."""
    changes = {f"event__{name}": value for name, value in event.items()}
    placed = buy(TicketTypeFactory(**changes), number)
    drain()
    return placed


def test_the_email_has_text_html_the_pdf_and_the_date(mailbox: MailFolder) -> None:
    placed = send(2)
    message = the_message(mailbox)
    found = parts(message)
    assert set(found) == {"text/plain", "text/html", "application/pdf", "text/calendar"}
    assert message["Subject"] == f"Your tickets for Nachtkonzert ({placed.code})"
    assert message["To"] == "buyer@example.org"
    assert message["From"] == settings.DEFAULT_FROM_EMAIL
    assert message["Auto-Submitted"] == "auto-generated"
    for kind in ("text/plain", "text/html"):
        words = found[kind].get_content()
        for part in ("Nachtkonzert", "20:00", "Europe/Berlin", "Kammersaal", placed.code, "€85.00"):
            assert part in words, (kind, part)
        assert f"{settings.BASE_URL}/o/{placed.secret}/" in words
    assert found["application/pdf"].get_filename() == f"tickets-{placed.code}.pdf"
    assert found["text/calendar"].get_filename() == f"event-{placed.code}.ics"


def test_the_attached_pdf_is_the_stored_file(mailbox: MailFolder) -> None:
    send(3)
    attached = parts(the_message(mailbox))["application/pdf"].get_content()
    with ticket_storage().open(TicketFile.objects.get().name) as stored:
        assert attached == stored.read()
    assert len(PdfReader(io.BytesIO(attached)).pages) == 3


def test_the_date_is_in_the_events_zone(mailbox: MailFolder) -> None:
    send()
    calendar = calendar_of(the_message(mailbox))
    entry: Any = calendar.walk("VEVENT")[0]
    event = Event.objects.get()
    assert entry["dtstart"].params["TZID"] == "Europe/Berlin"
    assert entry["dtstart"].dt == event.starts
    assert entry["dtstart"].dt.replace(tzinfo=None) == event.starts_local
    assert entry["dtend"].dt > entry["dtstart"].dt
    [zone] = calendar.walk("VTIMEZONE")
    assert zone["tzid"] == "Europe/Berlin"
    assert entry["summary"] == "Nachtkonzert"


@pytest.mark.parametrize("tz", ["America/New_York", "Asia/Kathmandu", "UTC"])
def test_the_date_is_right_in_any_zone(mailbox: MailFolder, tz: str) -> None:
    send(tz=tz)
    entry: Any = calendar_of(the_message(mailbox)).walk("VEVENT")[0]
    assert entry["dtstart"].dt.astimezone(ZoneInfo(tz)) == Event.objects.get().starts


def test_the_link_in_the_email_opens_the_order(client: Client, mailbox: MailFolder) -> None:
    send()
    words = parts(the_message(mailbox))["text/plain"].get_content()
    [link] = [word for word in words.split() if "/o/" in word]
    answer: Answer = client.get(link.removeprefix(settings.BASE_URL), follow=True)
    assert answer.status_code == 200
    assert b"Your tickets are emailed" in answer.content


def test_the_database_keeps_the_words_without_link_and_tokens(mailbox: MailFolder) -> None:
    placed = send()
    row = str(Delivery.objects.values().get())
    assert LINK in row
    assert placed.secret not in row
    assert Ticket.objects.get().token not in row


FIRST_TRY = "runner.before_effects/email_tickets"


def test_a_try_that_failed_late_is_repeated_with_the_same_key_and_words(
    mailbox: MailFolder,
    at_failpoint: Callable[[Callable[[str], None]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[EmailMessage] = []
    failed: list[str] = []
    monkeypatch.setattr(Mailbox, "_accept", _noting(sent))

    def fail_once(place: str) -> None:
        if place == FIRST_TRY and not failed:
            failed.append(place)
            raise RuntimeError("after the provider's answer, before the commit")

    at_failpoint(fail_once)
    send()
    # A deploy and the box office between the two tries.
    Event.objects.update(title="Another", venue="Elsewhere")
    monkeypatch.setattr(mail, "render_to_string", lambda *_: "other words")
    OutboxRow.objects.update(available_at=timezone.now())
    drain()
    first, second = sent
    for name in ("Message-ID", "Idempotency-Key", "Subject", "Date", "To", "From"):
        assert first[name] == second[name] != ""
    assert contents(first) == contents(second)
    assert [call["accepted"] for call in mailbox.calls()] == [True, False]
    assert len(mailbox.messages()) == 1
    assert Delivery.objects.get().state == "sent"
    assert not OutboxRow.objects.exists()


def contents(message: EmailMessage) -> list[object]:
    return [part.get_content() for part in message.walk() if not part.is_multipart()]


def _noting(sent: list[EmailMessage]) -> Callable[[Mailbox, DjangoMessage], None]:
    accept = Mailbox._accept

    def note(mailbox: Mailbox, message: DjangoMessage) -> None:
        content = message.message().as_bytes()
        sent.append(email.message_from_bytes(content, policy=email.policy.default))
        accept(mailbox, message)

    return note


def test_the_keys_name_no_address_and_differ_by_order_and_recipient() -> None:
    keys = {
        mail.idempotency_key(code, "tickets", generation, to)
        for code in ("AAAAAAAA", "BBBBBBBB")
        for generation in (1, 2)
        for to in ("a@example.org", "b@example.org")
    }
    assert len(keys) == len({mail.message_id(key) for key in keys}) == 8
    assert not any("@" in key for key in keys)


def test_above_the_limit_the_link_alone_is_sent(client: Client, mailbox: MailFolder) -> None:
    with override_settings(MAIL_ATTACHMENT_LIMIT=100):
        placed = send()
    found = parts(the_message(mailbox))
    assert set(found) == {"text/plain", "text/html", "text/calendar"}
    for kind in ("text/plain", "text/html"):
        words = found[kind].get_content()
        assert "Download your tickets" in words
        assert "attached" not in words
        assert f"/o/{placed.secret}/" in words


INJECTIONS = [
    "Night\r\nBcc: all@example.org",
    "Night\nBcc: all@example.org\n\nbody",
    "Night\u2028Bcc: all@example.org",
    "Night\x0bBcc: all@example.org",
    "Night\x00\x07Bcc",
    "Ночь 🌒 " * 20,
]


@pytest.mark.parametrize("title", INJECTIONS)
def test_nothing_that_was_typed_becomes_a_header(mailbox: MailFolder, title: str) -> None:
    send(title=title.replace("\x00", "")[:120], venue=title.replace("\x00", "")[:120])
    message = the_message(mailbox)
    assert message["Bcc"] is message["Cc"] is None
    assert message["To"] == "buyer@example.org"
    assert len(str(message["Subject"]).splitlines()) == 1
    assert not any(unicodedata.category(letter) == "Cc" for letter in str(message["Subject"]))
    entry: Any = calendar_of(message).walk("VEVENT")[0]
    assert entry["summary"].split() == title.replace("\x00", "")[:120].split()


def test_markup_in_a_title_stays_text_in_the_html(mailbox: MailFolder) -> None:
    send(title="<script>alert(1)</script> & more")
    found = parts(the_message(mailbox))
    assert "<script>" not in found["text/html"].get_content()
    assert "<script>alert(1)</script> & more" in found["text/plain"].get_content()


def test_a_title_that_looks_like_the_placeholder_does_not_get_the_link(mailbox: MailFolder) -> None:
    placed = send(title=LINK)
    message = the_message(mailbox)
    assert placed.secret not in str(message["Subject"])
    assert placed.secret not in parts(message)["text/calendar"].get_content()
