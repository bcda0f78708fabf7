"""The worker: one asyncio loop that reads entries into free slots, and acknowledges on outcomes."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from enum import IntEnum
from typing import Any

from django.conf import settings

from . import metrics, outage, processes
from .acknowledger import Acknowledger
from .backoff import Backoff
from .errors import error_line
from .pool import Pool
from .runner import Outcome, run_job
from .sorting import Runnable, sort_entries
from .stream import Entry, NoGroup, StreamAway, StreamRefused, WorkerStream
from .threads import Threads

logger = logging.getLogger(__name__)
READ_LIMIT = 10
"""Entries read at once at most (design §6)."""
WAKE_AGAIN = 0.1
"""Seconds between two tries to end a blocking read."""
GATHER = 0.004
"""Seconds that a busy worker lets slots gather before it reads, at most (`make bench`)."""
LAST_WORDS = 2.0
"""Seconds that a stopping worker gives its last acknowledgements."""


class Exit(IntEnum):
    """How the worker leaves (design §6)."""

    DRAINED = 0
    FAILED = 1
    UNFINISHED = 3
    NAME_TAKEN = 6
    REFUSED = 7


def _backoff() -> Backoff:
    return Backoff(settings.JOBS["BACKOFF_MIN"], settings.JOBS["BACKOFF_MAX"])


class Worker:
    """One consumer of the group. Call `run()` once; `stop()` is for signal handlers."""

    def __init__(self, stream: WorkerStream, pool: Pool, *, slots: int, grace: float) -> None:
        self._stream = stream
        self._pool = pool
        self._slots = slots
        self._grace = grace
        self._threads = Threads(slots)
        self._acknowledger = Acknowledger(stream, _backoff())
        self._backoff = _backoff()
        self._undecided_backoff = _backoff()
        self._claimed = False
        self._reading = False
        self._running: dict[str, Runnable] = {}
        self._set_aside: set[str] = set()
        self._pending_after: str | None = "0"
        self._undecided = False
        self._stopping = asyncio.Event()
        self._slot_freed = asyncio.Event()
        self._exit = Exit.DRAINED

    @property
    def is_stopping(self) -> bool:
        """Whether `stop()` was called, or the worker gave up by itself."""
        return self._stopping.is_set()

    @property
    def unfinished(self) -> int:
        """Jobs that still run: the interpreter would wait for their threads."""
        return len(self._running)

    def stop(self, reason: Exit = Exit.DRAINED) -> None:
        """Read no more; `run()` returns once what runs has finished or the grace is over."""
        logger.info("stopping, %d running", len(self._running), extra={"action": "stop"})
        self._exit = max(self._exit, reason)
        self._stopping.set()
        self._slot_freed.set()

    async def run(self) -> Exit:
        """Work until `stop()` and return the exit code. Outages are waited out."""
        await self._claim_name()
        helpers = [
            self._start_helper(work())
            for work in (
                self._hold_name, self._acknowledger.run, self._end_blocking_read, self._say_alive
            )
        ]  # fmt: skip
        if not self.is_stopping:
            logger.info("worker %s is ready", self._stream.consumer, extra={"action": "start"})
        await self._read_until_stopped()
        await self._drain()
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
        await self._take_leave()
        return self._exit

    def _start_helper(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._helper_ended)
        return task

    def _helper_ended(self, task: asyncio.Task[None]) -> None:
        # A worker that reads on without its acknowledgements or its name does harm.
        if not task.cancelled() and (error := task.exception()):
            logger.error("a helper ended: %s", error_line(error), exc_info=error)
            self.stop(Exit.REFUSED if _refused(error) else Exit.FAILED)

    # Reading

    async def _read_until_stopped(self) -> None:
        while not self.is_stopping:
            try:
                await self._turn()
            except Exception as error:
                await self._after_error(error)
            else:
                self._backoff.reset()
                if self._undecided:
                    await self._rest("a job met an outage", self._undecided_backoff)

    async def _turn(self) -> None:
        count = min(READ_LIMIT, await self._free_slots())
        if count == 0:
            # XREADGROUP takes COUNT 0 to mean without limit: with no free slot nothing is sent.
            self._slot_freed.clear()
            await self._slot_freed.wait()
        elif self._pending_after is None:
            await self._start(await self._read_new(count))
        else:
            await self._resume(self._pending_after, count)

    async def _read_new(self, count: int) -> list[Entry]:
        self._reading = True
        try:
            return await self._stream.read_new(count)
        finally:
            self._reading = False

    async def _free_slots(self) -> int:
        # Short jobs free more slots within moments: one read and one look-up for several.
        if 0 < self._slots - len(self._running) < self._slots // 2:
            await self._pause(GATHER)
        return self._slots - len(self._running)

    async def _resume(self, after: str, count: int) -> None:
        entries = await self._stream.read_pending(after, count)
        await self._start([entry for entry in entries if not self._knows(entry.id)])
        self._pending_after = entries[-1].id if entries else None

    def _knows(self, entry_id: str) -> bool:
        known = entry_id in self._running or entry_id in self._set_aside
        return known or entry_id in self._acknowledger

    async def _start(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        try:
            found = await self._threads.look_up(sort_entries, entries)
        except BaseException:
            # Delivered and in no slot: only the pending list knows of them now.
            self._pending_after = "0"
            raise
        self._set_aside.update(found.set_aside)
        self._acknowledger.settle(found.concluded)
        for entry_id, (job, kind) in found.runnable.items():
            run = self._threads.run_job(
                run_job, job, entry_id, kind, self._stream.consumer, self._pool
            )
            self._running[entry_id] = job, kind
            run.add_done_callback(self._finisher(entry_id))
        metrics.SLOTS_BUSY.set(len(self._running))

    def _finisher(self, entry_id: str) -> Callable[[Future[Outcome]], object]:
        loop = asyncio.get_running_loop()
        return lambda done: loop.call_soon_threadsafe(self._finish, entry_id, done.result())

    def _finish(self, entry_id: str, outcome: Outcome) -> None:
        del self._running[entry_id]
        metrics.SLOTS_BUSY.set(len(self._running))
        if outcome.acknowledges:
            self._undecided_backoff.reset()
            self._acknowledger.settle([entry_id])
        elif outcome is Outcome.REFUSED:
            self._set_aside.add(entry_id)
        else:
            self._undecided = True
        self._slot_freed.set()

    # Outages

    async def _after_error(self, error: Exception) -> None:
        if _refused(error):
            logger.error("refused by a server: %s", error_line(error), extra={"action": "stop"})
            return self.stop(Exit.REFUSED)
        if isinstance(error, NoGroup):
            await self._remake_group()
        elif not outage.is_outage(error):
            logger.error("the loop failed: %s", error_line(error), exc_info=error)
        return await self._rest(error_line(error), self._backoff)

    async def _remake_group(self) -> None:
        try:
            await self._stream.ensure_group()
        except StreamRefused:
            self.stop(Exit.REFUSED)
        except StreamAway as error:
            logger.debug("no group yet: %s", error_line(error))

    async def _rest(self, reason: str, backoff: Backoff) -> None:
        seconds = backoff.pause()
        logger.warning("reads again in %.1f s: %s", seconds, reason, extra={"action": "back off"})
        await self._pause(seconds)
        self._undecided = False
        self._pending_after = "0"

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    # The consumer's name: two live workers under one would run each other's pending jobs again

    async def _claim_name(self) -> None:
        deadline = time.monotonic() + settings.JOBS["NAME_WAIT"]
        while not self.is_stopping:
            try:
                if await self._stream.claim_name():
                    self._claimed = True
                    await self._stream.ensure_group()
                    return
                if time.monotonic() > deadline:
                    logger.error("the name %s is taken by another worker", self._stream.consumer)
                    self.stop(Exit.NAME_TAKEN)
                await self._pause(settings.JOBS["NAME_TTL"] / 20)
            except Exception as error:
                deadline = time.monotonic() + settings.JOBS["NAME_WAIT"]
                await self._after_error(error)

    async def _hold_name(self) -> None:
        while True:
            await asyncio.sleep(settings.JOBS["NAME_TTL"] / 4)
            try:
                held = await self._stream.claim_name()
            except StreamAway:
                continue
            if not held:
                logger.error("another worker took the name %s", self._stream.consumer)
                self.stop(Exit.NAME_TAKEN)
                return

    # Helpers and the end

    async def _end_blocking_read(self) -> None:
        await self._stopping.wait()
        # Again and again: the first may overtake the read that it is to end.
        while self._reading:
            with contextlib.suppress(StreamAway, StreamRefused):
                await self._stream.wake_reader()
            await asyncio.sleep(WAKE_AGAIN)

    async def _say_alive(self) -> None:
        while True:
            status = f"{len(self._running)} of {self._slots} slots busy"
            try:
                await self._threads.look_up(
                    processes.say_alive, "worker", self._stream.consumer, status
                )
            except Exception as error:
                logger.warning("PostgreSQL does not answer: %s", error_line(error))
                if _refused(error):
                    return self.stop(Exit.REFUSED)
            await asyncio.sleep(settings.JOBS["HEARTBEAT"])

    async def _drain(self) -> None:
        deadline = time.monotonic() + self._grace
        while self._running and (left := deadline - time.monotonic()) > 0:
            self._slot_freed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._slot_freed.wait(), left)
        await self._acknowledger.flush(LAST_WORDS)
        if self._running:
            logger.warning("%d jobs unfinished at the end of the grace", len(self._running))
            self._exit = max(self._exit, Exit.UNFINISHED)

    async def _take_leave(self) -> None:
        with contextlib.suppress(Exception):
            await self._stream.release_name()
        if self._claimed:
            with contextlib.suppress(Exception):
                await self._threads.look_up(processes.say_gone, "worker", self._stream.consumer)
        with contextlib.suppress(Exception):
            await self._stream.close()
        if self._running:
            self._threads.abandon()
        else:
            await asyncio.to_thread(self._threads.close)
        logger.info("left: %s", self._exit.name.lower(), extra={"action": "stop"})


def _refused(error: BaseException) -> bool:
    return isinstance(error, StreamRefused) or outage.is_refusal(error)
