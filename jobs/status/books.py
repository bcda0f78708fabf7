"""What PostgreSQL knows of the queue: rows by kind and state, ages by its clock, who is alive."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.conf import settings
from django.db import connection

from jobs import tally
from jobs.models import KindHold
from jobs.tally import State, Tally

HOLDS = """
SELECT kind, until, reason, by, until <= statement_timestamp(), level + 1 FROM jobs_kind_hold
WHERE until > statement_timestamp() OR by = %s ORDER BY kind
"""
PROCESSES = """
SELECT role, name, host, build, status, slots, busy,
    greatest(0, extract(epoch FROM statement_timestamp() - seen_at)::float8)
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
    held = holds_seen()
    counted = tally.count().with_holds({hold.kind for hold in held})
    with connection.cursor() as cursor:
        cursor.execute(PROCESSES, [alive_within()])
        processes = [ProcessSeen(*row) for row in cursor.fetchall()]
        cursor.execute("SELECT count(*) FROM jobs_refused_entry WHERE settled_at IS NULL")
        [refused] = cursor.fetchone()
    kinds = _by_kind(counted)
    late = list(counted.of(State.DUE, State.HELD, State.RETRY_WAIT, State.RELAYED))
    paused = {hold.kind for hold in held if not hold.by_breaker}
    return Books(
        kinds=kinds,
        total=_total(kinds),
        age=_age(counted.now, (rows.due_at for rows in late)),
        age_not_paused=_age(counted.now, (rows.due_at for rows in late if rows.kind not in paused)),
        not_relayed=_age(counted.now, (rows.available_at for rows in counted.of(State.DUE))),
        next_retry_at=_next_retry_at(counted),
        holds=held,
        processes=processes,
        refused=refused,
    )


def _by_kind(counted: Tally) -> list[KindRows]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for rows in counted.rows:
        found[rows.kind][rows.state] += rows.number
    return [_kind_rows(kind, found[kind]) for kind in sorted(found)]


def _kind_rows(kind: str, number: Counter[str]) -> KindRows:
    return KindRows(
        kind,
        due=number[State.DUE],
        held=number[State.HELD],
        waiting_for_retry=number[State.RETRY_WAIT] + number[State.SCHEDULED],
        relayed=number[State.RELAYED],
        dead=number[State.DEAD],
        discarded=number[State.DISCARDED],
    )


def _next_retry_at(counted: Tally) -> datetime | None:
    parked = [rows.available_at for rows in counted.of(State.RETRY_WAIT, State.SCHEDULED)]
    return datetime.fromtimestamp(min(parked), UTC) if parked else None


def _age(now: float, times: Iterable[float]) -> float | None:
    oldest = min(times, default=None)
    return None if oldest is None else now - oldest


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
