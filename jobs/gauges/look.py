"""One look at both servers. What did not answer is missing: nothing unseen is shown as zero."""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from django.conf import settings
from django.db import connection, transaction

from jobs import holds, tally
from jobs.holds import Hold
from jobs.outage import told
from jobs.prediction import drained_at
from jobs.stream import RelayStream, StreamAges, StreamMeter

from . import lost, schedules  # noqa: F401 (its gauges register themselves)
from .ages import Ages, ages
from .counts import Counts, read_counts
from .declared import Declared, Reading, all_declared
from .lost import Publication
from .thread import LookThread

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Books:
    """What PostgreSQL told. `drained_at`: when all that is due will be done, in seconds since 1970.
    `more`: the gauges that apps declare, None where one of them failed.

    `unaccounted`: of the oldest `lost.LIMIT` relayed rows, those whose entry is nowhere; None where
    the stream's server did not tell.
    """

    ages: Ages
    counts: Counts
    holds: list[Hold]
    drained_at: float
    more: list[tuple[Declared, list[Reading]]] | None
    unaccounted: int | None


@dataclass(frozen=True, slots=True)
class Look:
    """A part is None where its server did not answer."""

    books: Books | None
    stream: StreamAges | None


class Looker:
    """Looks, for any number of threads, at the servers of the settings."""

    def __init__(self) -> None:
        self._books = LookThread(self._read_books)
        self._meter = StreamMeter(settings.REDIS_URL)
        self._stream = RelayStream(settings.REDIS_URL, settings.JOBS["PROBE_TIMEOUT"])
        self._silent: set[str] = set()

    def look(self) -> Look:
        """Raises nothing; takes four times PROBE_TIMEOUT at most, whatever the servers do."""
        books = stream = None
        with self._or_missing("PostgreSQL"):
            books = self._books.ask(2 * settings.JOBS["PROBE_TIMEOUT"])
        with self._or_missing("Redis"):
            stream = self._meter.look()
        return Look(books, stream)

    def _read_books(self) -> Books:
        with transaction.atomic(durable=True):
            _bound_statements()
            held = holds.in_force()
            counted = tally.lately().with_holds({hold.kind for hold in held})
            counts, doubtful = read_counts(counted), lost.doubtful(counted)
            drained = drained_at(counted, held)
        more = None
        # Apart from the ages: these must be told whatever an app's gauge does.
        with self._or_missing("what apps add"):
            more = _read_declared()
        return Books(
            ages=ages(counted, held),
            counts=counts,
            holds=held,
            drained_at=drained,
            more=more,
            unaccounted=self._unaccounted(doubtful),
        )

    def _unaccounted(self, doubtful: list[Publication]) -> int | None:
        # The stream before the rows once more: what is done meanwhile must not count as lost.
        if not doubtful:
            return 0
        try:
            gone = set(self._stream.lost_among([entry for _, entry in doubtful]))
            self._silent.discard("entries on Redis")
        except Exception as error:
            # Whatever it was: the ages are PostgreSQL's, and must be told.
            self._say_missing("entries on Redis", error)
            return None
        return lost.count_still_relayed([one for one in doubtful if one[1] in gone])

    @contextlib.contextmanager
    def _or_missing(self, server: str) -> Iterator[None]:
        # Whatever it was: the other server's part, and the failed probe, must be told all the same.
        try:
            yield
            self._silent.discard(server)
        except Exception as error:
            self._say_missing(server, error)

    def _say_missing(self, what: str, error: Exception) -> None:
        if what not in self._silent:
            logger.warning("no look at %s: %s", what, told(error), extra={"action": "probe"})
        self._silent.add(what)

    def close(self) -> None:
        """Give all connections back."""
        self._books.close()
        self._meter.close()
        self._stream.close()


def _read_declared() -> list[tuple[Declared, list[Reading]]]:
    with transaction.atomic(durable=True):
        _bound_statements()
        return [(one, list(one.read())) for one in all_declared()]


def _bound_statements() -> None:
    milliseconds = int(settings.JOBS["PROBE_TIMEOUT"] * 1000)
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL statement_timeout = {milliseconds}")
