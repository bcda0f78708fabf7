"""What each kind's policy means, as people read it. Asks no server."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.conf import settings

from .policy import GiveUp
from .registry import Kind, all_kinds

type Range = tuple[float, float]
"""From the shortest to the longest, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """One kind's policy; times in seconds.

    `delays`: before each run but the first. `all_delays`: their sum. `horizon`: from when a job was
    due until it is dead whatever happened; runs and holds are left out. `retry_after`: an error
    may ask for a wait by itself. `hold_after`: 0: never; `hold_min`, `hold_max`: a hold's length,
    doubled from the one up to the other.
    """

    kind: str
    attempts: int
    delays: list[Range]
    all_delays: Range
    timeout: float
    deadline: float
    horizon: float
    final: list[str]
    retry_after: bool
    hold_after: int
    hold_min: float
    hold_max: float


def policies() -> list[PolicyRow]:
    """Of every registered kind, by name."""
    return [_row(kind) for kind in all_kinds()]


def _row(kind: Kind[object]) -> PolicyRow:
    policy = kind.policy
    delays = list(policy.delays())
    return PolicyRow(
        kind=kind.name,
        attempts=policy.attempts,
        delays=delays,
        all_delays=(sum(least for least, _ in delays), sum(most for _, most in delays)),
        timeout=policy.timeout,
        deadline=policy.deadline,
        horizon=policy.horizon(),
        final=[GiveUp.__name__, *(error.__qualname__ for error in policy.final)],
        retry_after=policy.retry_after is not None,
        hold_after=policy.hold_after,
        hold_min=settings.JOBS["HOLD_MIN"],
        hold_max=settings.JOBS["HOLD_MAX"],
    )


def policies_screen(rows: Iterable[PolicyRow]) -> str:
    """A paragraph for each kind."""
    paragraphs = ("\n".join([row.kind, *_lines(row)]) for row in rows)
    return "\n\n".join(paragraphs) or "no kind is registered"


def _lines(row: PolicyRow) -> Iterator[str]:
    waits = "TryLater, errors that name a time" if row.retry_after else "TryLater"
    for name, words in (
        ("runs", f"{row.attempts} in all"),
        ("tried again", _delays(row)),
        ("until dead", f"{span_of(row.all_delays)} of delays, {length(row.horizon)} with waits"),
        ("timeout", f"{length(row.timeout)}; a run that takes twice as long ends its worker"),
        ("waits", f"uncounted, until {length(row.deadline)} after it was due: {waits}"),
        ("dead at once", ", ".join(row.final)),
        ("held", _held(row)),
    ):
        yield f"  {name:<14}{words}"


def _delays(row: PolicyRow) -> str:
    if not row.delays:
        return "never"
    return f"after {', '.join(_repeated(row.delays))}"


def _repeated(delays: Iterable[Range]) -> Iterator[str]:
    for delay, same in itertools.groupby(delays):
        number = len(list(same))
        yield span_of(delay) + (f" ({number} times)" if number > 1 else "")


def _held(row: PolicyRow) -> str:
    if not row.hold_after:
        return "never by the breaker"
    rule = f"after {row.hold_after} failures in a row, for {length(row.hold_min)}"
    if row.hold_max <= row.hold_min:
        return f"{rule} each time"
    return f"{rule}, doubled each time up to {length(row.hold_max)}"


def span_of(delay: Range) -> str:
    """`0–10 s`, `5–10 s`, `80 s–2 min`, or one length where both ends are the same."""
    least, most = (length(end).split() for end in delay)
    if least == most:
        return " ".join(most)
    same_unit = len(most) == 2 and least[1:] == most[1:]
    first = least[:1] if same_unit or not delay[0] else least
    return f"{' '.join(first)}–{' '.join(most)}"


def length(seconds: float) -> str:
    """A length of time as people say it: `0.5 s`, `90 s`, `2 min 40 s`, `10 min`, `20 h`."""
    if seconds < 120:
        return f"{seconds:g} s"
    units = ((86_400, "days"), (3_600, "h"), (60, "min"), (1, "s"))
    parts, rest = [], round(seconds)
    for size, unit in units:
        # One day is said in hours.
        if rest >= size * (2 if unit == "days" else 1):
            parts.append(f"{rest // size} {unit}")
            rest %= size
    return " ".join(parts)
