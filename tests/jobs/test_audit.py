"""The audit finds whatever is broken by hand, names it, and finds nothing where all is well."""

import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.models.functions import Now

from jobs import publishing
from jobs.audit import ON_STREAM, Rule, books, entries, register, registered
from jobs.models import OutboxRow, ProcessedJob, ScheduledRun
from jobs.runner import Outcome
from jobs.schedule import declared
from jobs.scheduler import step
from jobs.stream import RelayStream
from jobs.testing import drain
from orders.models import Refund, RefundItem, TicketType
from orders.services import PlacedOrder
from tests import servers
from tests.books import books_are_in_order
from tests.conftest import MailFolder
from tests.drill.handlers import TABLE
from tests.jobs.scheduled import START
from tests.people import buy, new_type
from tests.processes import Process, Product
from tickets import services
from tickets.models import Delivery, Ticket
from tickets.services import Actor

pytestmark = pytest.mark.django_db(transaction=True)

IN_ONE_PLACE = "no processed row is also in the outbox"
HAS_JOB = "every order has its job, in the outbox or processed"
STOCK = "stock taken is what placed orders hold"
TICKET_JOB = "every ticket has the processed row of its job"
FILE_JOB = "every file has the processed row of its job"
DELIVERY_JOB = (
    "every delivery has the processed row of its job, or was not sent and its job is not done"
)
NOT_MORE = "no order has more tickets than its lines say"
ALL_MADE = "a placed order whose render is processed has a valid ticket for each place"
NOT_PLACED = "an order that is not placed has no valid ticket"
EMAIL_JOB = "every order with tickets has the job of its email, in the outbox or processed"
OWED = "every refunded order has refunds of all it cost, every other of less or nothing"
AMOUNT = "every refund is of what its admissions cost"
NOT_TWICE = "no admission is refunded twice, or of an order that has no such one"
WITH_THE_LAST = "an order is refunded when its last admission is, and not before"
REFUND_JOB = "every refund has the job that follows it up, in the outbox or processed"
REFUND_EMAIL = "every refund that was followed up has its email, or the job of it"
PAYMENT = "a refund whose payment was tried is paid, has failed, or has its job in the outbox"
GONE = "no refunded admission has a valid ticket"


@pytest.fixture(autouse=True)
def _ask_at_once(redis: redis_client.Redis, settings: Any) -> None:
    settings.JOBS = {**settings.JOBS, "AUDIT_AFTER": 0.0, "AUDIT_PAUSE": 0.01}


def run(*options: str) -> tuple[int, str]:
    """The exit code of `manage.py audit`, and what it prints."""
    printed = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("audit", *options, stdout=printed)
    assert isinstance(ended.value.code, int)
    return ended.value.code, printed.getvalue()


def broken() -> dict[str, list[str]]:
    """The rules that are broken, each with what breaks it; the exit code says the same."""
    code, text = run("--json")
    found = {name: keys for name, keys in json.loads(text)["broken"].items() if keys}
    assert code == (1 if found else 0)
    shown_code, shown = run()
    assert shown_code == code
    assert all(f"\n        {key}\n" in shown for keys in found.values() for key in keys)
    return found


