"""How long to wait for a server that is away: longer each time, with jitter."""

import random
from dataclasses import dataclass, field


@dataclass
class Backoff:
    """Pauses in seconds from `least`, doubled each time up to `most`; half of each is chance."""

    least: float
    most: float
    _next: float = field(init=False, default=0.0)

    def pause(self) -> float:
        """The seconds to wait now; the next answer is longer."""
        now = max(self._next, self.least)
        self._next = min(now * 2, self.most)
        return random.uniform(now / 2, now)  # noqa: S311 (spreads load, keeps no secret)

    def reset(self) -> None:
        """The server answered: start over."""
        self._next = self.least
