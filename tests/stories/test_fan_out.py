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
from tests.books import books_are_in_order
from tests.conftest import MailFolder
from tests.cuts import Cut
from tests.people import buy, new_type
from tests.processes import SHIPPED, Process, Product, wait_for
from tickets import rendering
from tickets.models import Delivery, Ticket, TicketFile

pytestmark = pytest.mark.django_db(transaction=True)

KINDS = ("cancelled", "moved")
NUMBER = 300 if SHIPPED else 60
FAST = {"MAIL_BULK_RATE": "1000", "MAIL_BULK_BATCH": str(NUMBER // 6)}
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
def kind(monkeypatch: pytest.MonkeyPatch, mailbox: MailFolder) -> TicketType:
    """Of an event with so many buyers, all with their tickets. (Files that cost no time.)"""
    blank = rendering.Rendered(pdf=b"%PDF", missing=())
    monkeypatch.setattr(rendering, "render_pdf", lambda html: blank)
    made = new_type(capacity=2 * NUMBER)
    for turn in range(NUMBER):
        buy(made, email=f"buyer-{turn}@example.org")
    drain()
    assert Delivery.objects.filter(state="sent").count() == NUMBER
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


def all_is_told_once(mailbox: MailFolder, what: str) -> None:
    wait_for(lambda: not OutboxRow.objects.exists(), "an empty outbox")
    assert set(told(mailbox, what).values()) == {1}
    assert len(told(mailbox, what)) == NUMBER
    # Of what was accepted nothing was sent a second time under another key.
    assert len(mailbox.messages()) == 2 * NUMBER
    found = Announcement.objects.get()
    assert (found.told, found.total) == (NUMBER, NUMBER)
    assert found.done_at is not None
    assert ProcessedJob.objects.filter(kind="announce_order").count() == NUMBER
    if what == "cancelled":
        assert set(Order.objects.values_list("status", flat=True)) == {"refunded"}
        assert set(Ticket.objects.values_list("status", flat=True)) == {"void"}
        assert Stock.objects.get().taken == 0
    else:
        assert TicketFile.objects.count() == 2 * NUMBER
    books_are_in_order()


def worker(product: Product, what: str, cut: Cut | None = None) -> Process:
    """A worker; tickets of a moved event are made again, in a process for it."""
    environment = FAST | (cut.environment() if cut else {})
    start = product.worker if what == "moved" else product.plain_worker
    return start("worker-1", **environment)


@pytest.mark.parametrize(("place", "what"), CUTS)
def test_the_worker_dies_in_a_batch(
    place: str, what: str, kind: TicketType, product: Product, redis: redis_client.Redis,
    mailbox: MailFolder, tmp_path: Path,
) -> None:  # fmt: skip
    announce(kind, what)
    product.relay()
    cut = Cut(place, tmp_path / "mark")
    cut.was_hit_by(worker(product, what, cut))
    worker(product, what)
    all_is_told_once(mailbox, what)


@pytest.mark.parametrize("what", KINDS if SHIPPED else KINDS[:1])
def test_every_worker_dies_when_half_are_told(
    what: str, kind: TicketType, product: Product, redis: redis_client.Redis, mailbox: MailFolder
) -> None:
    announce(kind, what)
    product.relay()
    first = worker(product, what)
    wait_for(lambda: len(told(mailbox, what)) >= NUMBER // 2, "half of them told")
    first.kill()
    assert len(told(mailbox, what)) < NUMBER
    worker(product, what)
    all_is_told_once(mailbox, what)


def test_a_ticket_placed_in_the_middle_of_it_is_emailed_before_the_bulk_is_over(
    kind: TicketType, product: Product, redis: redis_client.Redis, mailbox: MailFolder
) -> None:
    announce(kind, "cancelled")
    other = new_type()
    product.relay()
    product.worker("worker-1", MAIL_BULK_RATE="10", MAIL_BULK_BATCH="10")
    wait_for(lambda: len(told(mailbox, "cancelled")) >= 5, "some of them told")
    order = buy(other, email="late@example.org")
    sent = Delivery.objects.filter(order_id=order.id, kind="tickets", state="sent")
    wait_for(sent.exists, "the ticket emailed")
    assert len(told(mailbox, "cancelled")) < NUMBER
    assert OutboxRow.objects.filter(lane="bulk").exists()