def sql(statement: str, *values: Any) -> None:
    """Break the books by hand: exactly one row."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        assert cursor.rowcount == 1


def refund(order: PlacedOrder, *seqs: int) -> None:
    """As the box office does it, all of it or these admissions."""
    assert services.refund(order.id, "event moved", Actor("boxoffice"), seqs=seqs or None)


def publish() -> None:
    """What is due, on the stream."""
    stream = RelayStream(settings.REDIS_URL)
    stream.ensure_group()
    while publishing.step(stream, 500):
        pass
    stream.close()


def deliver(redis: redis_client.Redis) -> None:
    """What is unread, to a worker."""
    redis.xreadgroup("workers", "worker-1", {"jobs": ">"})


@pytest.fixture
def seats() -> TicketType:
    return new_type()


@pytest.fixture
def done(seats: TicketType, mailbox: MailFolder) -> PlacedOrder:
    """An order of two whose tickets were made and mailed."""
    order = buy(seats, 2)
    assert drain() == [Outcome.PROCESSED, Outcome.PROCESSED]
    return order


@pytest.fixture
def published(seats: TicketType) -> OutboxRow:
    """The row of an order whose job is on the stream, unread."""
    buy(seats)
    publish()
    return OutboxRow.objects.get()


# In order


def test_empty_books_are_in_order(redis: redis_client.Redis) -> None:
    assert not redis.exists("jobs")
    code, text = run()
    assert code == 0
    assert text.startswith("outbox: 0 due, 0 waiting for retry, 0 relayed, 0 dead\n")
    assert f"ok      {ON_STREAM}\n" in text


def test_a_finished_order_is_in_order(done: PlacedOrder) -> None:
    assert broken() == {}
    books_are_in_order()


def test_jobs_in_every_state_are_named_and_in_order(
    redis: redis_client.Redis, done: PlacedOrder, seats: TicketType
) -> None:
    dead, pending, waiting = (buy(seats) for _ in range(3))
    about(waiting).update(available_at="2999-01-01T00:00Z")
    publish()
    deliver(redis)
    about(dead).update(dead_at=Now())
    buy(seats)
    publish()
    buy(seats)
    assert broken() == {}
    code, text = run()
    assert code == 0
    assert text.startswith("outbox: 1 due, 1 waiting for retry, 2 relayed, 1 dead\n")
    assert about(pending).get().entry_id


def about(order: PlacedOrder) -> Any:
    return OutboxRow.objects.about(f"order:{order.id}")


def test_further_entries_of_a_row_are_ignored(
    redis: redis_client.Redis, published: OutboxRow, done: PlacedOrder
) -> None:
    for row in (published.pk, ProcessedJob.objects.earliest("outbox_id").pk, 10**12):
        redis.xadd("jobs", {"kind": "render_tickets", "outbox_id": row})
    assert broken() == {}


def test_a_pending_entry_that_was_trimmed_is_still_somebodys(
    redis: redis_client.Redis, published: OutboxRow
) -> None:
    deliver(redis)
    redis.xtrim("jobs", 0, approximate=False)
    assert broken() == {}


def test_a_group_that_was_made_again_at_0_has_everything_before_it(
    redis: redis_client.Redis, published: OutboxRow
) -> None:
    deliver(redis)
    redis.xgroup_destroy("jobs", "workers")
    redis.xgroup_create("jobs", "workers", "0")
    assert broken() == {}


@pytest.mark.parametrize("state", ["live", "dead"])
def test_an_email_that_was_begun_and_not_sent_is_in_order_while_its_job_is_not_done(
    state: str, done: PlacedOrder
) -> None:
    back_into_the_outbox(ProcessedJob.objects.get(kind="email_tickets"))
    Delivery.objects.update(state="queued", settled_at=None)
    if state == "dead":
        OutboxRow.objects.update(dead_at=Now())
    assert broken() == {}


def back_into_the_outbox(job: ProcessedJob) -> None:
    OutboxRow.objects.create(id=job.pk, kind=job.kind, args=job.args, subject=job.subject)
    job.delete()


def test_a_refund_that_voids_and_gives_back_is_in_order(
    done: PlacedOrder, seats: TicketType
) -> None:
    refund(done)
    assert broken() == {}
    drain()
    assert broken() == {}


def test_an_order_whose_first_render_met_a_change_is_in_order_while_another_is_due(
    done: PlacedOrder,
) -> None:
    """The first one ended as `nothing to do`, without tickets."""
    subject = f"order:{done.id}"
    OutboxRow.objects.create(kind="render_tickets", args={"order_id": done.id}, subject=subject)
    Ticket.objects.all().delete()
    assert broken() == {}
    OutboxRow.objects.all().delete()
    assert broken() == {ALL_MADE: [f"order {done.id}"]}


# The way of a job


def test_an_unread_entry_that_was_deleted_is_missed(
    redis: redis_client.Redis, published: OutboxRow
) -> None:
    redis.xdel("jobs", str(published.entry_id))
    assert broken() == {ON_STREAM: [f"outbox row {published.pk}"]}


def test_an_unfinished_entry_that_was_acknowledged_is_missed_though_it_is_on_the_stream(
    redis: redis_client.Redis, published: OutboxRow
) -> None:
    deliver(redis)
    redis.xack("jobs", "workers", str(published.entry_id))
    assert redis.xlen("jobs") == 1
    assert broken() == {ON_STREAM: [f"outbox row {published.pk}"]}


def flush(redis: redis_client.Redis) -> None:
    redis.flushall()


def destroy_group(redis: redis_client.Redis) -> None:
    redis.xgroup_destroy("jobs", "workers")


def rename_group(redis: redis_client.Redis) -> None:
    redis.xgroup_destroy("jobs", "workers")
    redis.xgroup_create("jobs", "others", "0")


@pytest.mark.parametrize("lose", [flush, destroy_group, rename_group])
def test_a_missing_stream_or_group_lacks_everything(
    lose: Callable[[redis_client.Redis], None], redis: redis_client.Redis, published: OutboxRow
) -> None:
    lose(redis)
    assert broken() == {ON_STREAM: [f"outbox row {published.pk}"]}


@pytest.mark.parametrize("entry_id", [None, "", "1-1", "no id", "99999999999999999999-0"])
def test_a_relayed_row_that_names_no_entry_is_missed(
    entry_id: str | None, published: OutboxRow
) -> None:
    OutboxRow.objects.update(entry_id=entry_id)
    assert broken() == {ON_STREAM: [f"outbox row {published.pk}"]}


def test_only_a_publication_that_is_old_enough_is_asked_for(
    redis: redis_client.Redis, published: OutboxRow, settings: Any
) -> None:
    settings.JOBS = {**settings.JOBS, "AUDIT_AFTER": 180.0}
    redis.flushall()
    assert broken() == {}
    sql("UPDATE jobs_outbox SET relayed_at = relayed_at - interval '181 seconds'")
    assert broken() == {ON_STREAM: [f"outbox row {published.pk}"]}


def test_a_dead_row_needs_no_entry(redis: redis_client.Redis, published: OutboxRow) -> None:
    deliver(redis)
    OutboxRow.objects.update(dead_at=Now())
    redis.xack("jobs", "workers", str(published.entry_id))
    assert broken() == {}


def test_among_many_the_one_is_missed_with_few_questions(
    redis: redis_client.Redis, seats: TicketType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        OutboxRow.objects.bulk_create(
            OutboxRow(kind="render_tickets", args={"order_id": number}) for number in range(700)
        )
        publish()
        if not redis.xpending("jobs", "workers")["pending"]:
            deliver(redis)
    lost = OutboxRow.objects.order_by("id")[1200]
    redis.xdel("jobs", str(lost.entry_id))
    ask, questions = entries.Entries._ask, []

    def count(self: entries.Entries, commands: Any) -> Any:
        questions.append(len(commands))
        return ask(self, commands)

    monkeypatch.setattr(entries.Entries, "_ask", count)
    assert json.loads(run("--json")[1])["broken"][ON_STREAM] == [f"outbox row {lost.pk}"]
    # Of 1400 rows in two handfuls, and of the one again; each time the group first.
    assert questions == [1, 1000, 1000, 400, 400, 1, 1, 1]


def between_the_looks(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    monkeypatch.setattr("jobs.audit.books.time.sleep", lambda seconds: act())


def test_a_job_that_is_done_between_the_two_looks_is_not_missed(
    redis: redis_client.Redis, published: OutboxRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis.flushall()
    acted: list[int] = []

    def finish() -> None:
        acted.append(published.pk)
        OutboxRow.objects.all().delete()

    between_the_looks(monkeypatch, finish)
    code, text = run("--json")
    assert acted
    assert json.loads(text)["broken"][ON_STREAM] == []
    assert code == 0


@pytest.mark.parametrize("change", [{"entry_id": "9-9"}, {"dead_at": Now()}, {"relayed_at": None}])
def test_a_row_that_was_moved_on_between_the_two_looks_is_not_missed(
    change: dict[str, Any],
    redis: redis_client.Redis,
    published: OutboxRow,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    redis.flushall()
    between_the_looks(monkeypatch, lambda: OutboxRow.objects.update(**change))
    assert run()[0] == 0


def test_an_entry_that_comes_back_between_the_two_looks_is_not_missed(
    redis: redis_client.Redis, published: OutboxRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis.delete("jobs")

    def come_back() -> None:
        redis.xadd("jobs", {"kind": "render_tickets"}, id=str(published.entry_id))
        redis.xgroup_create("jobs", "workers", "0")

    between_the_looks(monkeypatch, come_back)
    assert run()[0] == 0


def test_an_entry_that_is_delivered_while_the_audit_looks_is_not_missed(
    redis: redis_client.Redis, published: OutboxRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were the pending entries read first, it would be in neither."""
    look = entries.Entries._last_delivered

    def deliver_then_look(self: entries.Entries) -> Any:
        deliver(redis)
        return look(self)

    monkeypatch.setattr(entries.Entries, "_last_delivered", deliver_then_look)
    monkeypatch.setattr(books, "_still_relayed", lambda publications: publications)
    assert run()[0] == 0
    assert redis.xpending("jobs", "workers")["pending"] == 1


