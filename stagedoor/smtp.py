"""Django's way to a mail server, which also knows whether the server was given the message itself.

A connection that is lost before that took nothing; one that is lost after it may have taken all.
"""

import smtplib
import time
from typing import Any

from django.core.mail.backends.smtp import EmailBackend


class _Noting(smtplib.SMTP):
    message_begun = False
    deadline: float | None = None

    def getreply(self) -> tuple[int, bytes]:
        """The next reply, within what is left of `timeout` since the first one was waited for."""
        # Not so long for each of them: ten slow replies together outlast the job, and its worker
        # ends over that.
        self.deadline = self.deadline or time.monotonic() + self.timeout
        if self.sock is not None:
            self.sock.settimeout(max(0.01, self.deadline - time.monotonic()))
        return super().getreply()

    def data(self, msg: Any) -> tuple[int, bytes]:
        """The last command of a message, and the message."""
        self.message_begun = True
        return super().data(msg)


class _Tls(_Noting, smtplib.SMTP_SSL):
    pass


class Backend(EmailBackend):
    """`message_begun`: whether its present connection has come to the message itself."""

    @property
    def connection_class(self) -> type[smtplib.SMTP]:
        """As Django chooses it, with a note of where it is."""
        return _Tls if self.use_ssl else _Noting

    @property
    def message_begun(self) -> bool:
        """Whether a loss now would leave open if the server took the message."""
        return getattr(self.connection, "message_begun", False)
