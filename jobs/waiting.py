"""Waiting for servers that are away: with jitter, few words in the log, and no work meanwhile."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

from django.conf import settings

from . import outage
from .backoff import Backoff
from .stream import StreamRefused

logger = logging.getLogger(__name__)
SAY_AGAIN = 30.0
"""Seconds between two lines of log about one outage."""


def is_refusal(error: BaseException) -> bool:
    """Whether either server refuses this client, so that waiting does not help."""
    return isinstance(error, StreamRefused) or outage.is_refusal(error)


def new_backoff() -> Backoff:
    """As the settings say."""
    return Backoff(settings.JOBS["BACKOFF_MIN"], settings.JOBS["BACKOFF_MAX"])


class Waiting:
    """`probe` asks both servers and raises unless they answer; `stopping` ends every wait.

    `turned` is called before each pause: a loop that backs off is not frozen.
    """

    def __init__(
        self, probe: Callable[[], Awaitable[None]], stopping: asyncio.Event,
        turned: Callable[[], None],
    ) -> None:  # fmt: skip
        self._probe = probe
        self._stopping = stopping
        self._turned = turned
        self.reason = ""
        """What it waits for; empty while something can be read."""
        self._since: float | None = None
        self._said_at = 0.0

    async def out(self, reason: str, backoff: Backoff) -> None:
        """Return once both servers answer, or at the stop. Raises a refusal."""
        self._say_away(reason)
        while not self._stopping.is_set():
            await self.pause(backoff.pause())
            try:
                await self._probe()
            except Exception as error:
                if is_refusal(error):
                    raise
                self._say_away(outage.told(error))
            else:
                return

    async def pause(self, seconds: float) -> None:
        """So many seconds, or until the stop."""
        self._turned()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    def _say_away(self, reason: str) -> None:
        now = time.monotonic()
        self.reason = reason
        if self._since is None or now - self._said_at > SAY_AGAIN:
            self._said_at = now
            logger.warning("reads nothing for now: %s", reason, extra={"action": "back off"})
        self._since = self._since or now

    def over(self) -> None:
        """Something was read."""
        if self._since is not None:
            seconds = time.monotonic() - self._since
            logger.info("reads again after %.1f s", seconds, extra={"action": "back"})
            self._since, self.reason = None, ""