def test_a_row_that_is_both_processed_and_in_the_outbox_is_named(done: PlacedOrder) -> None:
    job = ProcessedJob.objects.get(kind="email_tickets")
    OutboxRow.objects.create(id=job.pk, kind=job.kind, args=job.args)
    assert broken() == {IN_ONE_PLACE: [f"outbox row {job.pk}"]}


# Orders, tickets, emails


def test_an_order_without_its_outbox_row_is_named(seats: TicketType) -> None:
    order = buy(seats)
    sql("DELETE FROM jobs_outbox WHERE subject = %s", f"order:{order.id}")
    assert broken() == {HAS_JOB: [f"order {order.id}"]}


def test_tickets_without_the_processed_row_of_their_job_are_named(done: PlacedOrder) -> None:
    sql("DELETE FROM jobs_processed WHERE kind = 'render_tickets'")
    tickets = Ticket.objects.order_by("id").values_list("id", flat=True)
    [file] = Delivery.objects.values_list("file_id", flat=True)
    assert broken() == {
        HAS_JOB: [f"order {done.id}"],
        TICKET_JOB: [f"ticket {ticket}" for ticket in tickets],
        FILE_JOB: [f"file {file}"],
    }


def test_a_ticket_of_a_job_that_is_still_in_the_outbox_is_named(done: PlacedOrder) -> None:
    back_into_the_outbox(ProcessedJob.objects.get(kind="render_tickets"))
    assert set(broken()) == {TICKET_JOB, FILE_JOB}


