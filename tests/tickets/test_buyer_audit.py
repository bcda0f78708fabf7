"""The books of what buyers do by themselves: each way to break them is named."""

from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.utils.module_loading import autodiscover_modules

from jobs.audit import audit
from jobs.testing import drain
from orders.models import Order
from orders.services import PlacedOrder
from tests.conftest import MailFolder
from tests.people import buy, new_type
from tickets import buyer, lost_links
from tickets.buyer import NewHolder
from tickets.models import BuyerAct, LostLinkRequest

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def order(redis: Any, mailbox: MailFolder) -> PlacedOrder:
    """An order whose tickets were emailed."""
    placed = buy(new_type())
    drain()
    return placed


def broken() -> str:
    """What breaks the books, in the words of the audit."""
    autodiscover_modules("audit")
    report = audit(settings.REDIS_URL, after=0.0, pause=0.01)
    lines = str(report).splitlines()
    return "\n".join(line for line in lines if "BROKEN" in line or line.startswith("        "))


def sql(statement: str) -> None:
    """Break the books by hand: exactly one row."""
    with connection.cursor() as cursor:
        cursor.execute(statement)
        assert cursor.rowcount == 1


def test_what_a_buyer_did_without_its_job_is_named(order: PlacedOrder) -> None:
    buyer.resend(order.id, 1)
    assert not broken()
    drain()
    assert not broken()
    sql("DELETE FROM jobs_processed WHERE kind = 'resend_tickets'")
    assert f"resend of order {order.id}" in broken()


def test_a_new_holder_whom_no_email_brings_is_named(order: PlacedOrder) -> None:
    buyer.rename(order.id, NewHolder(1, 1, "Grace Hopper"))
    assert not broken()
    sql("UPDATE jobs_outbox SET dead_at = now(), dead_reason = 'failed' WHERE relayed_at IS NULL")
    assert not broken()
    sql("UPDATE jobs_outbox SET dead_at = NULL")
    drain()
    assert not broken()
    sql("DELETE FROM tickets_delivery WHERE kind = 'changed'")
    named = broken()
    assert "a placed order with a new holder has a render or an email of it" in named
    assert f"order {order.id}" in named
    Order.objects.update(status="cancelled")
    assert "new holder" not in broken()


def test_a_lost_link_without_its_job_is_named(order: PlacedOrder) -> None:
    lost_links.ask("nobody@example.org")
    assert not broken()
    drain()
    assert not broken()
    sql("DELETE FROM jobs_processed WHERE kind = 'email_links'")
    assert f"lost link {LostLinkRequest.objects.get().pk}" in broken()


def test_an_answer_that_was_sent_and_whose_job_is_not_done_is_named(order: PlacedOrder) -> None:
    lost_links.ask("buyer@example.org")
    drain()
    assert not broken()
    sql("UPDATE tickets_linkdelivery SET outbox_id = 999999999")
    asked = LostLinkRequest.objects.get()
    assert f"lost link {asked.pk}" in broken()
    sql("UPDATE tickets_linkdelivery SET state = 'queued'")
    assert f"lost link {asked.pk}" in broken()
    assert not BuyerAct.objects.exists()
