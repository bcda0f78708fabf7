"""The worker: one asyncio loop that reads entries into free slots, and acknowledges on outcomes."""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Coroutine, Iterable
from enum import IntEnum
from typing import Any

from django.conf import settings

from . import conclusion, outage, outbox, processes
from .acknowledger import Acknowledger
from .backoff import Backoff
from .consumer_name import ConsumerName
from .errors import error_line
from .failpoint import failpoint
from .held import Held
from .reclaim import Reclaim
from .runner import Outcome, Runner
from .slot import Slot
from .sorting import Sorter
from .stream import Entry, NameLost, NoGroup, StreamAway, StreamHung, StreamRefused, WorkerStream
from .threads import Threads
from .watch import renew_leases, watch

logger = logging.getLogger(__name__)
READ_LIMIT = 10
"""Entries read at once at most (design §6)."""
HUNG_LIMIT = 3
"""Blocking reads in a row that may hang while the server answers PING (design §6)."""
WAKE_AGAIN = 0.1
"""Seconds between two tries to end a blocking read."""
GATHER = 0.004
"""Seconds that a busy worker lets slots gather before it reads, at most (`make bench`)."""
LAST_WORDS = 2.0
"""Seconds that a stopping worker gives its last acknowledgements."""
SAY_AGAIN = 30.0
"""Seconds between two lines of log about one outage."""


class Exit(IntEnum):
    """How the worker leaves (design §6)."""

    DRAINED = 0
    FAILED = 1
    UNFINISHED = 3
    STUCK = 4
    HUNG = 5
    NAME_TAKEN = 6
    REFUSED = 7


def _backoff() -> Backoff:
    return Backoff(settings.JOBS["BACKOFF_MIN"], settings.JOBS["BACKOFF_MAX"])


