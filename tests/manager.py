"""A service manager for tests: a real socket that hears what processes notify."""

import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tests.processes import wait_for

WATCHDOG = 2.0
"""Seconds; shipped are 120."""


class Manager:
    """Use as a context manager. `said` is every message so far, as its lines."""

    def __init__(self, *, abstract: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="manager-")  # pytest's path is too long
        path = str(Path(self._folder.name) / "notify")
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._door.bind(f"\0{path}" if abstract else path)
        self._door.setblocking(False)
        self._messages: list[list[str]] = []
        self.environment = {
            "NOTIFY_SOCKET": f"@{path}" if abstract else path,
            "WATCHDOG_USEC": str(int(WATCHDOG * 1e6)),
        }

    def __enter__(self) -> "Manager":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._door.close()
        self._folder.cleanup()

    @property
    def said(self) -> list[list[str]]:
        """Every message that has come."""
        while True:
            try:
                self._messages.append(self._door.recv(4096).decode().splitlines())
            except BlockingIOError:
                return self._messages

    def heard(self, line: str) -> int:
        """How many messages had this line, or one that begins with it."""
        return sum(any(one.startswith(line) for one in message) for message in self.said)

    def wait_for(self, line: str, times: int = 1) -> None:
        """Wait for so many more messages with a line that begins so."""
        before = self.heard(line)
        wait_for(lambda: self.heard(line) >= before + times, f"{times} times {line}")

    def is_silent(self, seconds: float, meanwhile: Callable[[], bool] = lambda: True) -> bool:
        """Whether nothing comes for so long."""
        before, deadline = len(self.said), time.monotonic() + seconds
        wait_for(lambda: time.monotonic() > deadline and meanwhile(), "some seconds of silence")
        return len(self.said) == before
