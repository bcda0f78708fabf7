"""The indexes of names are built beside the sale, also after a run that was cut; what there was
before a migration is known after it."""

import threading
from collections.abc import Iterator
from importlib import import_module

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection

from jobs.models import ProcessedJob
from jobs.testing import drain
from orders.models import Order, Refund
from tests.people import buy, new_type
from tickets import services
from tickets.search import search
from tickets.services import Actor

pytestmark = pytest.mark.django_db(transaction=True)

INDEXES = """
SELECT count(*) FILTER (WHERE indisvalid), count(*) FROM pg_index
JOIN pg_class ON pg_class.oid = indexrelid WHERE relname IN ('order_name', 'order_last_name')
"""


def migrate(to: str, *, fake: bool = False) -> None:
    call_command("migrate", "orders", to, verbosity=0, fake=fake)


def indexes() -> tuple[int, int]:
    """How many of the two are valid, and how many there are."""
    with connection.cursor() as cursor:
        cursor.execute(INDEXES)
        valid, all_of_them = cursor.fetchone()
        return valid, all_of_them


@pytest.fixture
def before() -> Iterator[None]:
    """As it was before names had indexes, with the tables of today: orders are placed."""
    migrate("0003", fake=True)
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX order_name, order_last_name")
    yield
    migrate("0004")
    call_command("migrate", verbosity=0, fake=True)


@pytest.fixture
def held(before: None) -> Iterator[psycopg.Connection]:
    """A transaction that has changed an order, and goes on."""
    buy(new_type())
    parameters = {**connection.get_connection_params(), "options": "-c lock_timeout=0"}
    with psycopg.connect(**parameters) as other:
        other.execute("UPDATE orders_order SET locale = 'de'")
        yield other


def in_thread() -> threading.Thread:
    def run() -> None:
        try:
            migrate("0004")
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%%'"
            " AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])


def test_orders_are_placed_while_the_indexes_wait_for_an_older_transaction(
    held: psycopg.Connection,
) -> None:
    thread = in_thread()
    while not waits():
        assert thread.is_alive()
    # Longer than a session's lock_timeout: the build must not be cut by it.
    thread.join(2.5)
    assert waits()
    buy(new_type(), buyer_name="Ada Lovelace")
    held.rollback()
    thread.join(30)
    assert indexes() == (2, 2)
    assert search(Order.objects.all(), "lovelace").count() == 2


def test_a_build_that_was_cut_is_done_again_by_the_next_run(held: psycopg.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '300ms'")
        with pytest.raises(Exception, match="statement timeout"):
            cursor.execute(
                "CREATE INDEX CONCURRENTLY order_name ON orders_order (lower(buyer_name))"
            )
        cursor.execute("RESET statement_timeout")
    assert indexes() == (0, 1)
    held.rollback()
    migrate("0004")
    assert indexes() == (2, 2)


def test_the_sessions_bounds_are_as_before_after_the_build(before: None) -> None:
    migrate("0004")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('lock_timeout'), current_setting('statement_timeout')"
        )
        assert cursor.fetchone() == ("2s", "30s")


def test_a_refund_whose_buyer_was_told_by_the_old_job_is_followed_up() -> None:
    told, untold = buy(new_type()), buy(new_type())
    for order in (told, untold):
        services.refund(order.id, "moved", Actor("boxoffice"))
    drain()
    Refund.objects.update(outbox_id=None)
    ProcessedJob.objects.filter(kind="refund_order", subject=f"order:{untold.id}").delete()
    statement = import_module("orders.migrations.0006_refunds_in_parts").FOLLOWED_UP
    with connection.cursor() as cursor:
        cursor.execute(statement)
    job = ProcessedJob.objects.get(kind="refund_order").pk
    found = dict(Refund.objects.values_list("order_id", "outbox_id"))
    assert found == {told.id: job, untold.id: None}
