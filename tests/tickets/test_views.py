"""The pages of a placed order: its states, its file, and who may see them."""

import contextlib
import io
import json
import logging
from typing import Any

import pytest
from django.db.models import F
from django.test import Client
from django.utils import timezone
from pypdf import PdfReader

from jobs.models import OutboxRow
from jobs.testing import drain
from orders.models import Order, OrderStatus
from orders.services import PlacedOrder
from stagedoor.logs import JsonFormatter, ReadableFormatter
from tests import servers
from tests.conftest import MailFolder
from tests.people import TicketTypeFactory, buy
from tests.web import Answer, forget_connections, open_order, text
from tickets.files import ticket_storage
from tickets.models import Ticket, TicketFile, TicketStatus

pytestmark = pytest.mark.django_db(transaction=True)

PRIVATE = {
    "Cache-Control": "no-store, private",
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex",
}
MADE = "Your tickets are being made"


@pytest.fixture
def placed() -> PlacedOrder:
    """Two tickets, sold."""
    return buy(TicketTypeFactory(), 2)


@pytest.fixture
def page(client: Client, placed: PlacedOrder) -> str:
    """The order's address, in a browser that has followed its link."""
    return open_order(client, placed)


def render() -> None:
    """Run the jobs that are due; the email, enqueued by them, waits."""
    with contextlib.suppress(RuntimeError):
        drain(rounds=1)


def give_up() -> None:
    OutboxRow.objects.update(dead_at=timezone.now())


def end(status: OrderStatus) -> None:
    """As a refund or cancellation does."""
    Order.objects.update(status=status, version=F("version") + 1)
    Ticket.objects.update(status=TicketStatus.VOID)


def state(client: Client, page: str) -> tuple[str, int, str | None]:
    """What the page's script reads."""
    answer: Answer = client.get(f"{page}status/")
    assert answer.status_code == 200
    found: dict[str, Any] = json.loads(answer.content)
    assert set(found) == {"state", "tickets", "pdf", "estimate"}
    return found["state"], found["tickets"], found["pdf"]


def shown(client: Client, page: str) -> set[str]:
    """The states whose words the page shows."""
    parts = text(client.get(page)).split('<div data-for="')[1:]
    return {part.split('"')[0] for part in parts if " hidden>" not in part.split("\n")[0]}


def test_the_state_follows_an_order_from_placed_to_emailed(
    client: Client, page: str, mailbox: MailFolder
) -> None:
    assert state(client, page) == ("placed", 0, None)
    assert shown(client, page) == {"placed"}
    render()
    assert state(client, page) == ("ready", 2, f"{page}tickets.pdf")
    assert shown(client, page) == {"ready"}
    assert not mailbox.messages()
    drain()
    assert state(client, page) == ("emailed", 2, f"{page}tickets.pdf")
    assert shown(client, page) == {"emailed"}


def test_an_order_whose_render_was_given_up_is_delayed(client: Client, page: str) -> None:
    give_up()
    assert state(client, page) == ("delayed", 0, None)
    assert shown(client, page) == {"delayed"}
    answer: Answer = client.get(f"{page}tickets.pdf")
    assert (answer.status_code, "We are on it" in text(answer)) == (202, True)


def test_of_an_order_whose_email_was_given_up_the_email_is_late_and_the_file_is_there(
    client: Client, page: str
) -> None:
    render()
    give_up()
    assert state(client, page) == ("email_delayed", 2, f"{page}tickets.pdf")
    assert shown(client, page) == {"email_delayed"}
    answer: Answer = client.get(f"{page}tickets.pdf")
    assert answer["Content-Type"] == "application/pdf"
    answer.close()


def test_a_dead_job_of_another_order_delays_nobody_else(client: Client, page: str) -> None:
    other = buy(TicketTypeFactory())
    OutboxRow.objects.filter(subject=f"order:{other.id}").update(dead_at=timezone.now())
    assert state(client, page)[0] == "placed"


def test_a_discarded_dead_job_delays_nobody(client: Client, page: str) -> None:
    OutboxRow.objects.update(dead_at=timezone.now(), discarded_at=timezone.now())
    assert state(client, page)[0] == "placed"


@pytest.mark.parametrize("status", [OrderStatus.REFUNDED, OrderStatus.CANCELLED])
def test_an_order_that_was_taken_back_has_no_tickets_and_no_file(
    client: Client, page: str, mailbox: MailFolder, status: OrderStatus
) -> None:
    drain()
    end(status)
    assert state(client, page) == (status.value, 0, None)
    assert shown(client, page) == {status.value}
    answer: Answer = client.get(f"{page}tickets.pdf")
    assert answer.status_code == 410
    assert "no longer valid" in text(answer)
    assert b"%PDF" not in answer.content
    assert 'http-equiv="refresh"' not in text(answer)


def test_the_file_is_a_page_that_tries_again_until_it_is_there(client: Client, page: str) -> None:
    before: Answer = client.get(f"{page}tickets.pdf")
    assert before.status_code == 202
    assert MADE in text(before)
    assert 'http-equiv="refresh"' in text(before)
    render()
    after: Answer = client.get(f"{page}tickets.pdf")
    assert after["Content-Type"] == "application/pdf"
    assert "attachment" in after["Content-Disposition"]
    reader = PdfReader(io.BytesIO(b"".join(after.streaming_content)))
    assert len(reader.pages) == 2
    after.close()


