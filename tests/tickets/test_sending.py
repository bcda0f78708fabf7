"""What the mail server answers, and what becomes of the job then."""

import smtplib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test import override_settings
from django.utils import timezone

from jobs.models import JobEvent, OutboxRow
from jobs.policy import GiveUp, TryLater
from jobs.registry import all_kinds, kind_named
from jobs.testing import drain
from orders.services import PlacedOrder
from tests.conftest import MailFolder
from tests.people import buy, new_type
from tests.tickets.conftest import Answers
from tests.tickets.tries import dead_row, try_now
from tickets import handlers, sending
from tickets.handlers import OrderArgs
from tickets.mail_errors import MailRefused
from tickets.models import Delivery, DeliveryState
from tickets.repeats import MARGIN
from tickets.sending import verdict_on

pytestmark = pytest.mark.django_db(transaction=True)

DAY = 24 * 3600
ADDRESS = "buyer@example.org"


def refused(*codes: int) -> smtplib.SMTPRecipientsRefused:
    return smtplib.SMTPRecipientsRefused(
        {f"{n}-{ADDRESS}": (code, b"no <buyer@example.org>") for n, code in enumerate(codes)}
    )


ANSWERS: list[tuple[Exception, type[Exception]]] = [
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
    (smtplib.SMTPDataError(554, b"we think it is spam"), MailRefused),
    (smtplib.SMTPAuthenticationError(535, b"wrong password"), MailRefused),
    (smtplib.SMTPNotSupportedError("STARTTLS extension not supported by server."), MailRefused),
    (smtplib.SMTPResponseException(500, b"Line too long."), MailRefused),
    (FileNotFoundError("no such folder"), FileNotFoundError),
    (ValueError(f"Invalid address '{ADDRESS}'"), GiveUp),
]


@pytest.mark.parametrize(("answer", "expected"), ANSWERS, ids=lambda value: repr(value)[:40])
def test_an_answer_of_the_mail_server_is_a_verdict(
    answer: Exception, expected: type[Exception]
) -> None:
    verdict = verdict_on(answer)
    assert type(verdict) is expected
    assert ADDRESS not in str(verdict)
    if isinstance(verdict, TryLater):
        assert verdict.delay == 30


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        (refused(450), False),
        (refused(421), True),
        (smtplib.SMTPConnectError(421, b"too busy"), True),
        (smtplib.SMTPSenderRefused(452, b"full", "tickets@example.org"), True),
        (smtplib.SMTPDataError(451, b"local error"), True),
        (smtplib.SMTPServerDisconnected("gone"), True),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_an_answer_about_one_recipient_is_not_held_against_the_server(
    answer: Exception, counts: bool
) -> None:
    verdict = verdict_on(answer)
    assert isinstance(verdict, TryLater)
    assert verdict.of_provider is counts


ODD = b'5.7.1 no "buyer"(x)@example.org buyer%example.org+40 BUYER AT EXAMPLE.ORG wanted'


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (smtplib.SMTPDataError(554, ODD), "MailRefused: the mail server answers 554 to DATA"),
        (smtplib.SMTPDataError(451, ODD), "TryLater: the mail server answers 451 to DATA"),
        (
            smtplib.SMTPSenderRefused(550, ODD, "buyer@example.org"),
            "MailRefused: the mail server answers 550 to MAIL",
        ),
        (
            smtplib.SMTPAuthenticationError(535, ODD),
            "MailRefused: the mail server answers 535 to AUTH",
        ),
        (
            smtplib.SMTPServerDisconnected(f"lost: {ODD!r}"),
            "TryLater: the mail server does not serve: SMTPServerDisconnected",
        ),
        (
            smtplib.SMTPException(f"nonsense: {ODD!r}"),
            "MailRefused: the mail server cannot do it: SMTPException",
        ),
        (
            ValueError(f"Invalid address {ODD!r}"),
            "GiveUp: the message cannot be sent as it is: ValueError",
        ),
    ],
    ids=lambda value: repr(value)[:40],
)
@pytest.mark.parametrize("window", [0, DAY])
def test_what_is_stored_of_an_answer_is_its_code_and_phase_alone(
    made: PlacedOrder, answers: Answers, answer: Exception, shown: str, window: int
) -> None:
    answers(answer)
    with override_settings(MAIL_KEY_WINDOW=window):
        row = try_now()
    assert row is not None
    assert row.last_error == shown
    events = " ".join(JobEvent.objects.values_list("note", flat=True))
    stored = f"{row.last_error}{row.traceback}{row.dead_reason}{events}".lower()
    assert "example" not in stored
    assert "buyer" not in stored


def test_a_refused_recipient_is_dead_at_once_and_its_address_is_in_no_reason(
    made: PlacedOrder, answers: Answers
) -> None:
    answers(refused(550))
    row = dead_row()
    assert "refuses the recipient: 550" in row.dead_reason
    assert "example.org" not in f"{row.dead_reason}{row.last_error}{row.traceback}"


@pytest.mark.parametrize("at", ["open", "send_messages"])
def test_a_mail_server_that_is_away_burns_no_attempt(
    made: PlacedOrder, answers: Answers, at: str, mailbox: MailFolder
) -> None:
    answers(*[ConnectionRefusedError(111, "refused")] * 12, at=at)
    for _ in range(12):
        row = try_now()
        assert row is not None
        assert (row.attempts, row.dead_at) == (0, None)
    assert try_now() is None
    assert len(mailbox.messages()) == 1


