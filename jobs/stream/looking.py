"""What staff look at: the stream, its group and its server as they are. Changes nothing."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from django.conf import settings
from redis import exceptions

from jobs.job import Fields

from .connection import AUDIT_TIMEOUT, NoGroup, StreamRefused, client, translated

PAGE = 1000
"""Entries in one answer: a server that writes ten times as many keeps everybody waiting."""

SHOWN = 100
"""Characters kept of what stands in an entry: anybody's bytes may."""


class MayNotAsk(StreamRefused):
    """This user may not run the command, or the server does not offer it."""


@dataclass(frozen=True, slots=True)
class PendingEntry:
    """An entry that a consumer was given and that is not acknowledged; `idle` in seconds."""

    entry_id: str
    consumer: str
    idle: float
    deliveries: int


@dataclass(frozen=True, slots=True)
class StreamSeen:
    """Stream, group and letters at one look.

    `waiting` and `running`: seconds, by the server's clock, since the first unread and the first
    pending entry were added; None where there is none.
    """

    length: int
    letters: int
    group: bool
    waiting: float | None
    running: float | None
    pending: list[PendingEntry]


class StreamView:
    """Raises StreamAway where the server does not answer, StreamRefused where it refuses."""

    def __init__(self, url: str, timeout: float = AUDIT_TIMEOUT) -> None:
        self._redis = client(url, timeout)
        self._stream = settings.JOBS["STREAM"]
        self._group = settings.JOBS["GROUP"]

    def look(self) -> StreamSeen:
        """All of it, at one time as far as several commands can be."""
        delivered = self._last_delivered()
        pending = list(self.pending()) if delivered else []
        waiting = self._first_after(delivered) if delivered else None
        # After the ids: an entry that was added meanwhile would be of an age below 0.
        now = self.clock()
        return StreamSeen(
            length=self._length(self._stream),
            letters=self._length(settings.JOBS["DEAD_STREAM"]),
            group=delivered is not None,
            waiting=_age(waiting, now),
            running=_age(pending[0].entry_id if pending else None, now),
            pending=pending,
        )

    def pending(self) -> Iterator[PendingEntry]:
        """Every pending entry, the oldest first. Raises NoGroup where there is no group."""
        start = "-"
        while page := self._pending_page(start):
            yield from page
            start = f"({page[-1].entry_id}"

    def _pending_page(self, start: str) -> list[PendingEntry]:
        with _asking():
            found: Any = self._redis.xpending_range(self._stream, self._group, start, "+", PAGE)
        return [
            PendingEntry(
                one["message_id"].decode(),
                printable(one["consumer"]),
                one["time_since_delivered"] / 1000,
                one["times_delivered"],
            )
            for one in found
        ]

    def fields(self, entry_ids: Sequence[str]) -> list[Fields]:
        """What each of these entries carries; empty for one that is not on the stream."""
        found: list[Any] = []
        for page in itertools.batched(entry_ids, PAGE):
            pipeline = self._redis.pipeline(transaction=False)
            for entry_id in page:
                pipeline.xrange(self._stream, entry_id, entry_id)
            with _asking():
                found += pipeline.execute()
        return [list(items[0][1].items()) if items else [] for items in found]

    def has_group(self) -> bool:
        """Whether workers can read."""
        return self._last_delivered() is not None

    def clock(self) -> float:
        """The server's time, in seconds since 1970."""
        with _asking():
            seconds, microseconds = self._command("TIME")
        return int(seconds) + int(microseconds) / 1_000_000

    def info(self) -> dict[str, Any]:
        """What the server says of its program: `redis_version`, `server_name` and more."""
        with _asking():
            return dict(cast(Any, self._redis.info("server")))

    def setting(self, name: str) -> str:
        """One of the server's own settings. Raises MayNotAsk where it says nothing of it."""
        with _asking():
            found = self._command("CONFIG", "GET", name)
        if not found:
            raise MayNotAsk(f"it says nothing of {name}")
        return printable(found[1])

    def close(self) -> None:
        """Give the connections back."""
        self._redis.close()

    @property
    def _command(self) -> Callable[..., Any]:
        return self._redis.execute_command

    def _last_delivered(self) -> str | None:
        try:
            with _asking():
                groups: Any = self._redis.xinfo_groups(self._stream)
        except NoGroup:
            return None
        found = (one for one in groups if one["name"] == self._group.encode())
        return next((one["last-delivered-id"].decode() for one in found), None)

    def _first_after(self, entry_id: str) -> str | None:
        with _asking():
            found: Any = self._redis.xrange(self._stream, f"({entry_id}", "+", count=1)
        return found[0][0].decode() if found else None

    def _length(self, stream: str) -> int:
        with _asking():
            return int(cast(Any, self._redis.xlen(stream)))


@contextlib.contextmanager
def _asking() -> Iterator[None]:
    with translated():
        try:
            yield
        except exceptions.NoPermissionError as error:
            raise MayNotAsk(str(error)) from error
        except exceptions.ResponseError as error:
            # Rented servers take away what they do not want to be asked.
            if "unknown command" in str(error):
                raise MayNotAsk(str(error)) from error
            raise


def _age(entry_id: str | None, now: float) -> float | None:
    if entry_id is None:
        return None
    return max(0.0, now - int(entry_id.partition("-")[0]) / 1000)


def printable(value: bytes) -> str:
    """Any bytes as text that a terminal and a database take, at most SHOWN characters."""
    text = value[: 4 * SHOWN].decode("utf-8", "backslashreplace")[:SHOWN]
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
