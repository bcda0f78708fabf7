"""What a worker does beside reading: renews leases, says that it lives, looks for stuck jobs."""

import asyncio
import logging
import time
from collections.abc import Callable

from django.conf import settings

from . import metrics, processes
from .errors import error_line
from .failpoint import failpoint
from .held import Held
from .stream import StreamAway, WorkerStream
from .threads import Threads
from .waiting import is_refusal

logger = logging.getLogger(__name__)
TICK = 0.5
"""Seconds between two looks at the loop and at the slots."""


async def renew_leases(stream: WorkerStream, held: Held, others: Callable[[], list[str]]) -> None:
    """Keep what this worker holds, and `others()`, its own; for ever. Raises NameLost."""
    while True:
        await asyncio.sleep(settings.JOBS["LEASE_RENEWAL"])
        entry_ids = [*held.renewable(), *others()]
        if not entry_ids:
            continue
        try:
            lost = await stream.renew(entry_ids)
        except StreamAway as error:
            logger.debug("leases not renewed: %s", error_line(error))
            continue
        failpoint("worker.renewed")
        if number := held.give_up(lost):
            metrics.LEASES_LOST.inc(number)
            logger.warning("%d jobs in work were taken over by others", number)


async def say_alive(threads: Threads, consumer: str, status: Callable[[], str]) -> None:
    """Write down every HEARTBEAT seconds that this worker lives, for ever. Raises a refusal."""
    answered = True
    while True:
        try:
            await threads.look_up(processes.say_alive, "worker", consumer, status())
            answered = True
        except Exception as error:
            if is_refusal(error):
                raise
            if answered:
                logger.warning("PostgreSQL does not answer: %s", error_line(error))
            answered = False
        await asyncio.sleep(settings.JOBS["HEARTBEAT"])


async def watch(held: Held, on_stuck: Callable[[], None]) -> None:
    """Measure how late the loop turns, and call `on_stuck` once a job is; for ever."""
    while True:
        before = time.monotonic()
        await asyncio.sleep(TICK)
        _note_lag(time.monotonic() - before - TICK)
        if held.stuck():
            logger.error("stuck, this worker ends:\n%s", held.report(), extra={"action": "stuck"})
            on_stuck()
            return


def _note_lag(seconds: float) -> None:
    metrics.LOOP_LAG.set(max(0.0, seconds))
    if seconds > settings.JOBS["LAG_LIMIT"]:
        logger.error("the loop was %.1f s late: starved, or the process was stopped", seconds)
