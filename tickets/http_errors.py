"""What an answer of an HTTP provider means for the job, and whether it may have taken the message.

Told by its status and the provider's name for the error, which are also all that is kept.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import requests
from anymail.exceptions import AnymailAPIError, AnymailError, AnymailRecipientsRefused
from urllib3.exceptions import NewConnectionError

from jobs.policy import GiveUp, TryLater

from .mail_errors import PAUSE, MailRefused

MOMENT = 5.0
"""Seconds until a call is made again that met another one under its key."""
LONGEST = 3600.0
"""Seconds: no provider keeps a job waiting for longer before it is asked again."""
LATER = {408, 425, 429}
ACCOUNT = {401, 402, 403, 404, 405, 407}
"""About the key, the sender, the address of the API or the account: the same for every email."""
ACCOUNT_NAMES = {
    *("10", "400", "401", "405", "412", "413"),  # Postmark: token, sender, credits, approval
    *("not_enough_credits", "account_under_validation", "permission_denied"),  # Brevo
    "AccountSuspendedException", "SendingPausedException", "MailFromDomainNotVerifiedException",
}  # fmt: skip
THROTTLED_NAMES = {"LimitExceededException", "TooManyRequestsException"}
UNCLEAR_NAMES = {"MessageRejected"}
"""SES: about this email, or about a sender who is not verified."""
WRONG_CALLS = (
    requests.exceptions.InvalidURL, requests.exceptions.MissingSchema,
    requests.exceptions.InvalidSchema, requests.exceptions.InvalidHeader,
)  # fmt: skip
NEVER_CALLED = {
    "EndpointConnectionError", "ConnectTimeoutError", "NoCredentialsError",
    "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError",
    "ParamValidationError",
}  # fmt: skip
"""Of botocore, by name: it is loaded only where SES is the provider."""


@dataclass(frozen=True, slots=True)
class Said:
    """An answer: `name` is the provider's for the error, empty where it has none."""

    status: int
    name: str
    retry_after: str

    def __str__(self) -> str:
        return f"{self.status} {self.name}".strip()


def surely_not_taken(error: AnymailError) -> bool:
    """Whether the provider cannot have accepted the message by the call that ended so."""
    if not isinstance(error, AnymailAPIError):
        return True
    if (said := _said(error)) is None:
        return _never_called(error)
    # 409: another call under the same key was, or is, there.
    return 400 <= said.status < 500 and said.status not in (408, 409)


def _never_called(error: AnymailAPIError) -> bool:
    cause = error.__cause__
    if isinstance(error, (requests.ConnectTimeout, *WRONG_CALLS)):
        return True
    inner = cause.args[0] if cause is not None and cause.args else None
    return (
        isinstance(getattr(inner, "reason", None), NewConnectionError)
        or type(cause).__name__ in NEVER_CALLED
    )


def verdict_on(error: AnymailError) -> Exception:
    """What an error of the provider means for the job: GiveUp, TryLater, or a failed run."""
    if isinstance(error, AnymailRecipientsRefused):
        return GiveUp("the provider refuses the recipient")
    if not isinstance(error, AnymailAPIError):
        return _unsendable(error)
    said = _said(error)
    return _without_answer(error) if said is None else _on_answer(said)


def _unsendable(error: AnymailError) -> Exception:
    if isinstance(error, (ValueError, TypeError)):
        return GiveUp(f"the message cannot be sent as it is: {type(error).__name__}")
    return TryLater(PAUSE, f"the provider cannot be called: {type(error).__name__}")


def _without_answer(error: AnymailAPIError) -> TryLater:
    why = type(error.__cause__ or error).__name__
    if isinstance(error, WRONG_CALLS):
        return TryLater(PAUSE, f"the provider cannot be called: {why}")
    return TryLater(PAUSE, f"the provider does not answer: {why}")


def _on_answer(said: Said) -> Exception:
    if said.name == "concurrent_idempotent_requests":
        return TryLater(
            MOMENT, f"the provider is at it under the same key: {said}", of_provider=False
        )
    if said.name == "invalid_idempotent_request":
        return GiveUp(f"the provider knows its key with another content: {said}")
    if said.status in LATER or said.status >= 500 or said.name in THROTTLED_NAMES:
        return TryLater(seconds_of(said.retry_after), f"the provider does not serve: {said}")
    if said.status < 300:
        return TryLater(PAUSE, f"the provider's answer cannot be read: {said}")
    return _on_refusal(said)


def _on_refusal(said: Said) -> Exception:
    if said.status in ACCOUNT or said.name in ACCOUNT_NAMES:
        return TryLater(PAUSE, f"the provider refuses our account, key or sender: {said}")
    if said.status < 400 or said.name in UNCLEAR_NAMES:
        return MailRefused(f"the provider answers {said}")
    return GiveUp(f"the provider refuses the message: {said}")


def seconds_of(retry_after: str, now: datetime | None = None) -> float:
    """How long a `Retry-After` asks to wait, a number of seconds or a date; PAUSE if unreadable."""
    try:
        asked = float(retry_after)
    except ValueError:
        asked = _until(retry_after, now or datetime.now(UTC))
    return min(LONGEST, max(1.0, asked)) if math.isfinite(asked) else PAUSE


def _until(date: str, now: datetime) -> float:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return math.nan
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()


def _said(error: AnymailAPIError) -> Said | None:
    response = error.response
    if response is None:
        return None
    if isinstance(response, Mapping):
        return _said_by_aws(response)
    headers = response.headers
    return Said(response.status_code, _name_in(response), headers.get("Retry-After", ""))


def _name_in(response: Any) -> str:
    try:
        told = response.json()
    except ValueError:
        return ""
    if not isinstance(told, dict):
        return ""
    # Resend, Brevo, Postmark. Mailgun tells in words alone, which quote the address.
    return _plain(told.get("name") or told.get("code") or told.get("ErrorCode"))


def _said_by_aws(response: Mapping[str, Any]) -> Said:
    meta = response.get("ResponseMetadata", {})
    headers = meta.get("HTTPHeaders", {})
    name = _plain(response.get("Error", {}).get("Code"))
    return Said(meta.get("HTTPStatusCode", 0), name, headers.get("retry-after", ""))


def _plain(name: object) -> str:
    """A name that can quote nothing: a word, or a number."""
    text = str(name or "")
    return text if re.fullmatch(r"[A-Za-z0-9_]{1,60}", text) else ""
