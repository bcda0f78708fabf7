"""What PostgreSQL knows of the queue: rows by kind and state, ages by its clock, who is alive."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import connection

ROWS = """
SELECT kind,
    count(*) FILTER (WHERE live AND relayed_at IS NULL AND available_at <= now),
    count(*) FILTER (WHERE live AND relayed_at IS NULL AND available_at > now),
    count(*) FILTER (WHERE live AND relayed_at IS NOT NULL),
    count(*) FILTER (WHERE NOT live AND discarded_at IS NULL),
    count(*) FILTER (WHERE discarded_at IS NOT NULL),
    extract(epoch FROM now - min(due_at) FILTER (WHERE live AND due_at <= now))::float8,
    extract(epoch FROM now - min(available_at) FILTER (
        WHERE live AND relayed_at IS NULL AND available_at <= now))::float8,
    min(available_at) FILTER (WHERE live AND relayed_at IS NULL AND available_at > now)
FROM (SELECT *, dead_at IS NULL AS live, statement_timestamp() AS now FROM jobs_outbox) AS seen
GROUP BY kind, now ORDER BY kind
"""
"""One statement: a row that moves on in between would be counted twice, or not at all."""
PROCESSES = """
SELECT role, name, host, build, status,
    extract(epoch FROM statement_timestamp() - seen_at)::float8
FROM jobs_process WHERE seen_at > statement_timestamp() - make_interval(secs => %s)
ORDER BY role, name
"""


@dataclass(frozen=True, slots=True)
class KindRows:
    """How many outbox rows of one kind are in each state; a row is in one of them."""

    kind: str
    due: int
    waiting_for_retry: int
    relayed: int
    dead: int
    discarded: int


@dataclass(frozen=True, slots=True)
class ProcessSeen:
    """A worker or relay that was seen within three heartbeats, `seen` seconds ago."""

    role: str
    name: str
    host: str
    build: str
    status: str
    seen: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """`age`: of the oldest live job since it was due; `not_relayed`: of the oldest row that the
    relay should have published. Seconds, None where there is none. `refused`: entries that no
    outbox row stands behind.
    """

    kinds: list[KindRows]
    total: KindRows
    age: float | None
    not_relayed: float | None
    next_retry_at: datetime | None
    processes: list[ProcessSeen]
    refused: int

    def alive(self, role: str) -> list[ProcessSeen]:
        """The processes of that role (worker, relay)."""
        return [process for process in self.processes if process.role == role]


def read_books() -> Books:
    """Raises a database error where PostgreSQL does not answer."""
    with connection.cursor() as cursor:
        cursor.execute(ROWS)
        rows = cursor.fetchall()
        cursor.execute(PROCESSES, [alive_within()])
        processes = [ProcessSeen(*row) for row in cursor.fetchall()]
        cursor.execute("SELECT count(*) FROM jobs_refused_entry")
        [refused] = cursor.fetchone()
    kinds = [KindRows(*row[:6]) for row in rows]
    return Books(
        kinds=kinds,
        total=_total(kinds),
        age=max(_known(row[6] for row in rows), default=None),
        not_relayed=max(_known(row[7] for row in rows), default=None),
        next_retry_at=min((row[8] for row in rows if row[8] is not None), default=None),
        processes=processes,
        refused=refused,
    )


def alive_within() -> float:
    """Seconds within which a living process was seen: three heartbeats."""
    return float(3 * settings.JOBS["HEARTBEAT"])


def _total(kinds: Sequence[KindRows]) -> KindRows:
    columns = ("due", "waiting_for_retry", "relayed", "dead", "discarded")
    return KindRows("all", *(sum(getattr(kind, name) for kind in kinds) for name in columns))


def _known(ages: Iterable[float | None]) -> list[float]:
    return [age for age in ages if age is not None]
