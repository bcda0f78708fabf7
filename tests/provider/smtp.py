"""A mail server, as a test sees it, and the ways in which it fails."""

from typing import ClassVar, Literal

from .faults import Fault
from .process import HOST, ServerProcess

Phase = Literal["connect", "EHLO", "MAIL", "RCPT", "DATA", "message"]
"""Where a server can fail; "message" is the end of DATA."""


class MailServer(ServerProcess):
    """SMTP without keys: every message it accepts is an email, counted by Message-ID.

    One connection takes one step of the plan; each further message on it takes one more.
    """

    module: ClassVar[str] = "tests.provider.smtp_process"
    host: ClassVar[str] = HOST

    @property
    def url(self) -> str:
        """For EMAIL_URL."""
        return f"smtp://{HOST}:{self.port}"


def replies(phase: Phase, code: int) -> Fault:
    """4xx or 5xx at `phase`; accepts nothing."""
    return Fault(f"replies {code} at {phase}", accepts=False, code=code, phase=phase)


def closes(phase: Phase) -> Fault:
    """Closes the connection in the place of the reply at `phase`; accepts nothing."""
    return Fault(f"closes at {phase}", accepts=False, closes=True, phase=phase)


def silent(phase: Phase) -> Fault:
    """No reply at `phase`, ever; accepts nothing."""
    return Fault(f"silent at {phase}", accepts=False, silent=True, phase=phase)


def slow(seconds: float) -> Fault:
    """Accepts at once, replies later: in time, or after the client has given up."""
    return Fault("slow", delay=seconds)


def lost_answer() -> Fault:
    """Reads DATA, accepts, and never replies."""
    return Fault("lost answer", silent=True)


def lost_connection() -> Fault:
    """Reads DATA, accepts, and closes the connection."""
    return Fault("lost connection", closes=True)


def accepted_and_broken(code: int = 451) -> Fault:
    """Reads DATA, accepts, and replies that something went wrong."""
    return Fault("accepted and broken", code=code)
