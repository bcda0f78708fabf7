"""The queue as text, for one screen."""

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import UTC

from .books import ROLES, Books, ProcessSeen
from .holds import hold_line
from .in_flight import InFlight
from .queue import Status, StreamPart

NOTHING = "-"


def status_screen(status: Status) -> str:
    """All of it, the reasons last."""
    return "\n".join(_lines(status))


def pending_screen(jobs: Sequence[InFlight]) -> str:
    """One line for each pending entry."""
    heads = ("entry", "outbox row", "kind", "consumer", "idle", "deliveries", "age")
    rows = [
        (
            job.entry_id,
            job.outbox_id or NOTHING,
            job.kind or NOTHING,
            job.consumer,
            span(job.idle),
            str(job.deliveries),
            span(job.age),
        )
        for job in jobs
    ]
    return "\n".join(table([heads, *rows])) if rows else "nothing is in flight"


def span(seconds: float | None) -> str:
    """A time for people: `4.2 s`, `3 min 20 s`, `2 h 5 min`; a dash for None."""
    if seconds is None:
        return NOTHING
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _lines(status: Status) -> Iterator[str]:
    yield from _books(status.books) if status.books else ["outbox: not known"]
    yield ""
    yield from _stream(status.stream) if status.stream else ["stream: not known"]
    yield ""
    yield from (f"WRONG   {problem}" for problem in status.problems)
    if not status.problems:
        yield "ok"


def _books(books: Books) -> Iterator[str]:
    heads = ("outbox", "due", "held", "waiting for retry", "relayed", "dead", "discarded")
    kinds = [dataclasses.astuple(kind) for kind in (*books.kinds, books.total)]
    yield from table([heads, *[tuple(map(str, kind)) for kind in kinds]])
    yield f"oldest job {span(books.age)}, oldest not relayed {span(books.not_relayed)}"
    if books.next_retry_at is not None:
        yield f"next retry at {books.next_retry_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    yield from map(hold_line, books.holds)
    yield f"refused entries {books.refused}"
    yield ""
    for role in ROLES:
        alive = books.alive(role)
        yield f"{role}s alive {len(alive)}"
        yield from table([_process(one) for one in alive])


def _process(one: ProcessSeen) -> tuple[str, ...]:
    build = f"build {one.build}"
    return (f"  {one.name}", f"on {one.host}", build, f"seen {span(one.seen)} ago", one.status)


def _stream(stream: StreamPart) -> Iterator[str]:
    pending = sum(consumer.pending for consumer in stream.consumers)
    yield f"stream {stream.length} entries, {pending} pending; {stream.letters} dead letters"
    yield f"oldest waiting {span(stream.waiting)}, oldest running {span(stream.running)}"
    yield from table(
        [
            (f"  {one.name}", f"{one.pending} pending", f"longest idle {span(one.idle)}")
            for one in stream.consumers
        ]
    )


def table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Lines of columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
