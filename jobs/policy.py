"""How often and how late a failing job is tried again. Pure: no clock, no chance, no I/O."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A kind's rules. Times in seconds.

    A failed run is tried again `delay` later. `timeout` bounds one computation of a run.
    """

    attempts: int = 5
    delay: float = 10.0
    timeout: float = 60.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.delay < 0 or self.timeout <= 0:
            raise ValueError(f"a policy needs attempts >= 1, delay >= 0 and timeout > 0: {self}")
