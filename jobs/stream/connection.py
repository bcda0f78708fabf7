"""How every client of the stream's server connects, and what its errors mean to the way of a job.

No client repeats a command by itself: an XADD sent twice is two entries. Replies stay bytes: one
value that is not UTF-8 would fail its whole batch, for ever.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import redis
import redis.asyncio
from django.conf import settings
from redis import exceptions
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from jobs.errors import Discreet
from jobs.job import Fields

OUTAGE_REPLIES = (
    "LOADING", "READONLY", "MISCONF", "OOM", "UNBLOCKED", "MASTERDOWN", "CLUSTERDOWN",
    "NOREPLICAS", "BUSY ", "TRYAGAIN",
)  # fmt: skip
SCRIPT_REFUSED = ("user executing the script can't", "ACL failure in script")
"""What Redis and Valkey say of a command that this user may not run in a script."""
AUDIT_TIMEOUT = 5.0
"""Seconds for one command of a person who looks: whole streams come in one answer."""


class StreamAway(Discreet):
    """The stream's server does not serve at present: wait and try again."""


class StreamHung(StreamAway):
    """A blocking read neither returned nor failed in its time; its connection is thrown away."""


class NoGroup(StreamAway):
    """The stream or its group is gone: make it again, at 0."""


class NameLost(Discreet):
    """Another process holds this consumer's name: stop reading."""


class StreamRefused(Discreet):
    """The server refuses this client (password, permission): waiting does not help."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of the stream. `fields` is empty where the entry was trimmed under its reader."""

    id: str
    fields: Fields


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Within: the client's errors become StreamAway, NoGroup, NameLost or StreamRefused."""
    try:
        yield
    except (exceptions.AuthenticationError, exceptions.NoPermissionError) as error:
        raise StreamRefused(str(error)) from error
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
        raise StreamAway(f"{type(error).__name__}: {error}") from error
    except exceptions.ResponseError as error:
        raise _of_reply(error) from error


def _of_reply(error: exceptions.ResponseError) -> Exception:
    text = str(error)
    if text.startswith("NOGROUP") or "no such key" in text:
        return NoGroup(text)
    if text.startswith("NAMELOST"):
        return NameLost(text)
    if text.startswith(("NOAUTH", "WRONGPASS", "NOPERM")) or any(
        words in text for words in SCRIPT_REFUSED
    ):
        return StreamRefused(text)
    known = isinstance(
        error, exceptions.BusyLoadingError | exceptions.ReadOnlyError | exceptions.OutOfMemoryError
    )
    return StreamAway(text) if known or text.startswith(OUTAGE_REPLIES) else error


def _options(url: str, timeout: float) -> dict[str, Any]:
    return {
        **({} if url.startswith("unix:") else {"socket_keepalive": True}),
        "protocol": 2,
        "decode_responses": False,
        "socket_timeout": timeout,
        "socket_connect_timeout": max(settings.REDIS_TIMEOUT, 1.0),
    }


def client(url: str, timeout: float) -> redis.Redis:
    """A blocking client, safe to share between threads; `timeout` in seconds for each command."""
    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), **_options(url, timeout))


def async_client(url: str, timeout: float, **options: Any) -> redis.asyncio.Redis:
    """An asyncio client; `timeout` in seconds for each command."""
    return redis.asyncio.Redis.from_url(
        url, retry=AsyncRetry(NoBackoff(), 0), **_options(url, timeout), **options
    )


def raw_client(url: str) -> redis.Redis:
    """For who audits the stream by commands of their own; replies are bytes."""
    return client(url, AUDIT_TIMEOUT)


def command(of: redis.asyncio.Redis) -> Callable[..., Awaitable[Any]]:
    """The client's raw `execute_command`, typed."""
    return cast("Callable[..., Awaitable[Any]]", of.execute_command)


def entries_of_items(items: Sequence[Any]) -> list[Entry]:
    """Entries out of a reply's list of (id, flat fields)."""
    return [Entry(entry_id.decode(), _pairs(flat or [])) for entry_id, flat in items]


def _pairs(flat: Sequence[bytes]) -> Fields:
    return list(zip(flat[::2], flat[1::2], strict=True))
