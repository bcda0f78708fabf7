"""What is an outage of a server rather than a failure of a job: it burns no attempt (design §6)."""

from collections.abc import Iterator

import psycopg
from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError

from .errors import Discreet, error_line
from .stream import StreamAway

OUTAGE_CLASSES = ("08", "53", "57P")
OUTAGE_STATES = frozenset({"25006", "25P03", "25P04", "40001", "40P01", "55P03"})
REFUSED_CLASSES = ("28", "42501", "3D000")
REFUSED_WORDS = (
    "password authentication failed", "no pg_hba.conf entry", "no password supplied",
    "permission denied for database", "does not exist", "is not permitted to log in",
)  # fmt: skip
"""psycopg knows no SQLSTATE of a connection that was not made, only the server's words."""


def is_outage(error: BaseException) -> bool:
    """Whether `error`, or what caused it, says that PostgreSQL or Redis does not serve now."""
    return any(_says_outage(cause) for cause in _causes(error))


def is_refusal(error: BaseException) -> bool:
    """Whether a server refuses this client: password, permission, no such database."""
    return any(_says_refusal(cause) for cause in _causes(error))


def told(error: BaseException) -> str:
    """One line for a log: the class of any error, and its words where they can name no buyer.

    That is so where the error is ours, and where a server speaks of itself.
    """
    of_server = isinstance(error, DatabaseError | psycopg.Error)
    discreet = of_server and (is_outage(error) or is_refusal(error))
    return error_line(error) if discreet or isinstance(error, Discreet) else type(error).__name__


def _says_refusal(error: BaseException) -> bool:
    if not isinstance(error, psycopg.OperationalError | psycopg.ProgrammingError):
        return False
    if state := _state(error):
        return state.startswith(REFUSED_CLASSES)
    return "connection failed" in str(error) and any(word in str(error) for word in REFUSED_WORDS)


def _says_outage(error: BaseException) -> bool:
    if isinstance(error, StreamAway):
        return True
    if isinstance(error, psycopg.Error):
        state = _state(error)
        if not state:
            return isinstance(error, psycopg.OperationalError) or _lost(error)
        return state.startswith(OUTAGE_CLASSES) or state in OUTAGE_STATES
    return error.__cause__ is None and (isinstance(error, OperationalError) or _lost(error))


def _lost(error: BaseException) -> bool:
    # A closed cursor is an InterfaceError too, and the handler's own fault.
    interface = isinstance(error, InterfaceError | psycopg.InterfaceError)
    return interface and "connection" in str(error)


def _state(error: psycopg.Error) -> str:
    return error.sqlstate or ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__