def test_an_email_without_the_processed_row_of_its_job_is_named(done: PlacedOrder) -> None:
    sql("DELETE FROM jobs_processed WHERE kind = 'email_tickets'")
    delivery = Delivery.objects.get()
    assert broken() == {
        DELIVERY_JOB: [f"delivery {delivery.pk}"],
        EMAIL_JOB: [f"order {done.id}"],
    }


def test_an_email_that_was_begun_and_whose_job_is_gone_is_named(done: PlacedOrder) -> None:
    sql("DELETE FROM jobs_processed WHERE kind = 'email_tickets'")
    Delivery.objects.update(state="queued", settled_at=None)
    assert DELIVERY_JOB in broken()


def test_an_email_that_was_sent_and_whose_job_is_not_done_is_named(done: PlacedOrder) -> None:
    back_into_the_outbox(ProcessedJob.objects.get(kind="email_tickets"))
    assert broken() == {DELIVERY_JOB: [f"delivery {Delivery.objects.get().pk}"]}


def test_an_order_whose_email_job_is_gone_is_named(done: PlacedOrder) -> None:
    sql("DELETE FROM tickets_delivery")
    sql("DELETE FROM jobs_processed WHERE kind = 'email_tickets'")
    assert broken() == {EMAIL_JOB: [f"order {done.id}"]}


COPY_OF_FIRST = """
INSERT INTO tickets_ticket (order_id, seq, ticket_type_id, holder_name, token, version, status,
    issued_at, outbox_id)
SELECT order_id, 9, %s, holder_name, 'copy', version, %s, issued_at, outbox_id
FROM tickets_ticket WHERE seq = 1
"""


def test_a_doubled_ticket_is_named(done: PlacedOrder, seats: TicketType) -> None:
    sql(COPY_OF_FIRST, seats.pk, "valid")
    assert broken() == {NOT_MORE: [f"order {done.id}"], ALL_MADE: [f"order {done.id}"]}


def test_a_doubled_ticket_is_named_though_it_is_void(done: PlacedOrder, seats: TicketType) -> None:
    sql(COPY_OF_FIRST, seats.pk, "void")
    assert broken() == {NOT_MORE: [f"order {done.id}"]}


