"""One email for each (order, message, generation), whatever the provider does and wherever a worker
is killed: counted by a provider and a mail server that are processes of their own.

`make chaos` crosses every fault with every place; the gate has each of them once.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection, connections
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse
from django.utils.html import strip_tags

from jobs.models import JobEvent, KindHold, OutboxRow, ProcessedJob
from jobs.testing import drain
from orders.services import PlacedOrder
from tests.books import books_are_in_order
from tests.cuts import Cut
from tests.people import box_office, buy, new_type
from tests.processes import SHIPPED, Product, wait_for
from tests.provider import Fault, MailServer, Provider, http, smtp
from tickets.models import Delivery, DeliveryState, TicketFile

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("redis", "mailbox"),
]

EMAIL = "email_tickets"
PATIENCE = 1.0
"""Seconds after which the processes under test give up a call without an answer."""
FAULTS = [
    http.lost_answer(), http.lost_connection(), http.accepted_and_broken(), http.slow(2),
    http.held(2), http.no_answer(), http.no_connection(), http.broken(), http.rate_limited(1),
]  # fmt: skip
SMTP_FAULTS = [smtp.lost_answer(), smtp.lost_connection(), smtp.slow(2)]
PLACES = [
    "sending.noted", "sending.accepted", f"runner.before_effects/{EMAIL}", f"runner.moved/{EMAIL}",
    f"runner.before_commit/{EMAIL}", f"runner.committed/{EMAIL}",
]  # fmt: skip
ONCE = [(fault, PLACES[number % len(PLACES)]) for number, fault in enumerate(FAULTS)][:6]
PAIRS = [(fault, place) for fault in FAULTS for place in PLACES] if SHIPPED else ONCE


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    """A provider that knows keys."""
    with Provider(tmp_path / "provider") as running:
        yield running


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MailServer]:
    """A mail server."""
    with MailServer(tmp_path / "server") as running:
        yield running


@pytest.fixture
def impatient() -> Iterator[None]:
    """What waits for another try is due at once: a pause is half a minute."""
    over = threading.Event()

    def hurry() -> None:
        waits = "dead_at IS NULL AND relayed_at IS NULL AND available_at > now()"
        while not over.wait(0.1):
            with connection.cursor() as cursor:
                cursor.execute(f"UPDATE jobs_outbox SET available_at = now() WHERE {waits}")
        connections.close_all()

    thread = threading.Thread(target=hurry)
    thread.start()
    yield
    over.set()
    thread.join()


def through(provider: Provider | MailServer) -> dict[str, str]:
    """The environment of processes that send through it."""
    if isinstance(provider, MailServer):
        where = {"MAIL_PROVIDER": "smtp", "EMAIL_URL": provider.url}
    else:
        where = {
            "MAIL_PROVIDER": "resend", "MAIL_API_KEY": provider.api_key,
            "MAIL_API_URL": provider.url,
        }  # fmt: skip
    return {**where, "MAIL_TIMEOUT": str(PATIENCE)}


def with_email_due(number: int = 1) -> list[PlacedOrder]:
    """Orders whose tickets are made, and whose email is due."""
    kind = new_type()
    orders = [buy(kind) for _ in range(number)]
    with pytest.raises(RuntimeError):
        drain(rounds=1)
    return orders


def emails(provider: Provider | MailServer) -> dict[str, int]:
    """How many emails of each Message-ID were accepted."""
    return dict(Counter(call.message_id for call in provider.calls() if call.accepted))


def all_is_sent(provider: Provider) -> None:
    """Wait until no job is left; then each delivery is one email, and goes by its name there."""
    wait_for(lambda: not OutboxRow.objects.exists(), "an empty outbox")
    expected = dict.fromkeys(Delivery.objects.values_list("message_id", flat=True), 1)
    assert emails(provider) == expected
    names = {call.message_id: call.id for call in provider.calls() if call.accepted}
    for delivery in Delivery.objects.all():
        assert delivery.state == DeliveryState.SENT
        assert delivery.provider_id == names[delivery.message_id]
    books_are_in_order()


def test_every_fault_of_the_provider_ends_in_one_email(
    product: Product, provider: Provider, impatient: None
) -> None:
    with_email_due(len(FAULTS))
    provider.plan(*FAULTS)
    product.relay()
    product.plain_worker("worker-1", **through(provider))
    all_is_sent(provider)
    assert {call.fault for call in provider.calls()} >= {fault.name for fault in FAULTS}
    assert provider.accepted() == dict.fromkeys(
        Delivery.objects.values_list("idempotency_key", flat=True), 1
    )


def killed_at(place: str, product: Product, mark: Path, **environment: str) -> None:
    """A worker that kills itself there, once, and is started again."""
    cut = Cut(place, mark)
    product.relay()
    cut.was_hit_by(product.plain_worker("worker-1", **environment, **cut.environment()))
    product.plain_worker("worker-1", **environment, **cut.environment())


@pytest.mark.parametrize(("fault", "place"), PAIRS, ids=lambda value: getattr(value, "name", value))
def test_a_fault_and_a_kill_end_in_one_email(
    fault: Fault, place: str, product: Product, provider: Provider, impatient: None, tmp_path: Path
) -> None:
    with_email_due()
    provider.plan(fault)
    killed_at(place, product, tmp_path / "mark", **through(provider))
    all_is_sent(provider)


def test_without_the_key_the_buyer_is_sent_two_and_this_suite_sees_it(
    product: Product, provider: Provider, impatient: None
) -> None:
    with_email_due()
    provider.plan(http.lost_connection())
    product.relay()
    product.plain_worker(
        "worker-1", DJANGO_SETTINGS_MODULE="tests.provider.keyless", **through(provider)
    )
    with pytest.raises(AssertionError, match="2"):
        all_is_sent(provider)
    assert list(emails(provider).values()) == [2]


def test_a_provider_says_for_how_long_to_leave_it_alone(
    product: Product, provider: Provider
) -> None:
    with_email_due()
    provider.plan(http.rate_limited(3))
    product.relay()
    product.plain_worker("worker-1", **through(provider))
    all_is_sent(provider)
    first, second = provider.calls()
    assert 3 <= second.at - first.at < 20
    assert ProcessedJob.objects.get(kind=EMAIL).attempts == 0


def test_a_provider_that_is_down_holds_its_emails_and_nothing_else(
    product: Product, provider: Provider
) -> None:
    with_email_due(15)
    provider.stop()
    product.relay()
    product.worker(**through(provider))
    wait_for(lambda: KindHold.objects.filter(kind=EMAIL, by=KindHold.BREAKER), "the breaker")
    later = [buy(new_type()) for _ in range(3)]
    wait_for(lambda: TicketFile.objects.count() == 15 + len(later), "renders, while emails wait")
    assert not Delivery.objects.filter(state=DeliveryState.SENT).exists()
    assert JobEvent.objects.filter(what="tried later").exists()
    assert not OutboxRow.objects.filter(attempts__gt=0).exists()
    provider.start()
    OutboxRow.objects.filter(relayed_at=None).update(available_at=Now())
    all_is_sent(provider)
    assert set(ProcessedJob.objects.values_list("attempts", flat=True)) == {0}
    assert not KindHold.objects.exists()


def test_a_provider_that_hangs_keeps_no_render_waiting(
    product: Product, provider: Provider
) -> None:
    with_email_due(15)
    provider.plan(then=http.no_answer())
    product.relay()
    worker = product.worker(**{**through(provider), "MAIL_TIMEOUT": "20"})
    worker.wait_until_it_runs(EMAIL, 3)
    for made in (16, 17):
        buy(new_type())
        wait_for(lambda number=made: TicketFile.objects.count() == number, "its file")  # type: ignore[misc]
    # As long as no call has been given up: nothing has waited for one.
    assert not JobEvent.objects.exists()
    assert not KindHold.objects.exists()


SMTP_PAIRS = [(smtp.lost_connection(), "sending.noted"), (smtp.slow(0), "sending.accepted")]
if SHIPPED:
    SMTP_PAIRS = [(fault, place) for fault in (smtp.slow(0), *SMTP_FAULTS) for place in PLACES]


@pytest.mark.parametrize(
    ("fault", "place"), SMTP_PAIRS, ids=lambda value: getattr(value, "name", value)
)
def test_a_mail_server_gets_what_it_may_have_taken_once_more_at_most(
    fault: Fault, place: str, product: Product, server: MailServer, impatient: None, tmp_path: Path
) -> None:
    [order] = with_email_due()
    server.plan(fault)
    killed_at(place, product, tmp_path / "mark", **through(server))
    wait_for(lambda: not OutboxRow.objects.live().exists(), "no live row")
    assert list(emails(server).values()) in ([1], [2])
    assert len({call.digest for call in server.calls() if call.accepted}) == 1, "the same bytes"
    delivery = Delivery.objects.get()
    if OutboxRow.objects.dead().exists():
        assert (delivery.state, delivery.tries) == (DeliveryState.UNCERTAIN, 2)
        assert "uncertain given to the provider 2 times" in shown(order)
    else:
        assert delivery.state == DeliveryState.SENT


def test_a_mail_server_that_never_answers_is_given_it_twice_and_staff_is_told(
    product: Product, server: MailServer, impatient: None
) -> None:
    [order] = with_email_due()
    server.plan(*[smtp.lost_answer()] * 3)
    product.relay()
    product.plain_worker("worker-1", **through(server))
    wait_for(lambda: OutboxRow.objects.dead().exists(), "the end of it")
    assert list(emails(server).values()) == [2]
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.tries) == (DeliveryState.UNCERTAIN, 2)
    page = shown(order)
    assert "uncertain given to the provider 2 times" in page
    assert "may send twice" in page


def shown(order: PlacedOrder) -> str:
    """The words on the order's page in the admin."""
    office = Client()
    office.force_login(box_office())
    page = office.get(reverse("admin:orders_order_change", args=[order.id]))
    return " ".join(strip_tags(page.content.decode()).split())
