"""One call to the provider, and what its answer means for the job.

Reasons and errors are kept and shown: they carry the provider's code, never its words, which quote
the address in forms that nobody foresees.
"""

import contextlib
import sys
from collections.abc import Callable
from functools import partial

from django.conf import settings
from django.core.mail import EmailMessage, mailers
from django.utils import timezone

from jobs.failpoint import failpoint
from jobs.policy import GiveUp, Policy, TryLater

from . import deliveries, mail, metrics, repeats, smtp_errors
from .mail_errors import PAUSE
from .models import Email
from .repeats import CALLS
from .times import ago, length

POLICY = Policy(attempts=8, base=10, cap=600, timeout=30)
"""Of every kind that sends an email."""
MAIL = "mail"
"""What they wait for: together they have a share of a worker's slots."""


def send(email: Email, pdf: bytes | None) -> str:
    """Give the message to the provider; what the provider calls it, empty where it does not tell.

    Nothing is raised once it has accepted it. Raises TryLater where it does not serve, GiveUp
    where it refuses this message for good or another try may send twice, MailRefused, and what
    else goes wrong as it is.
    """
    if email.masked_at:
        raise GiveUp("its words and address were forgotten, since it is so old")
    _refuse_repeat(email)
    message = mail.outgoing(email, pdf)
    with metrics.EMAIL_SECONDS.time():
        error, taken = _call(email, message)
    if error is None:
        failpoint("sending.accepted")
        return _name_of(message, email)
    _conclude_call(email, taken)
    # Not where it was caught: the traceback of what is raised there would quote the address.
    raise verdict_on(error)


def _call(email: Email, message: EmailMessage) -> tuple[Exception | None, bool]:
    """What went wrong, None where it was accepted; and whether it may have been taken."""
    mailer = mailers.default
    try:
        if error := _error_of(mailer.open):
            return error, False
        _note_call(email)
        failpoint("sending.noted")
        error = _error_of(partial(mailer.send_messages, [message]))
        # Of a mailer that does not tell, it may be.
        begun = getattr(mailer, "message_begun", True)
        return error, error is None or (begun and not surely_not_taken(error))
    finally:
        # Accepted is accepted, however the server says goodbye.
        with contextlib.suppress(Exception):
            mailer.close()


def _name_of(message: EmailMessage, email: Email) -> str:
    status = getattr(message, "anymail_status", None)
    return str(status.message_id or "")[:200] if status else email.message_id


def _refuse_repeat(email: Email) -> None:
    now = timezone.now()
    window = settings.MAIL_KEY_WINDOW
    if not window:
        _refuse_third_call(email)
    elif not email.call_noted and repeats.may_repeat(email, now):
        raise GiveUp(
            f"may send twice: first tried {ago(email.called_at or email.first_try_at, now)}, "
            f"the provider forgets its key after {length(window)}"
        )


def _refuse_third_call(email: Email) -> None:
    if email.tries >= CALLS:
        raise GiveUp(
            f"may send twice: the mail server was given it {email.tries} times "
            "and may have taken it each time"
        )


def _note_call(email: Email) -> None:
    # Before the call, not after its loss: a worker that is killed writes nothing any more.
    if not deliveries.note_call(email):
        raise TryLater(PAUSE, "another run of this job is at it", of_provider=False)


def _conclude_call(email: Email, taken: bool) -> None:
    if not taken:
        deliveries.take_call_back(email)
    elif not settings.MAIL_KEY_WINDOW:
        _refuse_third_call(email)


def _error_of(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:
        if isinstance(error, (OSError, ValueError)) or _is_of_http(error):
            return error
        raise
    return None


def _is_of_http(error: Exception) -> bool:
    # Only a backend of anymail's raises them, and has loaded it then: slow, and `requests` with it.
    anymail = sys.modules.get("anymail.exceptions")
    return anymail is not None and isinstance(error, anymail.AnymailError)


def surely_not_taken(error: Exception) -> bool:
    """Whether the provider cannot have accepted the message that ended with this error."""
    if not _is_of_http(error):
        return smtp_errors.surely_not_taken(error)
    from . import http_errors

    return http_errors.surely_not_taken(error)


def verdict_on(error: Exception) -> Exception:
    """What an error of the provider means for the job: GiveUp, TryLater, or a failed run."""
    if not _is_of_http(error):
        return smtp_errors.verdict_on(error)
    from . import http_errors

    return http_errors.verdict_on(error)
