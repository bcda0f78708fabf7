"""One look at both servers, and what is wrong, in words."""

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from django.conf import settings

from jobs.errors import error_line
from jobs.stream import PendingEntry, StreamView

from .books import ROLES, Books, alive_within, read_books
from .holds import one_line

LATE_AFTER = 240.0
"""Seconds from the time that a job was due until somebody has to look."""
PATIENCE = 5.0
"""Seconds that an operator waits for an answer."""
OVERDUE_MARGIN = 5.0
"""Seconds beyond lease and reclaim within which a pending entry has moved on (design P6)."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """What one consumer has pending; `idle`: the longest, in seconds."""

    name: str
    pending: int
    idle: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPart:
    """What the stream's server knows; `waiting`, `running`: seconds by its clock, None: nothing."""

    length: int
    letters: int
    group: bool
    waiting: float | None
    running: float | None
    consumers: list[Consumer]


@dataclass(frozen=True, slots=True)
class Status:
    """`problems`: what is wrong; a part is None where its server did not answer."""

    problems: list[str]
    books: Books | None
    stream: StreamPart | None

    @property
    def exit_code(self) -> int:
        """1 where something is wrong, else 0."""
        return int(bool(self.problems))


def look(url: str, timeout: float = PATIENCE) -> Status:
    """The queue in the database and on the stream's server `url`. Raises nothing."""
    problems: list[str] = []
    books = stream = None
    with _or_problem("PostgreSQL", problems):
        books = read_books()
        problems += _of_books(books)
    with _or_problem("Redis", problems):
        stream = stream_part(url, timeout)
        problems += _of_stream(stream)
    return Status(problems, books, stream)


@contextlib.contextmanager
def _or_problem(server: str, problems: list[str]) -> Iterator[None]:
    # Whatever it was: a look that ended half way must not pass for one that saw nothing wrong.
    try:
        yield
    except Exception as error:
        problems.append(f"{server} does not answer as it should: {error_line(error)}")


def stream_part(url: str, timeout: float = PATIENCE) -> StreamPart:
    """The part of the stream's server `url`, which has `timeout` seconds for each answer.

    Raises StreamAway or StreamRefused.
    """
    with contextlib.closing(StreamView(url, timeout)) as view:
        seen = view.look()
    return StreamPart(
        length=seen.length,
        letters=seen.letters,
        group=seen.group,
        waiting=seen.waiting,
        running=seen.running,
        consumers=list(_consumers(seen.pending)),
    )


def _consumers(pending: list[PendingEntry]) -> Iterator[Consumer]:
    def name(entry: PendingEntry) -> str:
        return entry.consumer

    for consumer, entries in itertools.groupby(sorted(pending, key=name), name):
        idle = [entry.idle for entry in entries]
        yield Consumer(consumer, len(idle), max(idle))


def _of_books(books: Books) -> Iterator[str]:
    for role in ROLES:
        if not books.alive(role):
            yield f"no {role} was seen in the last {alive_within():g} s: start one"
    # What a person holds is late on purpose.
    age = books.age_not_paused
    if age is not None and age > LATE_AFTER:
        yield f"the oldest job has been due for {age:.0f} s, more than {LATE_AFTER:g} s"
    for hold in books.holds:
        if hold.by_breaker:
            yield f"{hold.kind} is held: its jobs fail one after the other: {one_line(hold.reason)}"
    if dead := books.total.dead:
        yield f"dead jobs wait for somebody: {dead}"
    if books.refused:
        yield f"refused entries wait for somebody: {books.refused}"


def _of_stream(stream: StreamPart) -> Iterator[str]:
    if not stream.group:
        yield f"the stream has no group {settings.JOBS['GROUP']!r}: a relay makes it"
    for one in stuck(stream):
        yield (
            f"an entry of consumer {one.name} has been idle for {one.idle:.0f} s, more than "
            f"{_overdue():g} s: no worker takes it over"
        )


def stuck(stream: StreamPart) -> list[Consumer]:
    """Those with an entry that should have been taken over by now."""
    return [one for one in stream.consumers if one.idle > _overdue()]


def _overdue() -> float:
    return float(settings.JOBS["LEASE"] + settings.JOBS["RECLAIM"] + OVERDUE_MARGIN)
