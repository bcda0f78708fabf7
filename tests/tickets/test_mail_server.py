"""The email of an order and a real mail server that fails: SMTP, without keys."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import override_settings

from orders.services import PlacedOrder
from tests.provider import Fault, MailServer, smtp
from tests.provider.smtp import Phase
from tests.tickets.tries import dead_row, live_row, try_now
from tickets.models import Delivery, DeliveryState

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE: list[Phase] = ["connect", "EHLO", "MAIL", "RCPT"]


@pytest.fixture
def server(made: PlacedOrder, tmp_path: Path) -> Iterator[MailServer]:
    """A mail server that the product sends through; the email of an order is due."""
    with MailServer(tmp_path / "mail") as running:
        options = {"host": running.host, "port": running.port, "timeout": 1}
        mailer = {"BACKEND": "stagedoor.smtp.Backend", "OPTIONS": options}
        with override_settings(MAILERS={"default": mailer}, MAIL_KEY_WINDOW=0):
            yield running


def state() -> tuple[str, int]:
    found = Delivery.objects.get()
    return found.state, found.tries


def emails(server: MailServer) -> list[int]:
    return list(server.accepted().values())


def test_an_email_is_accepted_once(server: MailServer) -> None:
    assert try_now() is None
    assert emails(server) == [1]
    assert state() == (DeliveryState.SENT, 1)


FAULTS = [
    *[fault(phase) for phase in BEFORE for fault in (smtp.closes, smtp.silent)],
    *[smtp.replies(phase, 421) for phase in (*BEFORE, "DATA", "message")],
    *[smtp.replies(phase, 451) for phase in (*BEFORE, "DATA", "message")],
    *[smtp.replies(phase, 554) for phase in ("MAIL", "DATA", "message")],
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_what_fails_before_the_message_or_is_refused_was_not_taken_and_is_tried_again(
    server: MailServer, fault: Fault
) -> None:
    server.plan(*[fault] * 3)
    for _ in range(3):
        row = live_row()
        assert state() == (DeliveryState.QUEUED, 0)
        assert "example" not in f"{row.last_error}{row.traceback}"
    assert try_now() is None
    assert emails(server) == [1]


def test_a_recipient_that_is_refused_is_dead_at_once(server: MailServer) -> None:
    server.plan(smtp.replies("RCPT", 550))
    assert "refuses the recipient: 550" in dead_row().dead_reason
    assert state() == (DeliveryState.QUEUED, 0)


@pytest.mark.parametrize(
    "fault",
    [smtp.lost_answer(), smtp.lost_connection(), smtp.slow(3)],
    ids=lambda fault: fault.name,
)
def test_a_message_whose_answer_is_lost_is_sent_twice_at_most(
    server: MailServer, fault: Fault
) -> None:
    server.plan(*[fault] * 3)
    live_row()
    assert state() == (DeliveryState.UNCERTAIN, 1)
    assert "may send twice" in dead_row().dead_reason
    assert state() == (DeliveryState.UNCERTAIN, 2)
    assert emails(server) == [2]


@pytest.mark.parametrize("fault", [smtp.closes("message"), smtp.silent("message")])
def test_a_loss_in_the_message_may_be_one_after_it(server: MailServer, fault: Fault) -> None:
    server.plan(fault)
    live_row()
    assert state() == (DeliveryState.UNCERTAIN, 1)
    assert try_now() is None
    assert emails(server) == [1]
