"""An order over HTTP becomes PDF tickets whose codes scan, and exactly one email."""

import io
import json
import re
import urllib.parse
from email import message_from_bytes, policy
from pathlib import Path

import pypdfium2
import pytest
import redis as redis_client
import zxingcpp
from pypdf import PdfReader

from jobs.models import OutboxRow, ProcessedJob
from stagedoor.embedded.server import free_port
from tests.conftest import MailFolder
from tests.people import new_event, new_type
from tests.processes import Process, Product, wait_for
from tickets.models import Ticket

from .browser import Browser

pytestmark = pytest.mark.django_db(transaction=True)
REQUEST_ID = "story-7f3a9c2e"


def state_of(browser: Browser, page: str) -> dict[str, object]:
    answer: dict[str, object] = json.loads(browser.get(f"{page}status/")[1])
    return answer


def codes_in(pdf: bytes) -> list[str]:
    """What a scanner reads from each page."""
    found = []
    for page in pypdfium2.PdfDocument(pdf):
        picture = page.render(scale=3).to_pil()
        found += [code.text for code in zxingcpp.read_barcodes(picture)]
    return found


def test_an_order_becomes_tickets_that_scan_and_one_email(
    product: Product, redis: redis_client.Redis, mailbox: MailFolder
) -> None:
    event = new_event(title="Don’t Panic — Live", slug="dont-panic")
    stalls = new_type(event=event, name="Stalls")
    gallery = new_type(event=event, name="Gallery")
    port = free_port()
    parts = [product.web(port), product.relay(), product.worker()]

    browser = Browser(port)
    numbers = {f"quantity-{stalls.pk}": "2", f"quantity-{gallery.pk}": "1"}
    form = browser.form("dont-panic", name="Zoë O’Hara", email="zoe@example.org", **numbers)
    page = browser.send(form, {"X-Request-ID": REQUEST_ID})
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/orders/[2-9A-Z]{8}/", page)
    wait_for(lambda: state_of(browser, page)["state"] == "emailed", "the order to be emailed")

    status = state_of(browser, page)
    path = urllib.parse.urlsplit(page).path
    assert status == {"state": "emailed", "tickets": 3, "pdf": f"{path}tickets.pdf", "estimate": ""}
    _, pdf = browser.get(str(status["pdf"]))
    _check_pdf(pdf)
    _check_email(mailbox.messages(), pdf)
    assert not OutboxRow.objects.exists()
    assert ProcessedJob.objects.count() == 2
    _check_logs(parts)
    assert [part.stop() for part in reversed(parts)] == [0, 0, 0]


def _check_pdf(pdf: bytes) -> None:
    pages = PdfReader(io.BytesIO(pdf)).pages
    assert len(pages) == 3
    assert "Zoë O’Hara" in pages[0].extract_text()
    tokens = codes_in(pdf)
    assert len(tokens) == len(set(tokens)) == 3
    for token in tokens:
        assert Ticket.objects.get(token=token).status == "valid"


def _check_email(files: list[Path], pdf: bytes) -> None:
    [file] = files
    message = message_from_bytes(file.read_bytes(), policy=policy.default)
    assert message["To"] == "zoe@example.org"
    attached = {part.get_content_type(): part.get_content() for part in message.iter_attachments()}
    assert attached["application/pdf"] == pdf
    assert "text/calendar" in attached
    body = message.get_body(("plain",))
    assert body is not None
    assert "/o/" in body.get_content()


def _check_logs(parts: list[Process]) -> None:
    web, relay, worker = (
        [line for line in part.log().splitlines() if REQUEST_ID in line] for part in parts
    )
    [posted] = [line for line in web if "POST /orders/" in line]
    assert [sum(f"relayed {kind}" in line for line in relay) for kind in KINDS] == [1, 1]
    assert [sum(f"{kind} done" in line for line in worker) for kind in KINDS] == [1, 1]
    [trace] = re.findall(r"trace=(\S+)", posted)
    assert all(f"trace={trace}" in line for line in (*relay, *worker))
    assert not any(re.search(r"/o/[A-Z2-7]{10}", part.log()) for part in parts)


KINDS = ("render_tickets", "email_tickets")
