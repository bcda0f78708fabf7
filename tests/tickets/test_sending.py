"""What the mail server answers, and what becomes of the job then."""

import smtplib
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone

from jobs.models import OutboxRow
from jobs.policy import GiveUp, TryLater
from jobs.registry import all_kinds, kind_named
from jobs.testing import drain
from orders.services import PlacedOrder
from stagedoor.mailbox import Mailbox
from tests.conftest import MailFolder
from tests.people import buy, new_type
from tickets import handlers
from tickets.deliveries import MARGIN
from tickets.handlers import OrderArgs
from tickets.models import Delivery, DeliveryState
from tickets.sending import verdict_on

pytestmark = pytest.mark.django_db(transaction=True)

DAY = 24 * 3600
ADDRESS = "buyer@example.org"


def refused(*codes: int) -> smtplib.SMTPRecipientsRefused:
    return smtplib.SMTPRecipientsRefused(
        {f"{n}-{ADDRESS}": (code, b"no <buyer@example.org>") for n, code in enumerate(codes)}
    )


ANSWERS: list[tuple[OSError, type[Exception] | None]] = [
    (refused(550), GiveUp),
    (refused(550, 553), GiveUp),
    (refused(450), TryLater),
    (refused(550, 450), TryLater),
    (smtplib.SMTPDataError(451, b"local error"), TryLater),
    (smtplib.SMTPConnectError(421, b"too busy"), TryLater),
    (smtplib.SMTPSenderRefused(452, b"full", "tickets@example.org"), TryLater),
    (smtplib.SMTPServerDisconnected("gone"), TryLater),
    (ConnectionRefusedError(111, "refused"), TryLater),
    (ConnectionResetError(104, "reset"), TryLater),
    (TimeoutError("timed out"), TryLater),
    (socket.gaierror(-3, "Temporary failure in name resolution"), TryLater),
    (smtplib.SMTPDataError(554, b"we think it is spam"), None),
    (smtplib.SMTPAuthenticationError(535, b"wrong password"), None),
    (FileNotFoundError("no such folder"), None),
]


@pytest.mark.parametrize(("answer", "expected"), ANSWERS, ids=lambda value: repr(value)[:40])
def test_an_answer_of_the_mail_server_is_a_verdict(
    answer: OSError, expected: type[Exception] | None
) -> None:
    verdict = verdict_on(answer)
    assert type(verdict) is (expected or type(None))
    assert ADDRESS not in str(verdict)
    if isinstance(verdict, TryLater):
        assert verdict.delay == 30


@pytest.fixture
def order(mailbox: MailFolder) -> PlacedOrder:
    """An order with its file, whose email is due."""
    placed = buy(new_type())
    with pytest.raises(RuntimeError):
        drain(rounds=1)
    return placed


type Answers = Callable[..., None]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Let the mail server raise these, one after the other; None accepts."""

    def arm(*errors: BaseException | None, at: str = "send_messages") -> None:
        left = list(errors)
        real = getattr(Mailbox, at)

        def answer(mailbox: Mailbox, *args: Any) -> Any:
            error = left.pop(0) if left else None
            if error is not None:
                raise error
            return real(mailbox, *args)

        monkeypatch.setattr(Mailbox, at, answer)

    return arm


def try_now() -> OutboxRow | None:
    """Run the email's job; its row, None once it is done."""
    OutboxRow.objects.update(available_at=timezone.now())
    drain()
    return OutboxRow.objects.first()


def dead_row() -> OutboxRow:
    row = try_now()
    assert row is not None
    assert row.dead_at is not None
    return row


def test_a_refused_recipient_is_dead_at_once_and_its_address_is_in_no_reason(
    order: PlacedOrder, answers: Answers
) -> None:
    answers(refused(550))
    row = dead_row()
    assert "refuses the recipient: 550" in row.dead_reason
    assert "example.org" not in f"{row.dead_reason}{row.last_error}{row.traceback}"