def test_a_server_that_says_goodbye_badly_has_accepted_all_the_same(
    made: PlacedOrder, answers: Answers, mailbox: MailFolder
) -> None:
    answers(smtplib.SMTPServerDisconnected("bye"), at="close")
    assert try_now() is None
    assert [call["accepted"] for call in mailbox.calls()] == [True]


def test_with_keys_losses_in_the_middle_are_repeated_until_it_is_sent(
    made: PlacedOrder, answers: Answers, mailbox: MailFolder
) -> None:
    answers(*[TimeoutError("timed out")] * 5)
    for _ in range(5):
        assert try_now() is not None
    assert try_now() is None
    assert Delivery.objects.get().state == DeliveryState.SENT


def began(seconds: float) -> None:
    """The first try of the email began so long ago, and no try was answered."""
    at = timezone.now() - timedelta(seconds=seconds)
    Delivery.objects.filter(tries__gt=0).update(called_at=at)


def lost_first_try(answers: Answers) -> None:
    answers(TimeoutError("timed out"))
    assert try_now() is not None


def test_a_try_that_may_be_a_second_email_is_not_made(
    made: PlacedOrder, answers: Answers, mailbox: MailFolder
) -> None:
    lost_first_try(answers)
    began(DAY - MARGIN + 60)
    assert "may send twice: first tried 23 h ago" in dead_row().dead_reason
    assert "forgets its key after 24 h" in dead_row().dead_reason
    assert not mailbox.calls()


def test_a_try_within_the_window_is_made(
    made: PlacedOrder, answers: Answers, mailbox: MailFolder
) -> None:
    lost_first_try(answers)
    began(DAY - MARGIN - 60)
    assert try_now() is None
    assert len(mailbox.messages()) == 1


def consent(*orders: PlacedOrder) -> None:
    """As the replay of the jobs of these orders' first emails does."""
    told = kind_named("email_tickets").consent
    assert told is not None
    with transaction.atomic():
        told([OrderArgs(order.id) for order in orders])


def test_a_person_who_accepts_it_lets_the_next_try_be_a_first_one(
    made: PlacedOrder, answers: Answers, mailbox: MailFolder
) -> None:
    lost_first_try(answers)
    began(3 * DAY)
    dead_row()
    consent(made)
    OutboxRow.objects.update(dead_at=None)
    assert try_now() is None
    assert len(mailbox.messages()) == 1


def test_consent_changes_nothing_of_what_was_sent(made: PlacedOrder) -> None:
    drain()
    before = Delivery.objects.values().get()
    for window in (0, DAY):
        with override_settings(MAIL_KEY_WINDOW=window):
            consent(made)
    assert Delivery.objects.values().get() == before


def test_consent_changes_neither_date_nor_window_under_a_key_that_is_remembered(
    made: PlacedOrder, answers: Answers
) -> None:
    lost_first_try(answers)
    began(DAY - MARGIN - 60)
    before = Delivery.objects.values().get()
    consent(made)
    assert Delivery.objects.values().get() == before
    began(DAY - MARGIN + 60)
    consent(made)
    called_at = Delivery.objects.get().called_at
    assert called_at is not None
    assert timezone.now() - called_at < timedelta(minutes=1)


def test_consent_is_for_the_asked_email_alone(made: PlacedOrder, answers: Answers) -> None:
    lost_first_try(answers)
    began(3 * DAY)
    first = Delivery.objects.get()
    for number, (kind, generation) in enumerate([("tickets", 2), ("refund", 1)]):
        first.pk, first.kind, first.generation = None, kind, generation
        first.idempotency_key = str(number)
        first.save()
    consent(made)
    old = Delivery.objects.filter(called_at__lt=timezone.now() - timedelta(days=2))
    assert sorted(old.values_list("kind", "generation")) == [("refund", 1), ("tickets", 2)]


def test_two_replays_of_the_same_many_do_not_wait_in_a_circle(mailbox: MailFolder) -> None:
    kind = new_type()
    orders = [buy(kind) for _ in range(40)]
    drain()
    Delivery.objects.update(state=DeliveryState.QUEUED)
    began(3 * DAY)
    start = threading.Barrier(4)

    def replay(turn: int) -> None:
        try:
            start.wait(10)
            for _ in range(10):
                consent(*(reversed(orders) if turn % 2 else orders))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(replay, range(1, 5)))


def test_every_email_gives_up_before_the_provider_forgets_its_key() -> None:
    emails = [kind for kind in all_kinds() if kind.consent is not None]
    assert {kind.name for kind in emails} == {
        "announce_order", "email_changed_tickets", "email_links", "email_refund", "email_staff",
        "email_tickets", "remind_order", "resend_tickets",
    }  # fmt: skip
    for kind in emails:
        assert kind.policy.horizon() < DAY - MARGIN
        assert kind.policy == handlers.EMAIL


def test_every_kind_that_sends_has_its_share_of_the_slots_together() -> None:
    senders = [kind for kind in all_kinds() if kind.policy is sending.POLICY]
    assert len(senders) >= 7
    assert {kind.outside for kind in senders} == {sending.MAIL}
    assert kind_named("pay_refund").outside not in ("", sending.MAIL)
    assert kind_named("render_tickets").outside == ""