def test_a_ticket_of_a_type_that_was_not_ordered_is_named(done: PlacedOrder) -> None:
    sql(COPY_OF_FIRST, new_type().pk, "valid")
    assert broken() == {NOT_MORE: [f"order {done.id}"]}


def test_a_ticket_of_the_wrong_type_is_named(done: PlacedOrder) -> None:
    sql("UPDATE tickets_ticket SET ticket_type_id = %s WHERE seq = 1", new_type().pk)
    assert broken() == {NOT_MORE: [f"order {done.id}"], ALL_MADE: [f"order {done.id}"]}


@pytest.mark.parametrize(
    "harm", ["DELETE FROM tickets_ticket", "UPDATE tickets_ticket SET status = 'void'"]
)
def test_a_ticket_that_is_missing_is_named(harm: str, done: PlacedOrder) -> None:
    sql(f"{harm} WHERE seq = 1")
    assert broken() == {ALL_MADE: [f"order {done.id}"]}


def test_a_valid_ticket_of_a_refunded_order_is_named(done: PlacedOrder, seats: TicketType) -> None:
    refund(done)
    sql("UPDATE tickets_ticket SET status = 'valid' WHERE seq = 2")
    ticket = f"ticket {Ticket.objects.get(seq=2).pk}"
    assert broken() == {NOT_PLACED: [ticket], GONE: [ticket]}


def test_a_valid_ticket_of_a_refunded_admission_is_named(done: PlacedOrder) -> None:
    refund(done, 2)
    drain()
    assert not broken()
    sql("UPDATE tickets_ticket SET status = 'valid' WHERE seq = 2")
    ticket = f"ticket {Ticket.objects.get(seq=2).pk}"
    assert broken() == {ALL_MADE: [f"order {done.id}"], GONE: [ticket]}


def test_a_ticket_that_is_missing_after_a_refund_of_another_is_named(done: PlacedOrder) -> None:
    refund(done, 2)
    drain()
    sql("UPDATE tickets_ticket SET status = 'void' WHERE seq = 1")
    assert broken() == {ALL_MADE: [f"order {done.id}"]}


def test_a_refunded_order_without_a_refund_is_named(done: PlacedOrder) -> None:
    refund(done)
    RefundItem.objects.all().delete()
    sql("DELETE FROM orders_refund")
    assert broken() == {OWED: [f"order {done.id}"], WITH_THE_LAST: [f"order {done.id}"]}


@pytest.mark.parametrize("change", ["- 1", "+ 1", "- 4250"])
def test_a_refund_of_another_amount_is_named(change: str, done: PlacedOrder) -> None:
    refund(done)
    sql(f"UPDATE orders_refund SET amount = amount {change}")
    found = f"refund {Refund.objects.get().pk}"
    assert broken() == {OWED: [f"order {done.id}"], AMOUNT: [found]}


def test_a_part_that_is_refunded_at_another_price_is_named(done: PlacedOrder) -> None:
    refund(done, 1)
    sql("UPDATE orders_refund SET amount = amount + 1")
    assert broken() == {AMOUNT: [f"refund {Refund.objects.get().pk}"]}


@pytest.mark.parametrize("drained", [True, False])
def test_a_refund_without_its_job_is_named(done: PlacedOrder, drained: bool) -> None:
    refund(done)
    if drained:
        drain()
    table = "jobs_processed" if drained else "jobs_outbox"
    sql(f"DELETE FROM {table} WHERE kind = 'refund_order'")
    assert broken() == {REFUND_JOB: [f"refund {Refund.objects.get().pk}"]}


def test_a_refund_that_nobody_is_told_of_is_named(done: PlacedOrder) -> None:
    refund(done, 1)
    drain()
    refund(done, 2)
    drain()
    Delivery.objects.filter(kind="refund", generation=2).delete()
    assert not broken()
    sql("DELETE FROM jobs_processed WHERE kind = 'email_refund' AND args ->> 'number' = '2'")
    assert broken() == {REFUND_EMAIL: [f"refund {Refund.objects.get(number=2).pk}"]}


def test_a_payment_that_was_tried_and_left_alone_is_named(done: PlacedOrder) -> None:
    refund(done)
    drain()
    sql("UPDATE orders_refund SET tried_at = now()")
    assert broken() == {PAYMENT: [f"refund {Refund.objects.get().pk}"]}
    sql("UPDATE orders_refund SET status = 'done'")
    assert not broken()