@pytest.mark.parametrize("at", ["open", "send_messages"])
def test_a_mail_server_that_is_away_burns_no_attempt(
    order: PlacedOrder, answers: Answers, at: str, mailbox: MailFolder
) -> None:
    answers(*[ConnectionRefusedError(111, "refused")] * 12, at=at)
    for _ in range(12):
        row = try_now()
        assert row is not None
        assert (row.attempts, row.dead_at) == (0, None)
    assert try_now() is None
    assert len(mailbox.messages()) == 1


def test_a_server_that_says_goodbye_badly_has_accepted_all_the_same(
    order: PlacedOrder, answers: Answers, mailbox: MailFolder
) -> None:
    answers(smtplib.SMTPServerDisconnected("bye"), at="close")
    assert try_now() is None
    assert [call["accepted"] for call in mailbox.calls()] == [True]


@override_settings(MAIL_KEY_WINDOW=0)
def test_without_keys_a_loss_in_the_middle_is_tried_once_more_and_no_third_time(
    order: PlacedOrder, answers: Answers
) -> None:
    answers(*[smtplib.SMTPServerDisconnected("gone")] * 3)
    row = try_now()
    assert row is not None
    assert row.dead_at is None
    assert Delivery.objects.get().state == DeliveryState.UNCERTAIN
    row = dead_row()
    assert "may send twice" in row.dead_reason


@override_settings(MAIL_KEY_WINDOW=0)
def test_without_keys_a_server_that_cannot_be_reached_is_no_loss_in_the_middle(
    order: PlacedOrder, answers: Answers
) -> None:
    answers(*[TimeoutError("timed out")] * 5, at="open")
    for _ in range(5):
        assert try_now() is not None
    assert Delivery.objects.get().state == DeliveryState.QUEUED
    assert try_now() is None


def test_with_keys_losses_in_the_middle_are_repeated_until_it_is_sent(
    order: PlacedOrder, answers: Answers, mailbox: MailFolder
) -> None:
    answers(*[TimeoutError("timed out")] * 5)
    for _ in range(5):
        assert try_now() is not None
    assert try_now() is None
    assert Delivery.objects.get().state == DeliveryState.SENT


def began(seconds: float) -> None:
    """The first try of the email began so long ago, and no try was answered."""
    at = timezone.now() - timedelta(seconds=seconds)
    Delivery.objects.update(first_try_at=at)


def failed_first_try(answers: Answers) -> None:
    answers(ConnectionRefusedError(111, "refused"))
    assert try_now() is not None


def test_a_try_that_may_be_a_second_email_is_not_made(
    order: PlacedOrder, answers: Answers, mailbox: MailFolder
) -> None:
    failed_first_try(answers)
    began(DAY - MARGIN + 60)
    assert "may send twice: first tried 23 h ago" in dead_row().dead_reason
    assert "forgets its key after 24 h" in dead_row().dead_reason
    assert not mailbox.calls()


def test_a_try_within_the_window_is_made(
    order: PlacedOrder, answers: Answers, mailbox: MailFolder
) -> None:
    failed_first_try(answers)
    began(DAY - MARGIN - 60)
    assert try_now() is None
    assert len(mailbox.messages()) == 1


def test_a_person_who_accepts_it_lets_the_next_try_be_a_first_one(
    order: PlacedOrder, answers: Answers, mailbox: MailFolder
) -> None:
    failed_first_try(answers)
    began(3 * DAY)
    dead_row()
    consent = kind_named("email_tickets").consent
    assert consent is not None
    consent(OrderArgs(order.id))
    OutboxRow.objects.update(dead_at=None, relayed_at=None, entry_id=None)
    assert try_now() is None
    assert len(mailbox.messages()) == 1


def test_consent_changes_nothing_of_what_was_sent(order: PlacedOrder) -> None:
    drain()
    before = Delivery.objects.values().get()
    consent = kind_named("email_tickets").consent
    assert consent is not None
    consent(OrderArgs(order.id))
    assert Delivery.objects.values().get() == before


def test_every_email_gives_up_before_the_provider_forgets_its_key() -> None:
    emails = [kind for kind in all_kinds() if kind.consent is not None]
    assert [kind.name for kind in emails] == ["email_tickets", "refund_order", "resend_tickets"]
    for kind in emails:
        assert kind.policy.horizon() < DAY - MARGIN
        assert kind.policy == handlers.EMAIL
