"""What is wrong with the queue, and what to do about it, in sentences for whoever is on duty."""

from collections.abc import Iterator
from dataclasses import dataclass

from .books import Books
from .holds import one_line
from .queue import LATE_AFTER, Consumer, Status, StreamPart, stuck

EARLY = 60.0
"""Seconds of age at which somebody should begin to look (`StagedoorTicketsLate`)."""
KINDS, DEAD = "admin:jobs_kindhold_changelist", "admin:jobs_deadjob_changelist"


@dataclass(frozen=True, slots=True)
class Advice:
    """`text`: what is wrong. `todo`: what to do. `page`: the admin's page for it, or empty."""

    text: str
    todo: str
    page: str = ""
    grave: bool = True


def advice(status: Status) -> list[Advice]:
    """The gravest first; empty where all is well."""
    found = [*_silent(status)]
    if status.books:
        found += [*_of_workers(status.books), *_of_lateness(status), *_of_books(status.books)]
    if status.stream:
        found += _of_stream(status.stream)
    return sorted(found, key=lambda one: not one.grave)


def _silent(status: Status) -> Iterator[Advice]:
    if status.books is None:
        yield Advice(
            "The database does not answer. No orders are taken.",
            "Start it, or mend the way to it: everything else goes on by itself.",
        )
    if status.stream is None:
        yield Advice(
            "Redis does not answer. Orders are taken, no tickets are made; nothing is lost.",
            "Start it, or mend the way to it: relays and workers go on by themselves.",
        )


def _of_workers(books: Books) -> Iterator[Advice]:
    late = f"Tickets wait since {coarse(books.age)}." if books.age is not None else "Nothing waits."
    workers = books.alive("worker")
    if not workers:
        yield Advice(f"No worker runs. {late}", "Start one: manage.py runworker")
    elif not any(one.slots for one in workers):
        yield Advice(f"No worker reads new jobs. {late}", "Start the workers again.")
    if not books.alive("relay"):
        yield Advice(f"No relay runs. {late}", "Start one: manage.py relay")
    if not books.alive("scheduler"):
        yield Advice(
            "No scheduler runs. Nothing that has a time is started, and this page keeps no past.",
            "Start one: manage.py schedule",
            grave=False,
        )


def _of_lateness(status: Status) -> Iterator[Advice]:
    books = status.books
    if books is None or books.age_not_paused is None or books.age_not_paused <= EARLY:
        return
    if not books.alive("worker") or not books.alive("relay"):
        return
    age, reason = books.age_not_paused, _reason(books, status.stream)
    yield Advice(f"The oldest job has been due for {coarse(age)}.", reason, grave=age > LATE_AFTER)


def _reason(books: Books, stream: StreamPart | None) -> str:
    waiting, running = (stream.waiting, stream.running) if stream else (None, None)
    ages = {"relay": books.not_relayed or 0, "slots": waiting or 0, "run": running or 0}
    return {
        "relay": "It is not relayed: the relay holds or cannot reach a server, its log says why.",
        "slots": "There are too few workers: start more, each on cores that are free.",
        "run": "It is with a worker: look at manage.py jobs pending, a job may hang.",
    }[max(ages, key=lambda name: ages[name])]


def _of_books(books: Books) -> Iterator[Advice]:
    for hold in books.holds:
        if hold.by_breaker:
            yield Advice(
                f"{hold.kind} is held, its jobs fail: {one_line(hold.reason)}",
                "Mend that; it goes on by itself, or at once when it is resumed.",
                KINDS,
            )
    if dead := books.total.dead + books.refused:
        noun = "dead job waits" if dead == 1 else "dead jobs wait"
        yield Advice(f"{dead} {noun} for somebody.", "Replay, correct or discard.", DEAD, False)


def _of_stream(stream: StreamPart) -> Iterator[Advice]:
    if not stream.group:
        yield Advice("The stream has no group.", "A relay makes it: look whether one runs.")
    for one in stuck(stream):
        yield Advice(_stuck(one), "Start a worker: it takes over what a dead one left.")


def _stuck(one: Consumer) -> str:
    return f"Nobody takes over what {one.name} was given {coarse(one.idle)} ago."


def coarse(seconds: float | None) -> str:
    """A time that does not change at every look: `40 s`, `3 min`, `2 h 5 min`."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
