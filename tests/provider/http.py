"""An HTTP email provider that speaks Resend's API, as a test sees it."""

from pathlib import Path
from typing import ClassVar

from .faults import Fault
from .process import HOST, ServerProcess

DAY = 24 * 3600.0
"""Resend: https://resend.com/docs/dashboard/emails/idempotency-keys"""


class Provider(ServerProcess):
    """`POST /emails` of Resend; drops a key that it knows, for `remember_keys_for()` seconds."""

    module: ClassVar[str] = "tests.provider.resend_api"
    api_key: ClassVar[str] = "re_of_the_tests"

    def __init__(self, folder: Path, window: float = DAY) -> None:
        super().__init__(folder)
        self.remember_keys_for(window)

    @property
    def url(self) -> str:
        """Where its API is, for a backend's `api_url`."""
        return f"http://{HOST}:{self.port}/"


def lost_answer() -> Fault:
    """Accepts, and never answers."""
    return Fault("lost answer", silent=True)


def lost_connection() -> Fault:
    """Accepts, and closes the connection without an answer."""
    return Fault("lost connection", closes=True)


def accepted_and_broken(code: int = 500) -> Fault:
    """Accepts, and answers that something went wrong."""
    return Fault("accepted and broken", code=code, error="internal_server_error")


def slow(seconds: float) -> Fault:
    """Accepts at once, answers later: in time, or after the client has given up."""
    return Fault("slow", delay=seconds)


def held(seconds: float) -> Fault:
    """Accepts and answers later, whoever waits; until then other calls find it in progress."""
    return Fault("held", hold=seconds)


def no_answer() -> Fault:
    """Accepts nothing and never answers."""
    return Fault("no answer", accepts=False, silent=True)


def no_connection() -> Fault:
    """Accepts nothing and closes the connection without an answer."""
    return Fault("no connection", accepts=False, closes=True)


def broken(code: int = 500) -> Fault:
    """Accepts nothing: something went wrong."""
    return Fault("broken", accepts=False, code=code, error="internal_server_error")


def rate_limited(retry_after: float | str = 1, error: str = "rate_limit_exceeded") -> Fault:
    """429. `retry_after`: seconds, an HTTP date, or "" for no header."""
    return Fault("rate limited", accepts=False, code=429, error=error, retry_after=str(retry_after))


def refused(code: int = 422, error: str = "validation_error") -> Fault:
    """Refuses for good: 422 the email, 403 the sender or recipient, 401 the API key."""
    return Fault("refused", accepts=False, code=code, error=error)


def other_body() -> Fault:
    """409: the key was used with another body."""
    return Fault("other body", accepts=False, code=409, error="invalid_idempotent_request")


def in_progress() -> Fault:
    """409: a call with the same key is under way."""
    return Fault("in progress", accepts=False, code=409, error="concurrent_idempotent_requests")
