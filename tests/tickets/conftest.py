"""Fixtures for what is emailed: an order whose email is due, a mail server that answers as told."""

from collections.abc import Callable
from typing import Any, Protocol

import pytest

from jobs.testing import drain
from orders.services import PlacedOrder
from stagedoor.mailbox import Mailbox
from tests.conftest import MailFolder
from tests.people import buy, new_type


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
