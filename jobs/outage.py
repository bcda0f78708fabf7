"""What is an outage of a server rather than a failure of a job: it burns no attempt (design §6)."""

from collections.abc import Iterator

import psycopg
from django.db import InterfaceError, OperationalError

from .stream import StreamAway

OUTAGE_CLASSES = ("08", "53", "57P")
OUTAGE_STATES = frozenset({"25006", "25P03", "25P04", "40001", "40P01", "55P03"})
REFUSED_CLASSES = ("28", "42501", "3D000")


def is_outage(error: BaseException) -> bool:
    """Whether `error`, or what caused it, says that PostgreSQL or Redis does not serve now."""
    return any(_says_outage(cause) for cause in _causes(error))


def is_refusal(error: BaseException) -> bool:
    """Whether a server refuses this client: password, permission, no such database."""
    return any(
        isinstance(cause, psycopg.Error) and _state(cause).startswith(REFUSED_CLASSES)
        for cause in _causes(error)
    )


def _says_outage(error: BaseException) -> bool:
    if isinstance(error, StreamAway):
        return True
    if isinstance(error, psycopg.Error):
        state = _state(error)
        if not state:
            return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return state.startswith(OUTAGE_CLASSES) or state in OUTAGE_STATES
    return isinstance(error, OperationalError | InterfaceError) and error.__cause__ is None


def _state(error: psycopg.Error) -> str:
    return error.sqlstate or ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__
