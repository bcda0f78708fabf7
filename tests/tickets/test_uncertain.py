"""A mail server that knows no keys: what it may have taken is written down before it is called."""

import contextlib
import smtplib
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from django.db import OperationalError, connection
from django.test import override_settings
from django.utils import timezone

from jobs.models import JobEvent, OutboxRow
from jobs.prognosis import Effect
from jobs.registry import kind_named
from jobs.testing import drain
from orders.services import PlacedOrder
from tests.conftest import Arm, MailFolder
from tests.people import buy, new_type
from tests.tickets.conftest import Answers
from tests.tickets.test_sending import consent, refused
from tests.tickets.tries import dead_row, live_row, try_now
from tickets import deliveries, services
from tickets.handlers import OrderArgs
from tickets.models import Delivery, DeliveryState
from tickets.services import Actor

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def without_keys() -> Iterator[None]:
    """As production is by default: plain SMTP."""
    with override_settings(MAIL_KEY_WINDOW=0):
        yield


@contextlib.contextmanager
def another_session() -> Iterator[psycopg.Connection]:
    """A connection of its own to the same database."""
    with psycopg.connect(**{**connection.get_connection_params(), "autocommit": True}) as other:
        yield other


def state() -> tuple[str, int]:
    found = Delivery.objects.get(kind="tickets", generation=1)
    return found.state, found.tries


QUEUED, SENT = (DeliveryState.QUEUED, 0), (DeliveryState.SENT, 1)


def may_be_taken(calls: int = 1) -> tuple[str, int]:
    return DeliveryState.UNCERTAIN, calls


def effect() -> Effect:
    foresee = kind_named("email_tickets").foresee
    assert foresee is not None
    [found] = foresee([OrderArgs(Delivery.objects.get().order_id)])
    return found.effect


def end_session() -> None:
    """PostgreSQL goes away under this connection."""
    with another_session() as other:
        other.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])


def test_that_it_may_be_taken_is_committed_before_the_call_and_that_it_was_sent_after_it(
    made: PlacedOrder, answers: Answers, mailbox: MailFolder
) -> None:
    seen: list[tuple[str, int]] = []

    def look() -> None:
        with another_session() as other:
            found = other.execute("SELECT state, tries FROM tickets_delivery").fetchone()
            assert found is not None
            seen.append(found)

    answers(look, at="open")
    answers(look)
    assert try_now() is None
    assert seen == [QUEUED, may_be_taken()]
    assert state() == SENT
    assert len(mailbox.calls()) == 1


@pytest.mark.parametrize("place", ["before_effects", "moved", "before_commit"])
def test_an_accepted_email_whose_effects_are_not_committed_is_sent_once_more_and_no_third_time(
    made: PlacedOrder, at_failpoint: Arm, mailbox: MailFolder, place: str
) -> None:
    def cut(now: str) -> None:
        if now == f"runner.{place}/email_tickets":
            raise OperationalError("the server closed the connection unexpectedly")

    at_failpoint(cut)
    for calls in (1, 2):
        live_row()
        assert state() == may_be_taken(calls)
    reason = dead_row().dead_reason
    assert "may send twice: the mail server was given it 2 times" in reason
    assert len(mailbox.calls()) == 2


def test_an_order_that_stays_locked_keeps_no_email_back(mailbox: MailFolder) -> None:
    order = buy(new_type())
    drain()
    services.refund(order.id, "moved", Actor("boxoffice"))
    with pytest.raises(RuntimeError):
        drain(rounds=1)
    with another_session() as other, other.transaction():
        other.execute("SELECT FROM orders_order WHERE id = %s FOR NO KEY UPDATE", [order.id])
        drain()
    assert not OutboxRow.objects.exists()
    assert len(mailbox.calls()) == 1 + 1


LOST = [
    smtplib.SMTPServerDisconnected("Connection unexpectedly closed"),
    TimeoutError("timed out"),
    ConnectionResetError(104, "reset"),
    BrokenPipeError(32, "broken pipe"),
    smtplib.SMTPDataError(-1, b"an answer that is none"),
    smtplib.SMTPDataError(251, b"will forward"),
    smtplib.SMTPResponseException(500, b"Line too long."),
    OSError(5, "input or output"),
]
REFUSED = [
    smtplib.SMTPDataError(421, b"closing"),
    smtplib.SMTPDataError(451, b"local error"),
    smtplib.SMTPDataError(554, b"we think it is spam"),
    smtplib.SMTPSenderRefused(452, b"full", "tickets@example.org"),
    smtplib.SMTPHeloError(501, b"who?"),
    smtplib.SMTPNotSupportedError("SMTPUTF8 not supported by server"),
    refused(450),
    ConnectionRefusedError(111, "refused"),
]


@pytest.mark.parametrize("error", LOST, ids=lambda error: repr(error)[:40])
def test_a_loss_in_the_middle_is_tried_once_more_and_no_third_time(
    made: PlacedOrder, answers: Answers, error: Exception, mailbox: MailFolder
) -> None:
    answers(error, error, after=True)
    live_row()
    assert (state(), effect()) == (may_be_taken(), Effect.MAY_REPEAT)
    assert "may send twice" in dead_row().dead_reason
    assert (state(), effect()) == (may_be_taken(2), Effect.MAY_REPEAT)
    assert len(mailbox.calls()) == 2


