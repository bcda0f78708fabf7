"""Where mail goes in development and in the tests: one file per message, in a folder.

It behaves as a provider that honours idempotency keys for ever: the same key is accepted once,
and every call is written to a ledger before it is answered. Two files in the folder play faults,
for as long as they are there: `down`, nobody serves; `refusing`, no recipient is taken.
"""

import hashlib
import json
import os
import smtplib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

DOWN, REFUSING = "down", "refusing"


class Mailbox(BaseEmailBackend):
    """Django mail backend: `<folder>/<name>.eml` per accepted message, `ledger.jsonl` per call."""

    def __init__(self, folder: str, **options: Any) -> None:
        super().__init__(**options)
        self._folder = Path(folder)

    def open(self) -> bool:
        """Raises ConnectionRefusedError while the file `down` is there."""
        if (self._folder / DOWN).exists():
            raise ConnectionRefusedError("the mailbox plays a provider that is down")
        return True

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Write each message whose Idempotency-Key (or else Message-ID) was not seen yet.

        Raises SMTPRecipientsRefused while the file `refusing` is there.
        """
        self.open()
        self._folder.mkdir(parents=True, exist_ok=True)
        for message in email_messages:
            self._accept(message)
        return len(email_messages)

    def _accept(self, message: EmailMessage) -> None:
        if (self._folder / REFUSING).exists():
            refused = dict.fromkeys(message.recipients(), (550, b"the mailbox plays a refusal"))
            raise smtplib.SMTPRecipientsRefused(refused)
        key = message.extra_headers.get("Idempotency-Key") or message.extra_headers["Message-ID"]
        name = hashlib.sha256(str(key).encode()).hexdigest()[:32]
        target = self._folder / f"{name}.eml"
        draft = self._folder / f".{name}.{os.getpid()}.{id(message)}"
        draft.write_bytes(message.message().as_bytes())
        try:
            os.link(draft, target)
            accepted = True
        except FileExistsError:
            accepted = False
        finally:
            draft.unlink()
        self._note(str(key), name, accepted=accepted)

    def _note(self, key: str, name: str, *, accepted: bool) -> None:
        line = {"at": datetime.now(UTC).isoformat(), "key": key, "id": name, "accepted": accepted}
        with (self._folder / "ledger.jsonl").open("a") as ledger:
            ledger.write(json.dumps(line) + "\n")
