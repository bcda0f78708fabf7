"""The file in which a server notes every call before it answers."""

import json
import os
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Call:
    """One call, as it was when it was decided."""

    at: float
    """Seconds since 1970."""
    plan: int
    """Number of the plan whose step it took; 0 where it took none."""
    fault: str
    """Name of the fault that it met."""
    key: str
    """HTTP: Idempotency-Key; SMTP: Message-ID."""
    accepted: bool
    """Whether it made an email: false also where the key was known."""
    code: int
    """Of the answer; 0 where there is none."""
    id: str = ""
    """HTTP: the provider's name of the email."""
    recipients: tuple[str, ...] = ()
    subject: str = ""
    message_id: str = ""
    digest: str = ""
    """sha256 of the body as it came."""


def read_calls(path: Path) -> list[Call]:
    """All calls in the ledger at `path`, in order."""
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [Call(**{**line, "recipients": tuple(line["recipients"])}) for line in lines]


def steps_used(calls: list[Call]) -> Mapping[int, int]:
    """How many calls each plan has met."""
    return Counter(call.plan for call in calls)


class Ledger:
    """In a server: appends calls. Safe between threads."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lock = threading.Lock()

    def write(self, call: Call) -> None:
        """On disk when this returns."""
        line = json.dumps(asdict(call)) + "\n"
        with self._lock:
            os.write(self._file, line.encode())
            os.fsync(self._file)
