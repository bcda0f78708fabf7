"""What PostgreSQL knows of the queue: rows by kind and state, ages by its clock, who is alive."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import connection

from jobs.models import KindHold

ROWS = """
SELECT kind,
    count(*) FILTER (WHERE state = 'due'),
    count(*) FILTER (WHERE state = 'held'),
    count(*) FILTER (WHERE state = 'waiting'),
    count(*) FILTER (WHERE state = 'relayed'),
    count(*) FILTER (WHERE state = 'dead'),
    count(*) FILTER (WHERE state = 'discarded'),
    extract(epoch FROM now - min(due_at) FILTER (WHERE dead_at IS NULL AND due_at <= now))::float8,
    extract(epoch FROM now - min(available_at) FILTER (WHERE state = 'due'))::float8,
    min(available_at) FILTER (WHERE state = 'waiting'),
    coalesce(bool_or(until > now AND by <> %(breaker)s), false)
FROM (
    SELECT kind, due_at, available_at, dead_at, until, by, now, CASE
        WHEN discarded_at IS NOT NULL THEN 'discarded'
        WHEN dead_at IS NOT NULL THEN 'dead'
        WHEN relayed_at IS NOT NULL THEN 'relayed'
        WHEN available_at > now THEN 'waiting'
        WHEN until > now OR by = %(breaker)s THEN 'held'
        ELSE 'due' END AS state
    FROM jobs_outbox LEFT JOIN jobs_kind_hold USING (kind), statement_timestamp() AS now
) AS seen
GROUP BY kind, now ORDER BY kind
"""
"""One statement: a row that moves on in between would be counted twice, or not at all."""
HOLDS = """
SELECT kind, until, reason, by, until <= statement_timestamp(), level + 1 FROM jobs_kind_hold
WHERE until > statement_timestamp() OR by = %s ORDER BY kind
"""
PROCESSES = """
SELECT role, name, host, build, status, slots, busy,
    extract(epoch FROM statement_timestamp() - seen_at)::float8
FROM jobs_process WHERE seen_at > statement_timestamp() - make_interval(secs => %s)
ORDER BY role, name
"""


ROLES = ("worker", "relay", "scheduler")
"""The parts of which one at least must be at work."""


@dataclass(frozen=True, slots=True)
class KindRows:
    """How many outbox rows of one kind are in each state; a row is in one of them.

    `held`: due, and kept back with its kind.
    """

    kind: str
    due: int
    held: int
    waiting_for_retry: int
    relayed: int
    dead: int
    discarded: int


@dataclass(frozen=True, slots=True)
class HoldSeen:
    """A hold that keeps rows back, for the `times`th time in a row.

    `probing`: it is over, and lets one job at a time by until one succeeds.
    """

    kind: str
    until: datetime
    reason: str
    by: str
    probing: bool
    times: int

    @property
    def by_breaker(self) -> bool:
        """Not by a person."""
        return self.by == KindHold.BREAKER


@dataclass(frozen=True, slots=True)
class ProcessSeen:
    """A process that was seen within three heartbeats, `seen` seconds ago."""

    role: str
    name: str
    host: str
    build: str
    status: str
    slots: int
    busy: int
    seen: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """`age`: of the oldest live job since it was due; `age_not_paused`: the same without the kinds
    that a person holds; `not_relayed`: of the oldest row that the relay should have published.
    Seconds, None where there is none. `refused`: entries that no outbox row stands behind and that
    nobody has settled.
    """

    kinds: list[KindRows]
    total: KindRows
    age: float | None
    age_not_paused: float | None
    not_relayed: float | None
    next_retry_at: datetime | None
    holds: list[HoldSeen]
    processes: list[ProcessSeen]
    refused: int

    def alive(self, role: str) -> list[ProcessSeen]:
        """The processes of that role (worker, relay, scheduler)."""
        return [process for process in self.processes if process.role == role]


def read_books() -> Books:
    """Raises a database error where PostgreSQL does not answer."""
    with connection.cursor() as cursor:
        cursor.execute(ROWS, {"breaker": KindHold.BREAKER})
        rows = cursor.fetchall()
        cursor.execute(PROCESSES, [alive_within()])
        processes = [ProcessSeen(*row) for row in cursor.fetchall()]
        cursor.execute("SELECT count(*) FROM jobs_refused_entry WHERE settled_at IS NULL")
        [refused] = cursor.fetchone()
    kinds = [KindRows(*row[:7]) for row in rows]
    return Books(
        kinds=kinds,
        total=_total(kinds),
        age=_oldest(row[7] for row in rows),
        age_not_paused=_oldest(row[7] for row in rows if not row[10]),
        not_relayed=_oldest(row[8] for row in rows),
        next_retry_at=min((row[9] for row in rows if row[9] is not None), default=None),
        holds=holds_seen(),
        processes=processes,
        refused=refused,
    )


def holds_seen() -> list[HoldSeen]:
    """Every hold that keeps rows back, by kind. Raises a database error."""
    with connection.cursor() as cursor:
        cursor.execute(HOLDS, [KindHold.BREAKER])
        return [HoldSeen(*row) for row in cursor.fetchall()]


def alive_within() -> float:
    """Seconds within which a living process was seen: three heartbeats."""
    return float(3 * settings.JOBS["HEARTBEAT"])


def _total(kinds: Sequence[KindRows]) -> KindRows:
    columns = ("due", "held", "waiting_for_retry", "relayed", "dead", "discarded")
    return KindRows("all", *(sum(getattr(kind, name) for kind in kinds) for name in columns))


def _oldest(ages: Iterable[float | None]) -> float | None:
    return max((age for age in ages if age is not None), default=None)
