"""How long to wait for a server that is away: longer each time, with jitter."""

import random
from dataclasses import dataclass, field


@dataclass
class Backoff:
    """Pauses in seconds from `least`, doubled each time up to `most`; half of each is chance."""

    least: float
    most: float
    _number: int = field(init=False, default=0)

    def pause(self) -> float:
        """The seconds to wait now; the next answer is longer."""
        self._number += 1
        return self.after(self._number)

    def after(self, number: int) -> float:
        """The seconds to wait after so many failures in a row (at least 1)."""
        longest = min(self.least * 2.0 ** min(number - 1, 60), self.most)
        return random.uniform(longest / 2, longest)  # noqa: S311 (spreads load, keeps no secret)

    def reset(self) -> None:
        """The server answered: start over."""
        self._number = 0
