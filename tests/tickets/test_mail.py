"""The ticket email: what is in it, the same at every try, and nothing that was typed becomes a header."""

import email
import email.policy
import io
from email.message import EmailMessage
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.template import engines
from django.test import Client, override_settings
from icalendar import Calendar
from pypdf import PdfReader

from jobs.testing import drain
from orders.models import Event, Order
from orders.services import PlacedOrder
from tests.conftest import MailFolder
from tests.people import TicketTypeFactory, buy
from tests.web import Answer
from tickets import mail
from tickets.models import Delivery, Ticket, TicketFile
from tickets.services import begin_delivery, newest_file, ticket_storage

pytestmark = pytest.mark.django_db(transaction=True)


def the_message(mailbox: MailFolder) -> EmailMessage:
    [path] = mailbox.messages()
    return email.message_from_bytes(path.read_bytes(), policy=email.policy.default)


def parts(message: EmailMessage) -> dict[str, EmailMessage]:
    """The leaves of the message by type."""
    return {
        part.get_content_type(): part for part in message.walk() if not part.is_multipart()
    }


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
    content = parts(the_message(mailbox))["text/calendar"].get_content()
    calendar = Calendar.from_ical(content)
    [entry] = calendar.walk("VEVENT")
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
    content = parts(the_message(mailbox))["text/calendar"].get_content()
    [entry] = Calendar.from_ical(content).walk("VEVENT")
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
    assert mail.LINK in row
    assert placed.secret not in row
    assert Ticket.objects.get().token not in row


def test_two_tries_send_the_same_key_message_id_and_words(
    mailbox: MailFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed = buy(TicketTypeFactory())
    order, first, second = _two_tries(placed)
    assert first.message().as_bytes().split(b"\n\n")[0] == first.message().as_bytes().split(b"\n\n")[0]
    for name in ("Message-ID", "Idempotency-Key"):
        assert first.extra_headers[name] == second.extra_headers[name]
    assert (first.subject, first.body, first.alternatives) == (
        second.subject,
        second.body,
        second.alternatives,
    )
    assert first.attachments == second.attachments
    assert Delivery.objects.count() == 1
    assert order.email not in first.extra_headers["Idempotency-Key"]


def _two_tries(placed: PlacedOrder) -> tuple[Order, mail.EmailMultiAlternatives, mail.EmailMultiAlternatives]:
    raise NotImplementedError
