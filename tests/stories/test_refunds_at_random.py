"""Orders whose jobs arrive in any order, refunds between them, workers that are killed: every
refunded admission ends without a valid ticket, every other with its own, each place once.

The seed is fixed, so that a run can be had again; REFUND_SEED and REFUND_ORDERS choose others.
"""

import io
import os
import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from django.db import OperationalError, connection
from pypdf import PdfReader
from redis import Redis

from jobs.models import OutboxRow
from orders.models import Order, Refund, Stock, TicketType
from orders.services import PlacedOrder, place_order
from tests.blank_pages import BLANK
from tests.books import books_are_in_order
from tests.conftest import MailFolder
from tests.people import new_event, new_type, wish
from tests.processes import SHIPPED, Process, Product, wait_for
from tickets import files, services
from tickets.models import Delivery, Ticket
from tickets.services import Actor

pytestmark = pytest.mark.django_db(transaction=True)
SEED = int(os.environ.get("REFUND_SEED", "20261130"))
ORDERS = int(os.environ.get("REFUND_ORDERS", "3000" if SHIPPED else "150"))
KILLS = max(3, ORDERS // 60)
SHUFFLE = """
UPDATE jobs_outbox SET available_at = statement_timestamp() - make_interval(secs => mixed.late)
FROM unnest(%s::bigint[], %s::float[]) AS mixed (id, late)
WHERE jobs_outbox.id = mixed.id AND relayed_at IS NULL AND dead_at IS NULL
    AND available_at <= statement_timestamp()
"""
"""A relay publishes by the time since which a row is due."""
PAGES = {} if SHIPPED else BLANK
LONGEST_PAUSE = 0.15 if SHIPPED else 0.05
"""Seconds between two deeds: what was begun by one is under way at the next."""


class Night:
    """A relay, two workers, and what buyers and chance do."""

    def __init__(self, product: Product) -> None:
        self.chance = random.Random(SEED)
        self.product = product
        self.counts: Counter[str] = Counter()
        self.orders: list[PlacedOrder] = []
        self.sizes: dict[int, int] = {}
        self.refunded: dict[int, set[int]] = {}
        self.workers: dict[str, Process] = {}
        event = new_event()
        self.kinds = [
            new_type(capacity=10 * ORDERS, event=event, price=price) for price in (4250, 2000)
        ]

    def place(self) -> None:
        """One order of one to four tickets of two types."""
        quantities = {kind.pk: self.chance.randint(0, 2) for kind in self.kinds}
        wanted = {pk: number for pk, number in quantities.items() if number}
        order = place_order(wish(self.kinds[0], quantities=wanted or {self.kinds[0].pk: 1}))
        self.orders.append(order)
        self.sizes[order.id] = sum(wanted.values()) or 1
        self.refunded[order.id] = set()

    def refund(self) -> None:
        """Some of an order, or all that is left of it; now and then what is refunded already."""
        order = self.chance.choice(self.orders)
        every = set(range(1, self.sizes[order.id] + 1))
        some = set(self.chance.sample(sorted(every), self.chance.randint(1, len(every))))
        seqs = None if self.chance.random() < 0.5 else some
        # The same press twice, as people do.
        for _ in range(self.chance.choice((1, 1, 2))):
            if self._refund(order, seqs):
                self.refunded[order.id] |= every if seqs is None else seqs
                self.counts["refunds"] += 1

    @staticmethod
    def _refund(order: PlacedOrder, seqs: set[int] | None) -> bool:
        try:
            return services.refund(order.id, "cannot come", Actor("boxoffice"), seqs=seqs)
        except OperationalError:
            # A killed worker's session may hold the order for a moment.
            connection.close()
            return False

    def shuffle(self) -> None:
        """What waits in the outbox goes out in another order."""
        waiting = list(OutboxRow.objects.live().values_list("pk", flat=True).order_by("pk"))
        late = [self.chance.uniform(0, 5) for _ in waiting]
        with connection.cursor() as cursor:
            cursor.execute(SHUFFLE, [waiting, late])

    def tend(self) -> None:
        """Whoever was killed is started again."""
        for name in ("worker-1", "worker-2"):
            worker = self.workers.get(name)
            if worker is None or worker.popen.poll() is not None:
                self.workers[name] = self.product.worker(name, **PAGES)

    def kill(self) -> None:
        """SIGKILL to a worker and its children, in the middle of whatever it does."""
        self.workers[self.chance.choice(sorted(self.workers))].kill()
        self.counts["kills"] += 1

    def all_done(self) -> bool:
        self.tend()
        return not OutboxRow.objects.live().exists()


def deeds(night: Night) -> Iterator[str]:
    """What happens after the first half of the orders was placed, in the order of chance."""
    half = ORDERS - len(night.orders)
    found = ["place"] * half + ["refund"] * (ORDERS // 2) + ["shuffle"] * 10 + ["kill"] * KILLS
    night.chance.shuffle(found)
    yield from found


def raise_the_dead() -> int:
    """What died with its workers three times is replayed, as staff would."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_outbox SET dead_at = NULL, starts = 0, relayed_at = NULL,"
            " entry_id = NULL, available_at = now() WHERE dead_reason = 'worker died 3 times'"
        )
        return int(cursor.rowcount)


def test_whatever_comes_first_each_admission_is_valid_or_refunded(
    product: Product, redis: Redis, mailbox: MailFolder
) -> None:
    night = Night(product)
    print(f"\nrefunds at random: seed {SEED}, {ORDERS} orders")
    for _ in range(ORDERS // 2):
        night.place()
    for _ in range(ORDERS // 6):
        night.refund()
    night.shuffle()
    product.relay()
    night.tend()
    night.workers["worker-1"].wait_until_said("is ready")
    for deed in deeds(night):
        getattr(night, deed)()
        night.tend()
        pause = time.monotonic() + night.chance.uniform(0, LONGEST_PAUSE)
        wait_for(lambda p=pause: time.monotonic() > p, "the next deed")  # type: ignore[misc]
    wait_for(night.all_done, "no live row", seconds=120 + ORDERS)
    night.counts["raised"] = raise_the_dead()
    wait_for(night.all_done, "no live row", seconds=120)
    print(dict(night.counts))
    assert night.counts["refunds"] > ORDERS // 6
    assert not OutboxRow.objects.exists()
    for order in night.orders:
        _check_order(order, night.sizes[order.id], night.refunded[order.id])
    _check_stock(night.kinds)
    _check_emails(night, mailbox)
    books_are_in_order()


def _check_order(placed: PlacedOrder, size: int, refunded: set[int]) -> None:
    order = Order.objects.get(pk=placed.id)
    left = set(range(1, size + 1)) - refunded
    valid = order.tickets.filter(status="valid").values_list("seq", flat=True)
    assert (order.status, set(valid)) == ("placed" if left else "refunded", left)
    if not left:
        assert order.refunds.exists()
        return
    file = files.newest_file(order)
    assert file is not None
    if refunded:
        with files.ticket_storage().open(file.name) as stored:
            assert len(PdfReader(io.BytesIO(stored.read())).pages) == len(left)


def _check_stock(kinds: list[TicketType]) -> None:
    for kind in kinds:
        live = Ticket.objects.filter(ticket_type=kind, status="valid").count()
        assert Stock.objects.get(pk=kind.pk).taken == live


def _check_emails(night: Night, mailbox: MailFolder) -> None:
    told = Delivery.objects.filter(kind="refund", state="sent")
    assert told.count() == Refund.objects.count() == night.counts["refunds"]
    assert len(mailbox.messages()) == Delivery.objects.filter(state="sent").count()
