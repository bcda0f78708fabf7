"""A signal may come at any instruction of whoever waits: it is neither lost nor a deadlock."""

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from jobs.stopping import Stop


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    """A test that hangs fails."""
    before = {one: signal.getsignal(one) for one in (signal.SIGUSR1, signal.SIGALRM)}
    signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(20)
    yield
    signal.alarm(0)
    for one, handler in before.items():
        signal.signal(one, handler)


def asked_by(number: signal.Signals) -> Stop:
    """One that this signal asks."""
    stop = Stop()
    signal.signal(number, lambda *_: stop.ask())
    return stop


def _hangs(*_: object) -> None:
    raise TimeoutError("it waits for ever")


class Instructions:
    """Counts what Python does in the body, up to the first error; signals at one of them."""

    def __init__(self, signal_at: int = 0) -> None:
        self.number = 0
        self._signal_at = signal_at
        self._counts = True

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._note)
        try:
            yield
        finally:
            sys.settrace(before)

    def _note(self, frame: FrameType, event: str, arg: Any) -> Any:
        frame.f_trace_opcodes = True
        self._counts = self._counts and event != "exception"
        self.number += self._counts
        if self.number == self._signal_at and self._counts:
            signal.raise_signal(signal.SIGUSR1)
        return self._note


def instructions_until_it_waits() -> int:
    """How many there are before the wait itself, which ends by an error here."""
    counted, idle = Instructions(), Stop()
    with counted.traced():
        idle.wait(0)
    return counted.number


def test_a_signal_at_any_instruction_before_the_wait_ends_it() -> None:
    number = instructions_until_it_waits()
    assert number > 10
    for place in range(1, number + 1):
        stop = asked_by(signal.SIGUSR1)
        began = time.monotonic()
        with Instructions(place).traced():
            stop.wait(15)
        assert stop.asked
        assert time.monotonic() - began < 10, f"the signal at instruction {place} was lost"


def test_a_signal_in_the_middle_of_the_wait_ends_it() -> None:
    stop = asked_by(signal.SIGALRM)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    began = time.monotonic()
    stop.wait(15)
    assert time.monotonic() - began < 10
    assert stop.asked


def test_nobody_waits_once_it_was_asked() -> None:
    stop = Stop()
    for _ in range(3):
        stop.ask()
    for _ in range(5):
        stop.wait(15)
    assert stop.asked


def test_without_a_signal_it_waits_its_time() -> None:
    stop = Stop()
    began = time.monotonic()
    stop.wait(0.05)
    assert time.monotonic() - began >= 0.05
    assert not stop.asked