def test_a_file_that_the_storage_lost_is_said_to_be_delayed_and_logged(
    client: Client, page: str, caplog: pytest.LogCaptureFixture
) -> None:
    render()
    ticket_storage().delete(TicketFile.objects.get().name)
    answer: Answer = client.get(f"{page}tickets.pdf")
    assert answer.status_code == 202
    assert "We are on it" in text(answer)
    assert "missing from the storage" in caplog.text


@pytest.mark.parametrize("before_ready", [True, False], ids=["placed", "emailed"])
def test_the_page_refreshes_itself_without_a_script_while_there_is_news_to_come(
    client: Client, page: str, mailbox: MailFolder, before_ready: bool
) -> None:
    if not before_ready:
        drain()
    refresh = '<noscript><meta http-equiv="refresh"'
    assert (refresh in text(client.get(page))) is before_ready


def test_pages_of_an_order_stay_out_of_caches_indexes_and_referrers(
    client: Client, placed: PlacedOrder, page: str
) -> None:
    render()
    for path in (f"/o/{placed.secret}/", page, f"{page}status/", f"{page}tickets.pdf"):
        answer: Answer = client.get(path)
        assert {name: answer[name] for name in PRIVATE} == PRIVATE
        answer.close()


def test_whoever_holds_no_grant_gets_one_and_the_same_404(
    client: Client, placed: PlacedOrder, page: str
) -> None:
    other = buy(TicketTypeFactory())
    stranger = Client()
    forged = Client()
    forged.cookies["grant"] = f"{placed.code}:1:forged:signature"
    borrowed = Client()
    borrowed.cookies["grant"] = client.cookies["grant"].value
    answers: list[Answer] = [
        stranger.get("/orders/NOSUCH22/"),
        stranger.get(page),
        stranger.get(f"{page}status/"),
        stranger.get(f"{page}tickets.pdf"),
        stranger.get("/o/" + "A" * 26 + "/"),
        stranger.get("/o/x/"),
        stranger.get("/o/%00%ff%fe/"),
        stranger.get("/orders/%00/"),
        stranger.get("/orders/" + "A" * 5000 + "/"),
        forged.get(page),
        borrowed.get(f"/orders/{other.code}/"),
        borrowed.get("/orders/%00/"),
        stranger.get("/no-such-page/"),
    ]
    for answer in answers:
        assert answer.status_code == 404
        assert answer.content == answers[0].content
        assert {name: answer[name] for name in PRIVATE} == PRIVATE
        assert answer.cookies == answers[0].cookies


def test_a_grant_is_for_its_order_alone_and_needs_no_session(
    client: Client, placed: PlacedOrder, page: str
) -> None:
    other = buy(TicketTypeFactory())
    assert client.get(page).status_code == 200
    assert client.get(f"/orders/{other.code}/").status_code == 404
    assert set(client.cookies) == {"grant"}


def test_a_revoked_link_closes_page_and_link(
    client: Client, placed: PlacedOrder, page: str
) -> None:
    Order.objects.update(link_version=2, secret_digest=b"another")
    for path in (page, f"{page}status/", f"{page}tickets.pdf", f"/o/{placed.secret}/"):
        assert client.get(path).status_code == 404


def test_over_https_the_grant_goes_over_https_alone(client: Client, placed: PlacedOrder) -> None:
    answer: Answer = client.get(f"/o/{placed.secret}/", secure=True)
    cookie = answer.cookies["grant"]
    assert (cookie["secure"], cookie["httponly"], cookie["samesite"]) == (True, True, "Lax")


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_pages_of_an_order_are_for_reading_only(client: Client, page: str, method: str) -> None:
    for path in (page, f"{page}status/", f"{page}tickets.pdf", "/o/x/"):
        assert getattr(client, method)(path).status_code == 405


def test_reading_changes_nothing(client: Client, placed: PlacedOrder, page: str) -> None:
    render()
    before = list(Order.objects.values()), OutboxRow.objects.count(), Ticket.objects.count()
    for path in (f"/o/{placed.secret}/", page, f"{page}status/", f"{page}tickets.pdf"):
        for method in (client.get, client.head):
            answer: Answer = method(path)
            answer.close()
    now = list(Order.objects.values()), OutboxRow.objects.count(), Ticket.objects.count()
    assert now == before


def test_an_outage_on_the_secret_link_keeps_the_secret_out_of_every_log(
    client: Client, placed: PlacedOrder, caplog: pytest.LogCaptureFixture
) -> None:
    forget_connections()
    servers.POSTGRES.kill()
    try:
        with caplog.at_level(logging.DEBUG):
            answer: Answer = client.get(f"/o/{placed.secret}/")
    finally:
        servers.POSTGRES.start()
        forget_connections()
    assert answer.status_code == 503
    assert placed.secret not in text(answer)
    assert any(record.name == "django.request" for record in caplog.records)
    for record in caplog.records:
        for formatter in (JsonFormatter(), ReadableFormatter()):
            assert placed.secret not in formatter.format(record)
