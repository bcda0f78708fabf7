"""An event is cancelled or moved, and the worker that tells its buyers is killed in the middle."""

import itertools
from collections import Counter
from email import policy
from email.parser import BytesHeaderParser
from pathlib import Path

import pytest
import redis as redis_client

from jobs.models import OutboxRow, ProcessedJob
from jobs.testing import drain
from orders import announcements
from orders.announcements import Deed, When
from orders.models import Announcement, Order, Stock, TicketType
from orders.wallclock import instant
from tests.blank_pages import BLANK
from tests.blank_pages.renderer import blank_pdf
from tests.books import books_are_in_order
from tests.conftest import MailFolder
from tests.cuts import Cut
from tests.people import buy, new_type
from tests.processes import SHIPPED, Process, Product, wait_for
from tickets import rendering
from tickets.models import Delivery, Ticket, TicketFile

pytestmark = pytest.mark.django_db(transaction=True)

KINDS = ("cancelled", "moved")
MANY = 300
NUMBER = MANY if SHIPPED else 60
"""Buyers of an event; of the one whose telling is cut at half, MANY."""
FAST = {"MAIL_BULK_RATE": "1000", "MAIL_BULK_BATCH": str(NUMBER // 6)}
RELAY = {} if SHIPPED else {"JOBS_BULK_OUT": "100", "JOBS_RELAY_POLL": "0.1"}
"""As many out as two seconds bring, which a relay looks at once a second."""
PLACES = (
    "runner.before_commit/announce_event",
    "runner.committed/announce_event",
    "runner.before_commit/announce_order",
)
# In the gate each place and each kind once, in `make chaos` all with all.
CUTS = (
    list(itertools.product(PLACES, KINDS))
    if SHIPPED
    else list(zip(PLACES, itertools.cycle(KINDS), strict=False))
)
SUBJECTS = {"moved": "has a new time", "cancelled": "is cancelled"}


@pytest.fixture
def number() -> int:
    """How many buyers the event has."""
    return NUMBER


@pytest.fixture
def kind(number: int, monkeypatch: pytest.MonkeyPatch, mailbox: MailFolder) -> TicketType:
    """Of an event with so many buyers, all with their tickets. (Files that cost no time.)"""
    monkeypatch.setattr(rendering, "render_pdf", blank_pdf)
    made = new_type(capacity=2 * number)
    for turn in range(number):
        buy(made, email=f"buyer-{turn}@example.org")
    drain()
    assert Delivery.objects.filter(state="sent").count() == number
    return made


def announce(kind: TicketType, what: str) -> None:
    event, deed = kind.event, Deed(seen=0, by="carla", reason="ill", words="Sorry!")
    if what == "cancelled":
        assert announcements.cancel(event.pk, deed)
        return
    local = event.starts_local.replace(year=event.starts_local.year + 1)
    to = When(
        starts_local=local, starts_fold=None, starts_at=instant(local, event.tz), doors_minutes=60
    )
    assert announcements.move(event.pk, to, deed)


def told(mailbox: MailFolder, what: str) -> Counter[str]:
    """How many emails of this kind each address has been sent."""
    heads = (_head(path) for path in mailbox.messages())
    return Counter(address for address, subject in heads if SUBJECTS[what] in subject)


def _head(path: Path) -> tuple[str, str]:
    parser = BytesHeaderParser(policy=policy.default)
    head = parser.parsebytes(path.read_bytes())
    return str(head["To"]), str(head["Subject"])


def all_is_told_once(mailbox: MailFolder, what: str, number: int = NUMBER) -> None:
    wait_for(lambda: not OutboxRow.objects.exists(), "an empty outbox")
    assert set(told(mailbox, what).values()) == {1}
    assert len(told(mailbox, what)) == number
    # Of what was accepted nothing was sent a second time under another key.
    assert len(mailbox.messages()) == 2 * number
    found = Announcement.objects.get()
    assert (found.told, found.total) == (number, number)
    assert found.done_at is not None
    assert ProcessedJob.objects.filter(kind="announce_order").count() == number
    if what == "cancelled":
        assert set(Order.objects.values_list("status", flat=True)) == {"refunded"}
        assert set(Ticket.objects.values_list("status", flat=True)) == {"void"}
        assert Stock.objects.get().taken == 0
    else:
        assert TicketFile.objects.count() == 2 * number
    books_are_in_order()


def worker(product: Product, what: str, cut: Cut | None = None) -> Process:
    """A worker; tickets of a moved event are made again, in a process for it."""
    environment = FAST | BLANK | (cut.environment() if cut else {})
    start = product.worker if what == "moved" else product.plain_worker
    return start("worker-1", **environment)


@pytest.mark.parametrize(("place", "what"), CUTS)
def test_the_worker_dies_in_a_batch(
    place: str, what: str, kind: TicketType, product: Product, redis: redis_client.Redis,
    mailbox: MailFolder, tmp_path: Path,
) -> None:  # fmt: skip
    announce(kind, what)
    product.relay(**RELAY)
    cut = Cut(place, tmp_path / "mark")
    cut.was_hit_by(worker(product, what, cut))
    worker(product, what)
    all_is_told_once(mailbox, what)


@pytest.mark.parametrize("number", [MANY])
@pytest.mark.parametrize("what", KINDS if SHIPPED else KINDS[:1])
def test_every_worker_dies_when_half_are_told(
    what: str, number: int, kind: TicketType, product: Product, redis: redis_client.Redis,
    mailbox: MailFolder,
) -> None:  # fmt: skip
    announce(kind, what)
    product.relay(**RELAY)
    first = worker(product, what)
    sent = Delivery.objects.filter(kind=what, state="sent")
    wait_for(lambda: sent.count() >= number // 2, "half of them told")
    first.kill()
    assert len(told(mailbox, what)) < number
    worker(product, what)
    all_is_told_once(mailbox, what, number)


def test_a_ticket_placed_in_the_middle_of_it_is_emailed_before_the_bulk_is_over(
    kind: TicketType, product: Product, redis: redis_client.Redis, mailbox: MailFolder
) -> None:
    announce(kind, "cancelled")
    other = new_type()
    product.relay()
    product.worker("worker-1", MAIL_BULK_RATE="10", MAIL_BULK_BATCH="10")
    wait_for(lambda: Delivery.objects.filter(kind="cancelled").count() >= 5, "some of them told")
    order = buy(other, email="late@example.org")
    sent = Delivery.objects.filter(order_id=order.id, kind="tickets", state="sent")
    wait_for(sent.exists, "the ticket emailed")
    assert len(told(mailbox, "cancelled")) < NUMBER
    assert OutboxRow.objects.filter(lane="bulk").exists()
