"""Since when the oldest job of each reason waits, by PostgreSQL's clock."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jobs.holds import Hold
from jobs.models import KindHold
from jobs.registry import Lane
from jobs.tally import Rows, State, Tally


@dataclass(frozen=True, slots=True)
class Ages:
    """Times in seconds since 1970 by PostgreSQL's clock, `now`; None where there is no such job.

    `tickets`: when the oldest live job of the lane was due, of those that are not parked and that
    no person holds; `bulk`: the same of those that wait for their turn. `not_relayed`: since when
    a ticket's row waits for a relay. `retry_wait`, `held`, `paused`: when the oldest job was due of
    those that wait for their next try, whose kind the breaker holds, whose kind a person holds.
    """

    now: float
    tickets: float | None
    bulk: float | None
    not_relayed: float | None
    retry_wait: float | None
    held: float | None
    paused: float | None


def ages(tally: Tally, held: Sequence[Hold]) -> Ages:
    """`tally` is with these holds."""
    # What a person holds is late on purpose; what the breaker holds is late.
    by_person = {hold.kind for hold in held if hold.by != KindHold.BREAKER}
    paused, late = _apart(tally.of(State.DUE, State.HELD, State.RELAYED), by_person)
    waiting = [rows for rows in late if rows.state != State.RELAYED]
    due = [rows for rows in late if rows.state == State.DUE]
    return Ages(
        now=tally.now,
        tickets=_first(rows.due_at for rows in late if rows.lane == Lane.TICKETS),
        bulk=_first(rows.due_at for rows in waiting if rows.lane == Lane.BULK),
        not_relayed=_first(rows.available_at for rows in due if rows.lane == Lane.TICKETS),
        retry_wait=_first(rows.due_at for rows in tally.of(State.RETRY_WAIT)),
        held=_first(rows.due_at for rows in waiting if rows.state == State.HELD),
        paused=_first(rows.due_at for rows in paused if rows.state == State.HELD),
    )


def _apart(found: Iterable[Rows], kinds: set[str]) -> tuple[list[Rows], list[Rows]]:
    apart: tuple[list[Rows], list[Rows]] = ([], [])
    for rows in found:
        apart[rows.kind not in kinds].append(rows)
    return apart


def _first(times: Iterable[float]) -> float | None:
    return min(times, default=None)
