"""The queue as series, read anew at each scrape."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jobs.models import KindHold

from . import series
from .declared import Reading, all_declared
from .look import Books, Look, Looker
from .series import Series


class QueueCollector(Collector):
    """Registered beside the counters of a process. A scrape raises nothing."""

    def __init__(self) -> None:
        self._looker = Looker()

    def describe(self) -> Iterator[Metric]:
        """The families without values: a registry must not look at servers to learn the names."""
        yield from (_family(one, ()) for one in series.QUEUE_SERIES)
        yield from (_family(one, ()) for one in all_declared())

    def collect(self) -> Iterator[Metric]:
        """One look; series of what did not answer are missing."""
        return families(self._looker.look())

    def close(self) -> None:
        """Give the connections back."""
        self._looker.close()


def families(look: Look) -> Iterator[Metric]:
    """`look` as series."""
    books, stream = look.books, look.stream
    answered = {
        "postgresql": books is not None and books.more is not None,
        # A look at entries that was refused must not leave the alert on lost ones silent.
        "redis": stream is not None and (books is None or books.unaccounted is not None),
    }
    yield _family(
        series.PROBE_SUCCESS,
        [((server,), float(did)) for server, did in answered.items()],
    )
    yield _family(series.CLOCK, _clocks(look))
    yield _family(series.OLDEST_OF, _oldest_of(look))
    if look.books is not None:
        yield from _of_books(look.books)
    if look.stream is not None:
        yield _family(series.STREAM_ENTRIES, [((), look.stream.length)])
        yield _family(series.PENDING_ENTRIES, [((), look.stream.pending)])
        yield _family(series.DEAD_LETTERS, [((), look.stream.letters)])


def _clocks(look: Look) -> Iterator[Reading]:
    if look.books is not None:
        yield ("postgresql",), look.books.ages.now
    if look.stream is not None:
        yield ("redis",), look.stream.now


def _oldest_of(look: Look) -> Iterator[Reading]:
    if look.books is not None:
        ages = look.books.ages
        for reason in ("not_relayed", "retry_wait", "held", "paused"):
            yield (reason, "postgresql"), _since(getattr(ages, reason), ages.now)
    if look.stream is not None:
        for reason in ("waiting", "running"):
            yield (reason, "redis"), _since(getattr(look.stream, reason), look.stream.now)


def _since(moment: float | None, now: float) -> float:
    # Of an age of 0 seconds where there is no such job; no series would mean that nobody knows.
    return now if moment is None else moment


def _of_books(books: Books) -> Iterator[Metric]:
    ages, counts = books.ages, books.counts
    by_lane = [((lane,), _since(getattr(ages, lane), ages.now)) for lane in ("tickets", "bulk")]
    yield _family(series.OLDEST_JOB, by_lane)
    yield _family(series.OUTBOX_ROWS, counts.rows.items())
    yield _family(series.PROCESSES_UP, [((role,), up) for role, up in counts.processes.items()])
    yield _family(series.REFUSED_ENTRIES, [((), counts.refused)])
    yield _family(series.KIND_HELD, _held(books))
    yield _family(series.DRAIN_PREDICTED, [((), books.drained_at)])
    if books.unaccounted is not None:
        yield _family(series.UNACCOUNTED_ROWS, [((), books.unaccounted)])
    yield from (_family(declared, readings) for declared, readings in books.more or ())


def _held(books: Books) -> Iterator[Reading]:
    for hold in books.holds:
        by = "breaker" if hold.by == KindHold.BREAKER else "person"
        yield (hold.kind, by), 0.5 if hold.probing else 1.0


def _family(of: Series, readings: Iterable[Reading]) -> Metric:
    make = CounterMetricFamily if of.counts else GaugeMetricFamily
    family = make(of.name, of.says, labels=of.labels)
    for labels, value in readings:
        family.add_metric(labels, value)
    return family
