"""The mail server's faults as smtplib sees them, and what its ledger says then."""

import smtplib
import threading
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from tests.processes import wait_for

from . import smtp
from .faults import ACCEPT, Fault
from .smtp import MailServer, Phase

TIMEOUT = 0.5
"""Seconds after which a client gives up that gets no answer."""
PATIENCE = 30.0
ADDRESS = "buyer@example.org"
PHASES: list[Phase] = ["connect", "EHLO", "MAIL", "RCPT", "DATA", "message"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MailServer]:
    """A mail server without a plan: it accepts."""
    with MailServer(tmp_path / "mail") as running:
        yield running


def letter(name: str = "<one@example.org>", to: str = ADDRESS) -> EmailMessage:
    message = EmailMessage()
    message["From"] = "tickets@example.org"
    message["To"] = to
    message["Subject"] = "Tickets for Zoë"
    message["Message-ID"] = name
    message.set_content("Your tickets")
    return message


def send(server: MailServer, *letters: EmailMessage, timeout: float = PATIENCE) -> None:
    with smtplib.SMTP(server.host, server.port, timeout=timeout) as client:
        for one in letters or [letter()]:
            client.send_message(one)


def test_every_message_is_accepted_and_counted_by_its_message_id(server: MailServer) -> None:
    send(server, letter(), letter("<two@example.org>"))
    send(server)
    assert server.accepted() == {"<one@example.org>": 2, "<two@example.org>": 1}
    call = server.calls()[0]
    assert (call.recipients, call.subject, call.code) == ((ADDRESS,), "Tickets for Zoë", 250)
    assert server.calls()[2].digest == call.digest, "the same bytes"


REPLIES: dict[Phase, type[smtplib.SMTPException]] = {
    "connect": smtplib.SMTPConnectError,
    "EHLO": smtplib.SMTPHeloError,
    "MAIL": smtplib.SMTPSenderRefused,
    "RCPT": smtplib.SMTPRecipientsRefused,
    "DATA": smtplib.SMTPDataError,
    "message": smtplib.SMTPDataError,
}


@pytest.mark.parametrize("code", [450, 550])
@pytest.mark.parametrize("phase", PHASES)
def test_a_refusal_is_told_at_its_phase_and_accepts_nothing(
    server: MailServer, phase: Phase, code: int
) -> None:
    server.plan(smtp.replies(phase, code))
    with pytest.raises(REPLIES[phase]) as told:
        send(server)
    assert _code(told.value) == code
    (call,) = server.calls()
    assert (call.accepted, call.code, call.fault) == (False, code, f"replies {code} at {phase}")
    send(server)
    assert server.accepted() == {"<one@example.org>": 1}


def _code(error: smtplib.SMTPException) -> int:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return int(error.recipients[ADDRESS][0])
    assert isinstance(error, smtplib.SMTPResponseException)
    return error.smtp_code


@pytest.mark.parametrize("phase", PHASES)
def test_a_connection_that_closes_or_falls_silent_accepts_nothing(
    server: MailServer, phase: Phase
) -> None:
    server.plan(smtp.closes(phase), smtp.silent(phase))
    with pytest.raises(smtplib.SMTPServerDisconnected):
        send(server)
    with pytest.raises((TimeoutError, smtplib.SMTPServerDisconnected), match="timed out"):
        send(server, timeout=TIMEOUT)
    assert [call.fault for call in server.calls()] == [f"closes at {phase}", f"silent at {phase}"]
    assert server.accepted() == {}
    send(server)
    assert server.accepted() == {"<one@example.org>": 1}


AFTER_DATA = [
    (smtp.lost_answer(), smtplib.SMTPServerDisconnected),
    (smtp.slow(2.0), smtplib.SMTPServerDisconnected),
    (smtp.lost_connection(), smtplib.SMTPServerDisconnected),
    (smtp.accepted_and_broken(), smtplib.SMTPDataError),
]


@pytest.mark.parametrize(
    ("fault", "error"), AFTER_DATA, ids=lambda value: getattr(value, "name", None)
)
def test_a_message_whose_answer_is_lost_is_accepted_each_time(
    server: MailServer, fault: Fault, error: type[smtplib.SMTPException]
) -> None:
    server.plan(fault)
    with pytest.raises(error):
        send(server, timeout=TIMEOUT)
    assert server.accepted() == {"<one@example.org>": 1}
    send(server)
    assert server.accepted() == {"<one@example.org>": 2}


def test_a_slow_reply_comes_in_time(server: MailServer) -> None:
    server.plan(smtp.slow(0.2))
    send(server)
    assert server.accepted() == {"<one@example.org>": 1}


def test_a_recipient_has_a_fault_of_its_own(server: MailServer) -> None:
    server.plan(recipients={"nobody@example.org": smtp.replies("RCPT", 550)})
    with pytest.raises(smtplib.SMTPRecipientsRefused):
        send(server, letter(to="nobody@example.org"))
    send(server)
    assert [call.recipients for call in server.calls()] == [("nobody@example.org",), (ADDRESS,)]


def test_a_further_message_on_a_connection_takes_a_further_step(server: MailServer) -> None:
    server.plan(ACCEPT, smtp.replies("message", 451))
    with pytest.raises(smtplib.SMTPDataError):
        send(server, letter(), letter("<two@example.org>"))
    assert server.accepted() == {"<one@example.org>": 1}


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_silent_connection_ends_with_the_server_and_the_ledger_stays(
    server: MailServer, end: str
) -> None:
    server.plan(smtp.lost_answer(), smtp.replies("MAIL", 421))
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            send(server)
        except smtplib.SMTPServerDisconnected as error:
            ended.append(error)

    client = threading.Thread(target=wait)
    client.start()
    wait_for(server.calls, "the line in the ledger")
    getattr(server, end)()
    client.join(10)
    assert ended
    server.start()
    with pytest.raises(smtplib.SMTPSenderRefused):
        send(server)
    send(server)
    assert server.accepted() == {"<one@example.org>": 2}
    assert len(server.calls()) == 3
