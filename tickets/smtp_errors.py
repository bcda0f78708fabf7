"""What an answer of a mail server means for the job, and whether it may have taken the message."""

import smtplib
import socket

from jobs.policy import GiveUp, TryLater

from .mail_errors import PAUSE, MailRefused

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


def surely_not_taken(error: Exception) -> bool:
    """Whether the mail server cannot have accepted the message that ended with this error."""
    if isinstance(error, smtplib.SMTPDataError):
        # Any other code than 250 is this error, also -1 for an answer that is none.
        return 400 <= error.smtp_code < 600
    return isinstance(error, NOT_TAKEN)


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