def test_an_admission_that_is_sold_all_the_same_is_named(
    done: PlacedOrder, seats: TicketType
) -> None:
    refund(done)
    sql("UPDATE orders_order SET status = 'placed' WHERE id = %s", done.id)
    assert broken() == {WITH_THE_LAST: [f"order {done.id}"]}


def test_an_admission_that_the_order_does_not_have_is_named(done: PlacedOrder) -> None:
    refund(done, 1)
    sql("UPDATE orders_refunditem SET seq = 3")
    assert NOT_TWICE in broken()


def test_an_admission_that_is_refunded_twice_is_named(done: PlacedOrder) -> None:
    refund(done, 1)
    with connection.cursor() as cursor:
        cursor.execute("DROP INDEX refund_item_once")
    try:
        item = RefundItem.objects.get()
        item.pk = None
        item.save()
        assert broken()[NOT_TWICE] == [f"order {done.id}"]
    finally:
        RefundItem.objects.filter(pk=item.pk).delete()
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE UNIQUE INDEX refund_item_once ON orders_refunditem (order_id, seq)"
                " WHERE live"
            )


@pytest.mark.parametrize("change", ["taken + 1", "taken - 1"])
def test_stock_that_is_not_what_was_sold_is_named(
    change: str, done: PlacedOrder, seats: TicketType
) -> None:
    new_type()
    sql(f"UPDATE orders_stock SET taken = {change} WHERE ticket_type_id = %s", seats.pk)
    assert broken() == {STOCK: [f"ticket type {seats.pk}"]}


def test_sold_places_without_stock_are_named(done: PlacedOrder, seats: TicketType) -> None:
    sql("DELETE FROM orders_stock WHERE ticket_type_id = %s", seats.pk)
    assert broken() == {STOCK: [f"ticket type {seats.pk}"]}


# Could not look


def test_without_redis_it_says_so_and_still_names_what_the_database_shows(
    done: PlacedOrder,
) -> None:
    sql("UPDATE orders_stock SET taken = taken + 1")
    servers.REDIS.kill()
    try:
        code, text = run()
    finally:
        servers.REDIS.start()
    assert code == 2
    assert "could not look: Redis: " in text
    assert f"BROKEN  {STOCK}: 1\n" in text
    assert ON_STREAM not in text


def test_a_redis_that_answers_something_else_was_not_looked_at(redis: redis_client.Redis) -> None:
    redis.set("jobs", "no stream")
    code, text = run()
    assert code == 2
    assert "WRONGTYPE" in text


def test_without_postgresql_it_says_so(tmp_path: Path) -> None:
    away = {"DATABASE_URL": "postgres://nobody:secret@127.0.0.1:1/none"}
    with Process(tmp_path, "audit", "manage.py", "audit", **away) as process:
        assert process.ended() == 2
        assert "could not look: PostgreSQL: OperationalError" in process.log()
        assert "ok   " not in process.log()
        assert "secret" not in process.log()


@pytest.fixture
def extra_rule() -> Iterator[Callable[[str], None]]:
    """Registers one rule, forgotten after the test."""
    from jobs.audit import rules

    yield lambda statement: register(Rule("extra", statement))
    rules._rules.pop("extra", None)


@pytest.mark.parametrize("statement", ["SELECT nonsense", "DELETE FROM orders_stock RETURNING 'x'"])
def test_a_rule_that_fails_or_writes_proves_nothing(
    statement: str, extra_rule: Callable[[str], None], done: PlacedOrder, seats: TicketType
) -> None:
    extra_rule(statement)
    code, text = run()
    assert code == 2
    assert "could not look: PostgreSQL: " in text
    seats.stock.refresh_from_db()


# The command


def test_a_name_is_given_to_one_rule(extra_rule: Callable[[str], None]) -> None:
    extra_rule("SELECT 'x'")
    with pytest.raises(ValueError, match="extra"):
        extra_rule("SELECT 'y'")


def test_twenty_are_shown_and_the_rest_counted(extra_rule: Callable[[str], None]) -> None:
    extra_rule("SELECT 'thing ' || n FROM generate_series(1, 25) AS n")
    code, text = run()
    assert code == 1
    assert "BROKEN  extra: 25\n        thing 1\n" in text
    assert "        thing 20\n        and 5 more\n" in text
    assert len(json.loads(run("--json")[1])["broken"]["extra"]) == 25


