"""What a worker does beside reading: renews leases, says that it lives, looks for stuck jobs."""

import asyncio
import logging
from collections.abc import Callable

from django.conf import settings

from . import processes
from .failpoint import failpoint
from .held import Held
from .outage import told
from .pulse import TICK, Pulse
from .stream import Leases, StreamAway, WorkerStream
from .threads import Threads
from .waiting import is_refusal

logger = logging.getLogger(__name__)
RENEW_AGAIN = 0.5
"""Seconds after which leases that could not be renewed are tried again."""


async def renew_leases(
    stream: WorkerStream, entry_ids: Callable[[], list[str]], lose: Callable[[Leases], None]
) -> None:
    """Keep `entry_ids()` this worker's own, for ever; `lose` hears of others. Raises NameLost."""
    seconds = settings.JOBS["LEASE_RENEWAL"]
    while True:
        await asyncio.sleep(seconds)
        try:
            if ids := entry_ids():
                lose(await stream.renew(ids))
                failpoint("worker.renewed")
            seconds = settings.JOBS["LEASE_RENEWAL"]
        except StreamAway as error:
            # Soon: once the server is back, others look for what was not renewed.
            seconds = min(RENEW_AGAIN, settings.JOBS["LEASE_RENEWAL"])
            logger.debug("leases not renewed: %s", told(error))


async def say_alive(
    threads: Threads, consumer: str, status: Callable[[], tuple[str, int, int]]
) -> None:
    """Write down every HEARTBEAT seconds that this worker lives, for ever. Raises a refusal."""
    answered = True
    while True:
        try:
            await threads.look_up(processes.say_alive, "worker", consumer, *status())
            answered = True
        except Exception as error:
            if is_refusal(error):
                raise
            if answered:
                logger.warning("PostgreSQL does not answer: %s", told(error))
            answered = False
        await asyncio.sleep(settings.JOBS["HEARTBEAT"])


async def watch(
    held: Held, pulse: Pulse, nudge: Callable[[], None], on_stuck: Callable[[], None]
) -> None:
    """Keep the loop's pulse, and call `on_stuck` once a job is; for ever.

    `nudge` lets a loop turn that waits for a slot: the service manager hears of each turn.
    """
    pulse.beat()
    while True:
        await asyncio.sleep(TICK)
        nudge()
        lag = pulse.beat()
        if lag > settings.JOBS["LAG_LIMIT"]:
            logger.error("the loop was %.1f s late: starved, or the process was stopped", lag)
            held.forgive(lag)
        if held.stuck():
            logger.error("stuck, this worker ends:\n%s", held.report(), extra={"action": "stuck"})
            on_stuck()
            return