def test_an_error_that_nobody_thought_of_may_have_come_after_the_acceptance(
    made: PlacedOrder, answers: Answers, mailbox: MailFolder
) -> None:
    answers(*[RuntimeError("the library broke")] * 5, after=True)
    for calls in (1, 2):
        live_row()
        assert state() == may_be_taken(calls)
    assert "may send twice" in dead_row().dead_reason
    assert len(mailbox.calls()) == 2


def test_a_loss_that_is_followed_by_an_acceptance_is_sent(
    made: PlacedOrder, answers: Answers
) -> None:
    answers(TimeoutError("timed out"))
    live_row()
    assert try_now() is None
    assert Delivery.objects.get().state == DeliveryState.SENT


@pytest.mark.parametrize("error", REFUSED, ids=lambda error: repr(error)[:40])
def test_what_was_surely_not_taken_is_tried_as_often_as_the_policy_says(
    made: PlacedOrder, answers: Answers, error: Exception, mailbox: MailFolder
) -> None:
    answers(*[error] * 5)
    for _ in range(5):
        live_row()
        assert (state(), effect()) == (QUEUED, Effect.SAFE)
    assert try_now() is None
    assert state() == SENT
    assert len(mailbox.calls()) == 1


@pytest.mark.parametrize("error", [TimeoutError("timed out"), smtplib.SMTPConnectError(421, b"")])
def test_a_server_that_cannot_be_reached_took_nothing(
    made: PlacedOrder, answers: Answers, error: Exception
) -> None:
    answers(*[error] * 5, at="open")
    for _ in range(5):
        live_row()
        assert (state(), effect()) == (QUEUED, Effect.SAFE)
    assert try_now() is None


def test_a_refusal_says_nothing_of_the_call_before_it(made: PlacedOrder, answers: Answers) -> None:
    answers(TimeoutError("timed out"), smtplib.SMTPDataError(451, b""), refused(450))
    for _ in range(3):
        live_row()
        assert state() == may_be_taken()
    assert try_now() is None


def test_a_message_that_django_refuses_is_dead_at_once_and_was_not_taken(
    made: PlacedOrder, answers: Answers
) -> None:
    answers(ValueError("Header values can't contain newlines"))
    assert "cannot be sent as it is: ValueError" in dead_row().dead_reason
    assert (state(), effect()) == (QUEUED, Effect.SAFE)


def test_without_postgresql_the_server_is_not_called(
    made: PlacedOrder, answers: Answers, mailbox: MailFolder
) -> None:
    answers(end_session, at="open")
    live_row()
    assert (state(), mailbox.calls()) == (QUEUED, [])
    assert try_now() is None
    assert len(mailbox.calls()) == 1


def test_a_refusal_that_cannot_be_written_leaves_the_call_as_one_that_may_be_taken(
    made: PlacedOrder, answers: Answers
) -> None:
    def refuse() -> None:
        end_session()
        raise refused(450)

    answers(refuse)
    live_row()
    assert state() == may_be_taken()
    assert not JobEvent.objects.exists()
    assert try_now() is None


def test_an_acceptance_that_cannot_be_written_is_repeated_once(
    made: PlacedOrder, answers: Answers, mailbox: MailFolder
) -> None:
    answers(end_session, end_session, after=True)
    for calls in (1, 2):
        live_row()
        assert state() == may_be_taken(calls)
    assert "may send twice" in dead_row().dead_reason
    assert len(mailbox.calls()) == 2


def test_of_two_runs_at_once_one_calls(
    made: PlacedOrder, answers: Answers, mailbox: MailFolder
) -> None:
    def overtake() -> None:
        assert deliveries.note_call(Delivery.objects.get())

    answers(overtake, at="open")
    assert "another run of this job is at it" in live_row().last_error
    assert (state(), mailbox.calls()) == (may_be_taken(), [])


def test_a_person_who_accepts_it_allows_one_more_call_each_time(
    made: PlacedOrder, answers: Answers, mailbox: MailFolder
) -> None:
    answers(*[TimeoutError("timed out")] * 4, after=True)
    live_row()
    for calls in (2, 3, 4):
        dead_row()
        dead_row()
        assert len(mailbox.calls()) == calls
        consent(made)
        OutboxRow.objects.update(dead_at=None)
    assert try_now() is None


def test_consent_changes_nothing_of_what_was_surely_not_taken(
    made: PlacedOrder, answers: Answers
) -> None:
    answers(refused(450))
    live_row()
    Delivery.objects.update(first_try_at=timezone.now() - timedelta(days=3))
    before = Delivery.objects.values().get()
    consent(made)
    assert Delivery.objects.values().get() == before


def test_with_keys_the_key_protects_and_no_call_is_uncertain(
    made: PlacedOrder, answers: Answers, mailbox: MailFolder
) -> None:
    with override_settings(MAIL_KEY_WINDOW=24 * 3600):
        answers(*[TimeoutError("timed out")] * 3, after=True)
        for calls in (1, 2, 3):
            live_row()
            assert state() == (DeliveryState.QUEUED, calls)
        assert try_now() is None
    assert state() == (DeliveryState.SENT, 4)
    assert len(mailbox.messages()) == 1
