"""Every arrow of the way is cut once by SIGKILL; afterwards all is done, and done once.

A process of the product ends itself at a failpoint, leaves a mark, and is started again.
"""

from datetime import timedelta
from pathlib import Path

import pytest
import redis as redis_client
from django.db import transaction

from jobs.models import OutboxRow, ProcessedJob, Purge
from jobs.outbox import enqueue
from orders.models import Order
from stagedoor.embedded.server import free_port
from tests.books import books_are_in_order
from tests.conftest import MailFolder
from tests.cuts import HIT, Cut
from tests.jobs.test_purging import processed
from tests.people import buy, new_event, new_type
from tests.processes import Product, wait_for
from tests.stories.browser import Browser
from tickets.models import Delivery, Ticket, TicketFile

pytestmark = pytest.mark.django_db(transaction=True)


def check_all_is_done_once(mailbox: MailFolder, tickets: int) -> None:
    wait_for(lambda: not OutboxRow.objects.exists(), "an empty outbox")
    assert ProcessedJob.objects.count() == 2
    assert sorted(ProcessedJob.objects.values_list("kind", flat=True)) == [
        "email_tickets",
        "render_tickets",
    ]
    assert Ticket.objects.filter(status="valid").count() == tickets
    assert TicketFile.objects.count() == 1
    assert Delivery.objects.get().state == "sent"
    assert len(mailbox.messages()) == 1
    books_are_in_order()


def nothing_pending(redis: redis_client.Redis) -> bool:
    return bool(redis.xpending("jobs", "workers")["pending"] == 0)


@pytest.mark.parametrize("kind", ["render_tickets", "email_tickets"])
@pytest.mark.parametrize(
    "place",
    ["runner.before_effects", "runner.moved", "runner.before_commit", "runner.committed"],
)
def test_the_worker_dies(
    place: str, kind: str, product: Product, redis: redis_client.Redis, mailbox: MailFolder,
    tmp_path: Path,
) -> None:  # fmt: skip
    cut = Cut(f"{place}/{kind}", tmp_path / "mark")
    product.relay()
    buy(new_type(), 2)
    cut.was_hit_by(product.worker(**cut.environment()))
    product.worker(**cut.environment())
    check_all_is_done_once(mailbox, tickets=2)
    wait_for(lambda: nothing_pending(redis), "every entry acknowledged")


def test_the_relay_dies(
    product: Product, redis: redis_client.Redis, mailbox: MailFolder, tmp_path: Path
) -> None:
    cut = Cut("relay.appended/render_tickets", tmp_path / "mark")
    buy(new_type(), 2)
    cut.was_hit_by(product.relay(**cut.environment()))
    assert redis.xlen("jobs") == 1
    product.relay(**cut.environment())
    product.worker()
    check_all_is_done_once(mailbox, tickets=2)
    assert redis.xlen("jobs") == 3
    wait_for(lambda: nothing_pending(redis), "every entry acknowledged")


def test_the_web_process_dies(product: Product, mailbox: MailFolder, tmp_path: Path) -> None:
    """gunicorn starts its process again; the buyer's second press finds the order placed."""
    cut = Cut("enqueue.committed", tmp_path / "mark")
    kind = new_type(event=new_event(slug="cut"))
    port = free_port()
    product.web(port, **cut.environment())
    browser = Browser(port)
    form = browser.form("cut", name="Ada", email="ada@example.org", **{f"quantity-{kind.pk}": "2"})
    with pytest.raises(OSError, match=r"closed|reset|urlopen"):
        browser.send(form)
    assert cut.mark.read_text().strip() == cut.place
    HIT.add(cut.place)
    code = Order.objects.get().code
    product.relay()
    product.worker()
    assert f"/orders/{code}/" in browser.send(form)
    check_all_is_done_once(mailbox, tickets=2)
    assert Order.objects.count() == 1


def test_a_worker_dies_between_two_batches_of_a_purge(
    product: Product, redis: redis_client.Redis, tmp_path: Path
) -> None:
    for number in range(1, 36):
        processed(number, timedelta(days=401))
    with transaction.atomic():
        pk = enqueue("purge_shelf", shelf="processed", cursor=0)
    OutboxRow.objects.filter(pk=pk).update(id=1000)
    product.relay()
    cut = Cut("purging.committed", tmp_path / "mark")
    cut.was_hit_by(product.plain_worker("worker-1", **cut.environment(), JOBS_PURGE_BATCH="10"))
    assert ProcessedJob.objects.count() == 25
    product.plain_worker("worker-1", **cut.environment(), JOBS_PURGE_BATCH="10")
    wait_for(lambda: not OutboxRow.objects.exists(), "an empty outbox")
    assert [job.kind for job in ProcessedJob.objects.all()] == ["purge_shelf"]
    assert Purge.objects.get().rows == 35
    books_are_in_order()
