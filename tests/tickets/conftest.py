"""Fixtures for what is emailed: an order whose email is due, a mail server that answers as told."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
from django.test import override_settings

from jobs.testing import drain
from orders.services import PlacedOrder
from stagedoor.mailbox import Mailbox
from tests.conftest import MailFolder
from tests.people import buy, new_type
from tickets import rendering


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files that cost no time and show their words; batches of three, all due at once."""

    def render(html: str) -> rendering.Rendered:
        return rendering.Rendered(pdf=b"%PDF " + html.encode(), missing=())

    monkeypatch.setattr(rendering, "render_pdf", render)
    with override_settings(MAIL_BULK_RATE=1e9, MAIL_BULK_BATCH=3):
        yield


@pytest.fixture
def made(mailbox: MailFolder) -> PlacedOrder:
    """An order with tickets and file, whose email is due."""
    placed = buy(new_type())
    with pytest.raises(RuntimeError):
        drain(rounds=1)
    return placed


type Answer = BaseException | Callable[[], object] | None
"""What the mail server does at a call: raise, or do something first; None accepts."""


class Answers(Protocol):
    """Arms the mail server with what it does, one after the other."""

    def __call__(self, *told: Answer, at: str = "send_messages", after: bool = False) -> None: ...


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Let the mail server do these, one after the other; `after`: once it has accepted."""

    def arm(*told: Answer, at: str = "send_messages", after: bool = False) -> None:
        left = list(told)
        real = getattr(Mailbox, at)

        def answer(mailbox: Mailbox, *args: Any) -> Any:
            now = left.pop(0) if left else None
            result = real(mailbox, *args) if after else None
            if isinstance(now, BaseException):
                raise now
            if now is not None:
                now()
            return result if after else real(mailbox, *args)

        monkeypatch.setattr(Mailbox, at, answer)

    return arm
