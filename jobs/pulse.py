"""The pulse of a loop: whether it still turns, asked by threads that do not wait for it."""

import time

TICK = 0.5
"""Seconds between two beats of an asyncio loop."""


class Pulse:
    """`every`: seconds after which the loop comes round, at most, where all is well."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._beat_at = time.monotonic()
        self._late = 0.0

    def beat(self) -> float:
        """The loop came round; how many seconds late it was."""
        now = time.monotonic()
        self._late = max(0.0, now - self._beat_at - self._every)
        self._beat_at = now
        return self._late

    def lag(self) -> float:
        """Seconds: how late it was the last time, or is by now where that is more."""
        return max(self._late, time.monotonic() - self._beat_at - self._every)

    def trouble(self, limit: float) -> str:
        """Why the process is not healthy: no beat for `limit` seconds; empty where it is."""
        seconds = time.monotonic() - self._beat_at
        return f"the loop has not turned for {seconds:.0f} s" if seconds > limit else ""
