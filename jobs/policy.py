"""How often and how late a failing job is tried again. Pure: no clock, no chance, no I/O."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from .errors import Discreet, error_line

HOUR = 3600.0
LEAST_WAIT = 1.0
"""Seconds: a wait that counts no attempt must not be a loop."""


class GiveUp(Discreet):
    """Raised by a handler: no further try can succeed, the job is dead at once.

    `reason` is logged: it names no person and no address.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TryLater(Discreet):
    """Raised by a handler: not the job's fault, try again in `delay` seconds; no attempt counted.

    `reason` is logged: it names no person and no address. Past the policy's deadline the job is
    dead all the same. `of_provider`: other jobs of the kind would meet the same, so that it counts
    towards holding the kind.
    """

    def __init__(self, delay: float, reason: str, *, of_provider: bool = True) -> None:
        super().__init__(reason)
        self.delay = delay
        self.reason = reason
        self.of_provider = of_provider


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again `delay` seconds from now; one attempt more is counted."""

    delay: float
    counts: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Wait:
    """Try again `delay` seconds from now; no attempt is counted."""

    delay: float
    counts: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class Bury:
    """Stop trying: the job is dead, for this reason; `counts`: the attempts that this run was."""

    reason: str
    counts: int = 1


type Verdict = Retry | Wait | Bury


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A kind's rules. Times in seconds.

    A failed run is tried again, `attempts` runs in all, after `base` doubled each time and at most
    `cap`, of which the share `jitter` is left to chance (1: full jitter, anything from 0 on).
    `timeout` bounds one computation of a run; a run that takes twice as long ends its worker
    (design §6). An error of a type in `final` is dead at once. `retry_after` tells how long an
    error asks to wait, None if it does not: such waits count no attempt, but end `deadline` after
    the job was due. After `hold_after` failures in a row its kind is held; 0: never.
    """

    attempts: int = 5
    base: float = 10.0
    cap: float = 600.0
    jitter: float = 1.0
    timeout: float = 60.0
    deadline: float = 20 * HOUR
    final: tuple[type[BaseException], ...] = ()
    retry_after: Callable[[BaseException], float | None] | None = None
    hold_after: int = 10

    def __post_init__(self) -> None:
        wrong = (
            self.attempts < 1
            or not 0 <= self.base <= self.cap < math.inf
            or not 0 <= self.jitter <= 1
            or not self.timeout > 0
            or not 0 <= self.deadline < math.inf
            or self.hold_after < 0
        )
        if wrong:
            raise ValueError(
                "a policy needs attempts >= 1, 0 <= base <= cap < inf, 0 <= jitter <= 1, "
                f"timeout > 0, 0 <= deadline < inf and hold_after >= 0: {self}"
            )

    def after_failure(
        self, error: BaseException, *, attempts: int, age: float, chance: float
    ) -> Verdict:
        """What follows a run that ended with `error`.

        `attempts`: failed runs before this one. `age`: seconds since the job was due. `chance`:
        from 0 (tried soonest) to 1.
        """
        if self.gives_up(error):
            return Bury(_last_word(error) if isinstance(error, GiveUp) else "final error")
        if (delay := self.wait_of(error)) is not None:
            if age + delay > self.deadline:
                reason = f"still not possible {self.deadline:g} s after it was due"
                return Bury(reason, counts=0)
            # Never sooner than was asked, not all at once, and once more before the deadline.
            return Wait(min(delay * (1 + chance / 2), self.deadline - age))
        if attempts + 1 >= self.attempts:
            return Bury(f"failed {attempts + 1} times")
        shortest, longest = self.delay(attempts)
        return Retry(shortest + (longest - shortest) * chance)

    def gives_up(self, error: BaseException) -> bool:
        """Whether the error is about this job alone, and for good."""
        return isinstance(error, (GiveUp, *self.final))

    def wait_of(self, error: BaseException) -> float | None:
        """For how long the error asks to wait, LEAST_WAIT at least; None: it does not."""
        if isinstance(error, TryLater):
            return max(LEAST_WAIT, error.delay)
        try:
            asked = self.retry_after(error) if self.retry_after else None
        except Exception:
            # What a provider sends can be anything; the failure then counts as any other.
            return None
        return None if asked is None else max(LEAST_WAIT, asked)

    def burdens_kind(self, error: BaseException) -> bool:
        """Whether other jobs of the kind would fail as well, as far as the error tells."""
        return not self.gives_up(error) and getattr(error, "of_provider", True)

    def delay(self, attempts: int) -> tuple[float, float]:
        """The shortest and longest delay after the failure that follows `attempts` others."""
        # Not 2 ** attempts alone: a float overflows after a thousand attempts.
        longest = min(self.cap, self.base * 2.0 ** min(attempts, 60))
        return longest * (1 - self.jitter), longest

    def delays(self) -> Iterator[tuple[float, float]]:
        """The delay before each run but the first."""
        return (self.delay(number) for number in range(self.attempts - 1))

    def horizon(self) -> float:
        """Seconds after it was due in which a job that fails in every way is dead, its kind's
        holds left out."""
        return self.deadline + sum(longest for _, longest in self.delays())


def _last_word(error: GiveUp) -> str:
    # Not its bare text: that may have a NUL, an address, megabytes, or raise.
    return f"given up: {error_line(error).partition(': ')[2]}"
