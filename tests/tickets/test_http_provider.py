"""The email of an order and a real HTTP provider that fails: Resend's API, with keys."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from jobs.models import JobEvent
from jobs.outbox import enqueue
from jobs.prognosis import Effect
from jobs.registry import kind_named
from orders.services import PlacedOrder
from tests.provider import Fault, Provider, http
from tests.tickets.tries import dead_row, live_row, try_now
from tickets.handlers import OrderArgs
from tickets.http_errors import LONGEST, seconds_of
from tickets.models import Delivery, DeliveryState

pytestmark = pytest.mark.django_db(transaction=True)

DAY = 24 * 3600
OPTIONS = {"timeout": (1, 1)}


def mailer(provider: Provider, **changes: object) -> dict[str, object]:
    """Django's setting for that provider."""
    options = {"api_key": provider.api_key, "api_url": provider.url, **OPTIONS, **changes}
    return {"default": {"BACKEND": "stagedoor.providers.resend.Mailer", "OPTIONS": options}}


@pytest.fixture
def provider(made: PlacedOrder, tmp_path: Path) -> Iterator[Provider]:
    """A provider that the product sends through; the email of an order is due."""
    with (
        Provider(tmp_path / "provider") as running,
        override_settings(MAILERS=mailer(running), MAIL_KEY_WINDOW=DAY),
    ):
        yield running


def state() -> tuple[str, int]:
    found = Delivery.objects.get()
    return found.state, found.tries


def effect() -> Effect:
    foresee = kind_named("email_tickets").foresee
    assert foresee is not None
    [found] = foresee([OrderArgs(Delivery.objects.get().order_id)])
    return found.effect


def emails(provider: Provider) -> list[int]:
    return list(provider.accepted().values())


def test_an_email_goes_by_the_name_that_the_provider_gave_it(provider: Provider) -> None:
    assert try_now() is None
    [call] = provider.calls()
    delivery = Delivery.objects.get()
    assert (call.key, call.message_id) == (delivery.idempotency_key, delivery.message_id)
    assert delivery.provider_id == call.id
    assert state() == (DeliveryState.SENT, 1)


MAY_BE_TAKEN = [
    http.lost_answer(), http.lost_connection(), http.accepted_and_broken(), http.slow(2),
    http.no_answer(), http.no_connection(), http.broken(502),
]  # fmt: skip


@pytest.mark.parametrize("fault", MAY_BE_TAKEN, ids=lambda fault: fault.name)
def test_what_may_be_taken_is_tried_again_under_its_key_and_burns_no_attempt(
    provider: Provider, fault: Fault
) -> None:
    provider.plan(fault, fault)
    for calls in (1, 2):
        row = live_row()
        assert (row.attempts, state()) == (0, (DeliveryState.QUEUED, calls))
        assert "example.org" not in f"{row.last_error}{row.traceback}"
    assert try_now() is None
    assert emails(provider) == [1]
    assert len({call.digest for call in provider.calls()}) == 1, "the same bytes"
    assert len({call.key for call in provider.calls()}) == 1


NOT_TAKEN = [http.rate_limited(1), http.refused(401, "restricted_api_key"), http.refused(403)]


@pytest.mark.parametrize("fault", NOT_TAKEN, ids=lambda fault: f"{fault.code}")
def test_what_is_surely_not_taken_uses_up_nothing_of_the_window(
    provider: Provider, fault: Fault
) -> None:
    provider.plan(fault, fault)
    for _ in range(2):
        row = live_row()
        assert (row.attempts, state()) == (0, (DeliveryState.QUEUED, 0))
        assert f"{fault.code} {fault.error}" in row.last_error
        Delivery.objects.update(first_try_at=timezone.now() - timedelta(days=3))
        assert effect() is Effect.SAFE
    assert try_now() is None
    assert emails(provider) == [1]


def test_a_provider_that_is_down_takes_nothing(provider: Provider) -> None:
    provider.stop()
    row = live_row()
    assert "the provider does not answer: ConnectionError" in row.last_error
    assert (row.attempts, state()) == (0, (DeliveryState.QUEUED, 0))
    provider.start()
    assert try_now() is None


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (http.refused(422), "the provider refuses the message: 422 validation_error"),
        (http.refused(400, "invalid_attachment"), "refuses the message: 400 invalid_attachment"),
        (http.other_body(), "knows its key with another content: 409 invalid_idempotent_request"),
    ],
    ids=lambda value: getattr(value, "error", ""),
)
def test_a_refusal_for_good_is_dead_at_once(provider: Provider, fault: Fault, reason: str) -> None:
    provider.plan(fault)
    row = dead_row()
    assert reason in row.dead_reason
    assert row.attempts == 1
    assert emails(provider) == []


