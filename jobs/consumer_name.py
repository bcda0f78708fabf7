"""The consumer's name: two live workers under one would run each other's pending jobs again."""

import asyncio
import logging
import time

from django.conf import settings

from .stream import NameLost, StreamAway, WorkerStream

logger = logging.getLogger(__name__)


class ConsumerName:
    """Taken before anything is read, held until the end."""

    def __init__(self, stream: WorkerStream) -> None:
        self._stream = stream
        self._held_until = 0.0

    @property
    def held(self) -> bool:
        """Whether it is this worker's for certain; not after a sleep longer than its expiry."""
        return time.monotonic() < self._held_until

    async def claim(self) -> bool:
        """Take it, or take it for longer; False while another process has it."""
        asked = time.monotonic()
        if not await self._stream.claim_name():
            return False
        self._held_until = asked + settings.JOBS["NAME_TTL"]
        return True

    async def ensure(self) -> None:
        """Before a read: raises NameLost where it may be another's by now, and is."""
        if not self.held and not await self.claim():
            raise NameLost(f"another worker took the name {self._stream.consumer}")

    async def hold(self) -> None:
        """Renew it for ever; raises NameLost."""
        while True:
            await asyncio.sleep(settings.JOBS["NAME_TTL"] / 4)
            try:
                held = await self.claim()
            except StreamAway:
                continue
            if not held:
                raise NameLost(f"another worker took the name {self._stream.consumer}")