class Worker:
    """One consumer of the group. Call `run()` once; the other methods are for signal handlers.

    `drain`: leave as soon as nothing is due, instead of waiting for more.
    """

    def __init__(
        self, stream: WorkerStream, runner: Runner, sorter: Sorter,
        *, slots: int, grace: float, drain: bool = False,
    ) -> None:  # fmt: skip
        self._stream = stream
        self._runner = runner
        self._sorter = sorter
        self._slots = slots
        self._grace = grace
        self._drains = drain
        self._threads = Threads(slots)
        self._name = ConsumerName(stream)
        self._reclaim = Reclaim(stream)
        self._acknowledger = Acknowledger(stream, _backoff())
        self._held = Held(self._launch)
        self._ended: deque[tuple[Slot, Outcome]] = deque()
        self._collecting = False
        self._backoff = _backoff()
        self._cut_backoff = _backoff()
        self._away_since: float | None = None
        self._said_away_at = 0.0
        self._hung = 0
        self._unsorted: list[Entry] = []
        self._redelivered = False
        self._pending_after: str | None = "0"
        self._reading = False
        self._paused = False
        self._claimed = False
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._wake_reader = asyncio.Event()
        self._exit = Exit.DRAINED

    @property
    def is_stopping(self) -> bool:
        """Whether `stop()` was called, or the worker gave up by itself."""
        return self._stopping.is_set()

    @property
    def unfinished(self) -> int:
        """Jobs that still run: the interpreter would wait for their threads."""
        return self._held.unfinished()

    def stop(self, reason: Exit = Exit.DRAINED) -> None:
        """Read no more; `run()` returns once what runs has finished or the grace is over."""
        logger.info("stopping, %d running", self.unfinished, extra={"action": "stop"})
        self._exit = max(self._exit, reason)
        self._held.closed = True
        self._stopping.set()
        self._stop_waiting()

    def pause(self) -> None:
        """Read no more, finish what runs, and stay: a planned drain before a later stop."""
        logger.info("reads no more, %d held", len(self._held), extra={"action": "pause"})
        self._paused = True
        self._stop_waiting()

    def report(self) -> None:
        """Write down what every slot is doing."""
        logger.info("slots:\n%s", self._held.report(), extra={"action": "report"})

    async def run(self) -> Exit:
        """Work until `stop()` and return the exit code. Outages are waited out."""
        self._loop = asyncio.get_running_loop()
        await self._take_name()
        helpers = [self._start_helper(work) for work in self._helpers()]
        if not self.is_stopping:
            logger.info("worker %s is ready", self._stream.consumer, extra={"action": "start"})
        await self._read_until_stopped()
        await self._finish_what_runs()
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
        await self._take_leave()
        return self._exit

    def _helpers(self) -> Iterable[Coroutine[Any, Any, None]]:
        yield self._name.hold()
        yield self._acknowledger.run()
        yield self._end_blocking_reads()
        yield self._say_alive()
        yield renew_leases(self._stream, self._held, lambda: [entry.id for entry in self._unsorted])
        yield watch(self._held, lambda: self.stop(Exit.STUCK))
        if self._drains:
            yield self._stop_when_nothing_is_due()

    def _start_helper(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._helper_ended)
        return task

    def _helper_ended(self, task: asyncio.Task[None]) -> None:
        # A worker that reads on without its acknowledgements or its name does harm.
        if not task.cancelled() and (error := task.exception()):
            self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        if isinstance(error, NameLost):
            logger.error("%s", error_line(error), extra={"action": "stop"})
            return self.stop(Exit.NAME_TAKEN)
        if _refused(error):
            logger.error("refused by a server: %s", error_line(error), extra={"action": "stop"})
            return self.stop(Exit.REFUSED)
        logger.error("a part of the worker failed: %s", error_line(error), exc_info=error)
        return self.stop(Exit.FAILED)

    # Reading

    async def _read_until_stopped(self) -> None:
        while not self.is_stopping:
            try:
                await self._turn()
            except Exception as error:
                await self._after_error(error)
            else:
                self._backoff.reset()

    async def _turn(self) -> None:
        if self._held.interrupted:
            slot = self._held.interrupted[0]
            await self._wait_out(f"{slot.kind.name}: {slot.error}", self._cut_backoff)
        elif self._unsorted:
            await self._admit()
        elif self._reclaim.trimmed:
            await self._threads.look_up(conclusion.make_due_again, self._reclaim.trimmed)
            self._reclaim.trimmed = []
        else:
            await self._read(min(READ_LIMIT, await self._free_slots()))

    async def _free_slots(self) -> int:
        # Short jobs free more slots within moments: one read and one look-up for several.
        if 0 < self._slots - len(self._held) < self._slots // 2:
            await asyncio.sleep(GATHER)
        return self._slots - len(self._held)

    async def _read(self, count: int) -> None:
        await self._name.ensure()
        if count == 0 or self._paused:
            # XREADGROUP takes COUNT 0 to mean without limit: with no free slot nothing is sent.
            self._changed.clear()
            await self._changed.wait()
        elif self._pending_after is not None:
            await self._read_pending(self._pending_after, count)
        elif self._reclaim.due:
            # Before new entries: under backlog it would never find a free slot.
            self._take(await self._reclaim.step(count), redelivered=True)
            failpoint("worker.reclaimed")
        else:
            self._take(await self._read_new(count), redelivered=False)
            self._say_back()

    async def _read_pending(self, after: str, count: int) -> None:
        entries = await self._stream.read_pending(after, count)
        self._take(entries, redelivered=True)
        self._pending_after = entries[-1].id if entries else None

    async def _read_new(self, count: int) -> list[Entry]:
        self._reading = True
        try:
            entries = await self._stream.read_new(count)
        except BaseException:
            # What a lost answer held was delivered: only the pending list knows of it now.
            self._pending_after = "0"
            raise
        finally:
            self._reading = False
        self._hung = 0
        return entries

    def _take(self, entries: list[Entry], redelivered: bool) -> None:
        self._unsorted = [entry for entry in entries if not self._knows(entry.id)]
        self._redelivered = redelivered
        if self._unsorted:
            failpoint("worker.read")

    def _knows(self, entry_id: str) -> bool:
        return entry_id in self._held or entry_id in self._acknowledger

    async def _admit(self) -> None:
        found = await self._threads.look_up(self._sorter.sort, self._unsorted, self._redelivered)
        failpoint("worker.sorted")
        self._unsorted = []
        self._acknowledger.settle(found.concluded)
        for slot in found.runnable:
            self._held.admit(slot)

    # Running

    def _launch(self, slot: Slot) -> None:
        self._threads.run_job(lambda: self._work(slot))

    def _work(self, slot: Slot) -> None:
        # In a slot's thread. The loop is woken once for all that ended by then.
        self._ended.append((slot, self._runner.run(slot)))
        if not self._collecting:
            self._collecting = True
            with contextlib.suppress(RuntimeError):  # the loop of an abandoned thread is closed
                self._loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        self._collecting = False
        while self._ended:
            slot, outcome = self._ended.popleft()
            if self._held.settle(slot, outcome):
                self._cut_backoff.reset()
                self._acknowledger.settle([slot.entry.id])
        if self._held.interrupted:
            self._stop_waiting()
        self._changed.set()

    # Outages

    async def _after_error(self, error: Exception) -> None:
        if isinstance(error, NameLost) or _refused(error):
            return self._give_up(error)
        if isinstance(error, StreamHung) and await self._is_hung():
            logger.error("%d blocking reads hung, PING is answered", HUNG_LIMIT)
            return self.stop(Exit.HUNG)
        if isinstance(error, NoGroup):
            await self._make_group()
        elif not outage.is_outage(error):
            logger.error("the loop failed: %s", error_line(error), exc_info=error)
        return await self._wait_out(error_line(error), self._backoff)

    async def _is_hung(self) -> bool:
        with contextlib.suppress(StreamAway):
            await self._stream.ping()
            self._hung += 1
        return self._hung >= HUNG_LIMIT

    async def _make_group(self) -> None:
        try:
            await self._stream.ensure_group()
            self._pending_after = "0"
        except StreamRefused as error:
            self._give_up(error)
        except StreamAway as error:
            logger.debug("no group yet: %s", error_line(error))

    async def _wait_out(self, reason: str, backoff: Backoff) -> None:
        """Read nothing until both servers answer, then run again what the outage cut."""
        self._say_away(reason)
        while not self.is_stopping:
            await self._pause_for(backoff.pause())
            try:
                await self._stream.ping()
                await self._threads.look_up(processes.ask_database)
            except Exception as error:
                if _refused(error):
                    return self._give_up(error)
                self._say_away(error_line(error))
            else:
                break
        return self._held.resume()

    def _say_away(self, reason: str) -> None:
        now = time.monotonic()
        if self._away_since is None or now - self._said_away_at > SAY_AGAIN:
            self._said_away_at = now
            logger.warning("reads nothing for now: %s", reason, extra={"action": "back off"})
        self._away_since = self._away_since or now

    def _say_back(self) -> None:
        if self._away_since is not None:
            seconds = time.monotonic() - self._away_since
            logger.info("reads again after %.1f s", seconds, extra={"action": "back"})
            self._away_since = None

    async def _pause_for(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    # Helpers

    async def _take_name(self) -> None:
        deadline = time.monotonic() + settings.JOBS["NAME_WAIT"]
        while not self.is_stopping:
            try:
                if await self._name.claim():
                    self._claimed = True
                    await self._stream.ensure_group()
                    return
                if time.monotonic() > deadline:
                    raise NameLost(f"the name {self._stream.consumer} is taken by another worker")
                await self._pause_for(settings.JOBS["NAME_TTL"] / 20)
            except Exception as error:
                if not isinstance(error, NameLost):
                    deadline = time.monotonic() + settings.JOBS["NAME_WAIT"]
                await self._after_error(error)

    def _stop_waiting(self) -> None:
        self._changed.set()
        self._wake_reader.set()

    async def _end_blocking_reads(self) -> None:
        while True:
            await self._wake_reader.wait()
            self._wake_reader.clear()
            # Again and again: the first may overtake the read that it is to end.
            while self._reading and (self.is_stopping or self._paused or self._held.interrupted):
                with contextlib.suppress(StreamAway, StreamRefused):
                    await self._stream.wake_reader()
                await asyncio.sleep(WAKE_AGAIN)

    async def _say_alive(self) -> None:
        answered = True
        while True:
            status = f"{len(self._held)} of {self._slots} slots busy"
            status += ", reads no more" if self._paused else ""
            try:
                await self._threads.look_up(
                    processes.say_alive, "worker", self._stream.consumer, status
                )
                answered = True
            except Exception as error:
                if _refused(error):
                    raise
                if answered:
                    logger.warning("PostgreSQL does not answer: %s", error_line(error))
                answered = False
            await asyncio.sleep(settings.JOBS["HEARTBEAT"])

    async def _stop_when_nothing_is_due(self) -> None:
        while True:
            await asyncio.sleep(WAKE_AGAIN)
            idle = not self._held and not self._unsorted and self._acknowledger.empty
            with contextlib.suppress(Exception):  # an outage is waited out by the loop
                if idle and not await self._threads.look_up(outbox.any_due):
                    return self.stop()

    # The end

    async def _finish_what_runs(self) -> None:
        deadline = time.monotonic() + self._grace
        while self._held.at_work() and (left := deadline - time.monotonic()) > 0:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(left, 1.0))
        await self._acknowledger.flush(LAST_WORDS)
        if self._held.left() or self._unsorted:
            await self._hand_back()

    async def _hand_back(self) -> None:
        left = self._held.left()
        logger.warning("%d jobs handed back unfinished", len(left) + len(self._unsorted))
        self._exit = max(self._exit, Exit.UNFINISHED)
        started = [slot.outbox_id for slot in left if slot.start_noted and not slot.stuck]
        with contextlib.suppress(Exception):  # counted once too often: at worst dead too early
            if started:
                await self._threads.look_up(conclusion.take_back_starts, started)
        entry_ids = [slot.entry.id for slot in left] + [entry.id for entry in self._unsorted]
        with contextlib.suppress(Exception):  # they are reclaimed when their lease is over
            await self._stream.hand_back(entry_ids)
        failpoint("worker.handed_back")

    async def _take_leave(self) -> None:
        with contextlib.suppress(Exception):
            await self._stream.release_name()
        if self._claimed:
            with contextlib.suppress(Exception):
                await self._threads.look_up(processes.say_gone, "worker", self._stream.consumer)
        with contextlib.suppress(Exception):
            await self._stream.close()
        if self.unfinished:
            self._threads.abandon()
        else:
            await asyncio.to_thread(self._threads.close)
        logger.info("left: %s", self._exit.name.lower(), extra={"action": "stop"})


def _refused(error: BaseException) -> bool:
    return isinstance(error, StreamRefused) or outage.is_refusal(error)
