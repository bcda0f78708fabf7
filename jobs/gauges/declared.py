"""What the apps add to the series of the queue, in their `gauges.py`: loaded at start-up."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from .series import Series

type Reading = tuple[tuple[str, ...], float]
type Read = Callable[[], Iterable[Reading]]


@dataclass(frozen=True, kw_only=True)
class Declared(Series):
    """`read` gives values by label values; nothing where there is none to tell."""

    read: Read


_declared: dict[str, Declared] = {}


def gauge(name: str, says: str, labels: tuple[str, ...] = ()) -> Callable[[Read], Read]:
    """Register the decorated function as the reader of the gauge `name`.

    It is called at each scrape, asks PostgreSQL alone (a few ms at most), and may raise: then all
    declared gauges are missing, and PostgreSQL's probe counts as failed. Raises ValueError for a
    name that is taken.
    """

    def register(read: Read) -> Read:
        if name in _declared:
            raise ValueError(f"the gauge {name!r} is declared already")
        _declared[name] = Declared(name=name, says=says, labels=labels, read=read)
        return read

    return register


def counter(name: str, says: str, labels: tuple[str, ...] = ()) -> Callable[[Read], Read]:
    """The same for a counter, `…_total`: what it reads is the same from every process, and never
    falls."""
    return gauge(name, says, labels)


def all_declared() -> Iterator[Declared]:
    """Every one of them."""
    return iter(tuple(_declared.values()))


def forget_gauge(name: str) -> None:
    """Take a gauge back: for tests that registered one."""
    del _declared[name]