def test_the_exit_code_of_the_process_is_the_verdict(
    tmp_path: Path, redis: redis_client.Redis, published: OutboxRow
) -> None:
    at_once = {"JOBS_AUDIT_AFTER": "0"}
    with Process(tmp_path, "audit", "manage.py", "audit", **at_once) as process:
        assert process.ended() == 0
    redis.flushall()
    began = time.monotonic()
    with Process(tmp_path, "audit", "manage.py", "audit", **at_once) as process:
        assert process.ended() == 1
        assert f"BROKEN  {ON_STREAM}: 1\n        outbox row {published.pk}\n" in process.log()
    assert time.monotonic() - began > 1.0


def test_the_books_that_tests_look_at_can_be_found_broken(published: OutboxRow) -> None:
    OutboxRow.objects.update(entry_id="1-1")
    with pytest.raises(AssertionError, match=f"outbox row {published.pk}"):
        books_are_in_order()


[DRILL] = [schedule for schedule in declared() if schedule.name == "drill"]


@pytest.fixture
def slot() -> ScheduledRun:
    """A due slot that fired, with its job."""
    step([DRILL], "one", START)
    step([DRILL], "one", START + timedelta(minutes=1))
    assert broken() == {}
    return ScheduledRun.objects.get()


FIRED = "every due slot that fired has its job"
SLOT = "every job that a schedule fired has one due slot, of its time"


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM jobs_outbox", "UPDATE jobs_scheduled_run SET outbox_id = NULL"],
)
def test_a_due_slot_without_its_job_is_found(statement: str, slot: ScheduledRun) -> None:
    sql(statement)
    assert f"{slot.name} of 2026-11-30 16:00:00+00" in broken()[FIRED]


def test_a_due_slot_that_did_not_fire_has_no_job(slot: ScheduledRun) -> None:
    sql("UPDATE jobs_scheduled_run SET result = 'skipped'")
    assert list(broken()) == [FIRED]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM jobs_scheduled_run",
        "UPDATE jobs_scheduled_run SET due_at = due_at + interval '1 minute'",
        """
        INSERT INTO jobs_scheduled_run
            (name, due_at, last_due_at, result, seconds_late, by, outbox_id)
        SELECT 'other', due_at, due_at, result, 0, by, outbox_id FROM jobs_scheduled_run
        """,
    ],
)
@pytest.mark.parametrize("done", [False, True])
def test_a_scheduled_job_without_its_one_slot_is_found(
    done: bool, statement: str, slot: ScheduledRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRILL_GATE", "/nowhere")
    if done:
        with connection.cursor() as cursor:
            cursor.execute(TABLE)
        drain()
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE drill_effect")
    sql(statement)
    assert broken() == {SLOT: [f"job {slot.outbox_id}"]}


def test_every_table_of_effects_is_in_a_rule() -> None:
    run()
    text = " ".join(rule.sql for rule in registered())
    effects = [
        model._meta.db_table
        for model in apps.get_models()
        if model._meta.app_label != "jobs"
        and any(column.name == "outbox_id" for column in model._meta.fields)
    ]
    assert len(effects) >= 3
    for table in effects:
        assert f"FROM {table} AS effect" in text


def test_all_rules_see_one_moment(monkeypatch: pytest.MonkeyPatch, seats: TicketType) -> None:
    def with_a_sale_between() -> Iterator[Rule]:
        yield Rule("before", "SELECT id::text FROM orders_order")
        seller = threading.Thread(target=sell)
        seller.start()
        seller.join()
        yield Rule("after", "SELECT id::text FROM orders_order")

    def sell() -> None:
        buy(seats)
        connection.close()

    monkeypatch.setattr(books, "registered", with_a_sale_between)
    assert json.loads(run("--json")[1])["broken"] == {"before": [], "after": [], ON_STREAM: []}
    assert OutboxRow.objects.count() == 1


def test_while_jobs_flow_nothing_is_called_broken(
    product: Product, seats: TicketType, mailbox: MailFolder
) -> None:
    product.relay()
    product.worker()
    looks = 0
    for _ in range(8):
        buy(seats, 2)
    while OutboxRow.objects.exists():
        books_are_in_order()
        looks += 1
    assert looks > 3
    assert Delivery.objects.filter(state="sent").count() == 8
    books_are_in_order()
