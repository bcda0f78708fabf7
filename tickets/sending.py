"""One call to the mail server, and what its answer means for the job.

Reasons are kept and shown: they carry the server's code, never its words, which quote the address.
"""

import contextlib
import smtplib
import socket
from collections.abc import Callable, Iterator
from functools import partial

from django.conf import settings
from django.core.mail import mailers
from django.utils import timezone

from jobs.policy import GiveUp, TryLater

from . import deliveries, mail, metrics
from .models import Delivery
from .times import ago, length

PAUSE = 30.0
"""Seconds until a mail server that does not serve is asked again."""
AWAY = (smtplib.SMTPServerDisconnected, TimeoutError, ConnectionError, socket.gaierror)
LOST = (smtplib.SMTPServerDisconnected, TimeoutError, ConnectionResetError, BrokenPipeError)
"""In the middle of a message: the server may have taken it, and its answer was lost."""


def send(delivery: Delivery, pdf: bytes | None) -> None:
    """Give the message to the mail server: nothing is raised once it has accepted it.

    Raises TryLater where the server does not serve, GiveUp where it refuses the recipient or
    another try may send twice, and what else goes wrong as it is.
    """
    _refuse_late(delivery)
    message = mail.outgoing(delivery, pdf)
    mailer = mailers.default
    with metrics.EMAIL_SECONDS.time():
        try:
            with _as_verdict():
                mailer.open()
            with _as_verdict(partial(_lost, delivery)):
                mailer.send_messages([message])
        finally:
            # Accepted is accepted, however the server says goodbye.
            with contextlib.suppress(Exception):
                mailer.close()


def _refuse_late(delivery: Delivery) -> None:
    now = timezone.now()
    window = settings.MAIL_KEY_WINDOW
    if window and not deliveries.repeats_are_dropped(delivery.first_try_at, now):
        raise GiveUp(
            f"may send twice: first tried {ago(delivery.first_try_at, now)}, "
            f"the provider forgets its key after {length(window)}"
        )


def _lost(delivery: Delivery) -> None:
    # Without keys each further try may be a further email: a person decides about the third.
    if not settings.MAIL_KEY_WINDOW and not deliveries.note_uncertain(delivery):
        raise GiveUp("may send twice: the mail server was lost in the middle, again") from None


@contextlib.contextmanager
def _as_verdict(lost: Callable[[], None] = lambda: None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, LOST):
            lost()
        verdict = verdict_on(error)
        if verdict is None:
            raise
        # Not as its cause: the traceback would quote the address.
        raise verdict from None


def verdict_on(error: OSError) -> GiveUp | TryLater | None:
    """What an error of the mail server means; None: nothing but that this run failed."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return _of_recipients([code for code, _ in error.recipients.values()])
    if isinstance(error, smtplib.SMTPResponseException) and 400 <= error.smtp_code < 500:
        return TryLater(PAUSE, f"the mail server answers {error.smtp_code}")
    if isinstance(error, AWAY):
        return TryLater(PAUSE, f"the mail server does not serve: {type(error).__name__}")
    return None


def _of_recipients(codes: list[int]) -> GiveUp | TryLater:
    shown = ", ".join(str(code) for code in codes)
    if all(code >= 500 for code in codes):
        return GiveUp(f"the mail server refuses the recipient: {shown}")
    return TryLater(PAUSE, f"the mail server does not take the recipient now: {shown}")
