"""One call to the mail server, and what its answer means for the job.

Reasons and errors are kept and shown: they carry the server's code, never its words, which quote
the address in forms that nobody foresees.
"""

import contextlib
import smtplib
import socket
from collections.abc import Callable
from functools import partial

from django.conf import settings
from django.core.mail import mailers
from django.utils import timezone

from jobs.policy import GiveUp, TryLater

from . import deliveries, mail, metrics
from .deliveries import CALLS
from .models import Email
from .times import ago, length

PAUSE = 30.0
"""Seconds until a mail server that does not serve is asked again."""
AWAY = (smtplib.SMTPServerDisconnected, TimeoutError, ConnectionError, socket.gaierror)
NOT_TAKEN = (
    smtplib.SMTPHeloError, smtplib.SMTPNotSupportedError, smtplib.SMTPSenderRefused,
    smtplib.SMTPRecipientsRefused, ConnectionRefusedError, socket.gaierror, ValueError,
)  # fmt: skip
"""Before the message itself: no connection, no leave to send it, or Django would not make it."""
PHASES = {
    smtplib.SMTPConnectError: "connect",
    smtplib.SMTPHeloError: "HELO",
    smtplib.SMTPAuthenticationError: "AUTH",
    smtplib.SMTPSenderRefused: "MAIL",
    smtplib.SMTPDataError: "DATA",
}


class MailRefused(Exception):
    """The mail server does not want something: the text says its code, and to which command."""


def send(delivery: Email, pdf: bytes | None) -> None:
    """Give the message to the mail server: nothing is raised once it has accepted it.

    Raises TryLater where the server does not serve, GiveUp where it refuses the recipient or
    another try may send twice, MailRefused, and what else goes wrong as it is.
    """
    _refuse_repeat(delivery)
    message = mail.outgoing(delivery, pdf)
    mailer = mailers.default
    with metrics.EMAIL_SECONDS.time():
        try:
            _raise(_error_of(mailer.open, OSError))
            _note_call(delivery)
            error = _error_of(partial(mailer.send_messages, [message]), OSError, ValueError)
            # Of a mailer that does not tell, it may be.
            begun = getattr(mailer, "message_begun", True)
        finally:
            # Accepted is accepted, however the server says goodbye.
            with contextlib.suppress(Exception):
                mailer.close()
    if error is not None and not settings.MAIL_KEY_WINDOW:
        _conclude_call(delivery, error, begun)
    _raise(error)


def _refuse_repeat(delivery: Email) -> None:
    now = timezone.now()
    window = settings.MAIL_KEY_WINDOW
    if not window:
        _refuse_third_call(delivery)
    elif not deliveries.repeats_are_dropped(delivery.first_try_at, now):
        raise GiveUp(
            f"may send twice: first tried {ago(delivery.first_try_at, now)}, "
            f"the provider forgets its key after {length(window)}"
        )


def _refuse_third_call(delivery: Email) -> None:
    if delivery.tries >= CALLS:
        raise GiveUp(
            f"may send twice: the mail server was given it {delivery.tries} times "
            "and may have taken it each time"
        )


def _note_call(delivery: Email) -> None:
    # Before the call, not after its loss: a worker that is killed writes nothing any more.
    if not settings.MAIL_KEY_WINDOW and not deliveries.note_call(delivery):
        raise TryLater(PAUSE, "another run of this job is at it", of_provider=False)


def _conclude_call(delivery: Email, error: Exception, begun: bool) -> None:
    if not begun or surely_not_taken(error):
        deliveries.take_call_back(delivery)
    else:
        _refuse_third_call(delivery)


def surely_not_taken(error: Exception) -> bool:
    """Whether the mail server cannot have accepted the message that ended with this error."""
    if isinstance(error, smtplib.SMTPDataError):
        # Any other code than 250 is this error, also -1 for an answer that is none.
        return 400 <= error.smtp_code < 600
    return isinstance(error, NOT_TAKEN)


def _error_of(call: Callable[[], object], *kinds: type[Exception]) -> Exception | None:
    try:
        call()
    except kinds as error:
        return error
    return None


def _raise(error: Exception | None) -> None:
    # Not where it was caught: the traceback of what is raised there would quote the address.
    if error is not None:
        raise verdict_on(error)


def verdict_on(error: Exception) -> Exception:
    """What an error of the mail server means for the job: GiveUp, TryLater, or a failed run."""
    if isinstance(error, ValueError):
        return GiveUp(f"the message cannot be sent as it is: {type(error).__name__}")
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return _of_recipients([code for code, _ in error.recipients.values()])
    if isinstance(error, AWAY):
        return TryLater(PAUSE, f"the mail server does not serve: {type(error).__name__}")
    if not isinstance(error, smtplib.SMTPException):
        return error
    if not isinstance(error, smtplib.SMTPResponseException):
        return MailRefused(f"the mail server cannot do it: {type(error).__name__}")
    said = f"the mail server answers {error.smtp_code}{_phase(error)}"
    return TryLater(PAUSE, said) if 400 <= error.smtp_code < 500 else MailRefused(said)


def _phase(error: smtplib.SMTPResponseException) -> str:
    phase = PHASES.get(type(error))
    return f" to {phase}" if phase else ""


def _of_recipients(codes: list[int]) -> GiveUp | TryLater:
    shown = ", ".join(str(code) for code in codes)
    if all(code >= 500 for code in codes):
        return GiveUp(f"the mail server refuses the recipient: {shown}")
    # But for 421, which ends the session, it says nothing about the mail of others.
    return TryLater(
        PAUSE,
        f"the mail server does not take the recipient now: {shown}",
        of_provider=421 in codes,
    )
