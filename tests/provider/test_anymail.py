"""The provider speaks Resend's API as django-anymail does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.mail import EmailMultiAlternatives, mailers
from django.test import override_settings

from . import http as faults
from .http import Provider


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    """The provider, and Django's default mailer on it."""
    with Provider(tmp_path / "provider") as running:
        mailer = {
            "BACKEND": "anymail.backends.resend.EmailBackend",
            "OPTIONS": {"api_key": running.api_key, "api_url": running.url, "requests_timeout": 10},
        }
        with override_settings(MAILERS={"default": mailer}):
            yield running


def message() -> Any:
    made = EmailMultiAlternatives(
        "Tickets", "Your tickets", to=["buyer@example.org"],
        headers={"Message-ID": "<one@example.org>"},
    )  # fmt: skip
    made.attach_alternative("<p>Your tickets</p>", "text/html")
    made.attach("tickets.pdf", b"%PDF", "application/pdf")
    return made


def test_anymail_reads_the_id_of_what_was_accepted(provider: Provider) -> None:
    sent = message()
    assert mailers.default.send_messages([sent]) == 1
    (call,) = provider.calls()
    assert sent.anymail_status.message_id == call.id
    assert (call.recipients, call.message_id) == (("buyer@example.org",), "<one@example.org>")


def test_the_same_message_is_the_same_bytes(provider: Provider) -> None:
    for _ in range(2):
        mailers.default.send_messages([message()])
    first, second = provider.calls()
    assert first.digest == second.digest


def test_anymail_reads_a_refusal_and_how_long_to_wait(provider: Provider) -> None:
    provider.plan(faults.rate_limited(7))
    with pytest.raises(OSError, match="rate_limit_exceeded") as told:
        mailers.default.send_messages([message()])
    answer = told.value.response  # type: ignore[attr-defined]
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")
