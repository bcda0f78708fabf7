"""How often and how late a failing job is tried again. Pure: no clock, no chance, no I/O."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again `delay` seconds from now."""

    delay: float


@dataclass(frozen=True, slots=True)
class Bury:
    """Stop trying: the job is dead, for this reason."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A kind's rules. Times in seconds.

    A failed run is tried again `delay` later, `attempts` runs in all. `timeout` bounds one
    computation of a run; a run that takes twice as long ends its worker (design §6).
    """

    attempts: int = 5
    delay: float = 10.0
    timeout: float = 60.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.delay < 0 or self.timeout <= 0:
            raise ValueError(f"a policy needs attempts >= 1, delay >= 0 and timeout > 0: {self}")

    def after_failure(self, attempts: int) -> Retry | Bury:
        """What follows the failure that made it `attempts` failed runs."""
        if attempts >= self.attempts:
            return Bury(f"failed {attempts} times")
        return Retry(self.delay)