def test_a_call_that_is_under_way_is_waited_for_and_is_held_against_nobody(
    provider: Provider,
) -> None:
    provider.plan(http.in_progress())
    row = live_row()
    assert "the provider is at it under the same key" in row.last_error
    assert (row.attempts, JobEvent.objects.get().what) == (0, "tried later")
    assert (row.available_at - timezone.now()).total_seconds() < 10
    assert try_now() is None


@pytest.mark.parametrize("asked", [40, "date"])
def test_a_provider_that_says_when_is_not_asked_before(
    provider: Provider, asked: int | str
) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=41), usegmt=True)
    provider.plan(http.rate_limited(asked if isinstance(asked, int) else date))
    row = live_row()
    wait = (row.available_at - timezone.now()).total_seconds()
    assert 38 < wait < 62


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("7", 7), ("0.2", 1), ("-5", 1), ("", 30), ("soon", 30), ("nan", 30), ("inf", 30),
     ("999999", LONGEST), ("Mon, 99 Foo 2026", 30)],
)  # fmt: skip
def test_what_is_no_time_to_wait_is_half_a_minute(told: str, seconds: float) -> None:
    assert seconds_of(told) == seconds


def test_the_effects_of_an_accepted_email_that_were_lost_cost_no_second_one(
    provider: Provider,
) -> None:
    assert try_now() is None
    name = Delivery.objects.get().provider_id
    Delivery.objects.update(state=DeliveryState.QUEUED, provider_id="", settled_at=None)
    with transaction.atomic():
        enqueue("email_tickets", order_id=Delivery.objects.get().order_id)
    assert try_now() is None
    assert emails(provider) == [1]
    assert Delivery.objects.get().provider_id == name


@pytest.mark.parametrize("window", [900, 1800, 3600])
def test_a_short_window_refuses_no_first_try_and_every_late_second_one(
    provider: Provider, window: int
) -> None:
    with override_settings(MAIL_KEY_WINDOW=window):
        provider.plan(http.no_answer(), http.no_answer())
        live_row()
        began(window * 0.7)
        live_row()
        began(window * 0.8)
        assert "may send twice" in dead_row().dead_reason
    assert len(provider.calls()) == 2


def began(seconds: float) -> None:
    Delivery.objects.update(called_at=timezone.now() - timedelta(seconds=seconds))


def test_where_nothing_listens_nothing_was_taken_however_the_connection_fails(
    provider: Provider,
) -> None:
    for url in ("http://127.0.0.1:1/", "http://no-such-host.invalid/", "nonsense", "ftp://a/"):
        with override_settings(MAILERS=mailer(provider, api_url=url)):
            live_row()
        assert state() == (DeliveryState.QUEUED, 0), url
    assert try_now() is None


@pytest.fixture
def keyless(provider: Provider) -> Iterator[Provider]:
    """The same, as a provider without keys: nothing that it is told drops a second email."""
    plain = {"BACKEND": "anymail.backends.resend.EmailBackend"}
    sending = {"default": {**mailer(provider)["default"], **plain}}  # type: ignore[dict-item]
    with override_settings(MAILERS=sending, MAIL_KEY_WINDOW=0):
        yield provider


@pytest.mark.parametrize("fault", MAY_BE_TAKEN, ids=lambda fault: fault.name)
def test_without_keys_what_may_be_taken_is_tried_once_more_and_no_third_time(
    keyless: Provider, fault: Fault
) -> None:
    keyless.plan(*[fault] * 3)
    live_row()
    assert (state(), effect()) == ((DeliveryState.UNCERTAIN, 1), Effect.MAY_REPEAT)
    assert "may send twice" in dead_row().dead_reason
    assert state() == (DeliveryState.UNCERTAIN, 2)
    assert sum(emails(keyless)) == (2 if fault.accepts else 0)


@pytest.mark.parametrize("fault", NOT_TAKEN, ids=lambda fault: f"{fault.code}")
def test_without_keys_what_is_surely_not_taken_is_tried_as_often_as_need_be(
    keyless: Provider, fault: Fault
) -> None:
    keyless.plan(*[fault] * 4)
    for _ in range(4):
        live_row()
        assert (state(), effect()) == ((DeliveryState.QUEUED, 0), Effect.SAFE)
    assert try_now() is None
    assert emails(keyless) == [1]
    assert Delivery.objects.get().provider_id == keyless.calls()[-1].id
