"""The worker: one asyncio loop that reads entries into free slots, and acknowledges on outcomes."""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Coroutine, Iterable
from typing import Any

from django.conf import settings

from . import concluded, metrics, outage, outbox, processes
from .acknowledger import Acknowledger
from .consumer_name import ConsumerName
from .exits import Exit
from .failpoint import failpoint
from .held import Held
from .intake import Intake
from .notify import Notifier
from .pulse import TICK, Pulse
from .reading import Reading, ReadsHang
from .runner import Outcome, Runner
from .slot import Slot
from .sorting import Sorter
from .stream import Leases, NameLost, NoGroup, StreamAway, WorkerStream
from .threads import Threads
from .waiting import Waiting, is_refusal, new_backoff
from .watch import renew_leases, say_alive, watch

logger = logging.getLogger(__name__)
READ_LIMIT = 10
"""Entries read at once at most (design §6)."""
GATHER = 0.001
"""Seconds that a busy worker lets slots gather before it reads, at most (`make bench`)."""
LOOK_AGAIN = 0.1
"""Seconds between two looks: of a draining worker for what is due, of a full one for calls that
have become slow."""
STATUS_LENGTH = 200
"""Characters that `jobs_process` has room for."""
LAST_WORDS = 2.0
"""Seconds that a stopping worker gives its last acknowledgements."""


class Worker:
    """One consumer of the group. Call `run()` once; the other methods are for signal handlers.

    `drain`: leave as soon as nothing is due, instead of waiting for more. `notifier` tells the
    service manager of every turn.
    """

    def __init__(
        self, stream: WorkerStream, runner: Runner, sorter: Sorter,
        *, slots: int, grace: float, drain: bool = False,
        notifier: Notifier | None = None, pulse: Pulse | None = None,
    ) -> None:  # fmt: skip
        self._stream = stream
        self._runner = runner
        self._slots = slots
        self._grace = grace
        self._drains = drain
        self._notifier = notifier or Notifier()
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._threads = Threads(slots)
        self._held = Held(self._launch, slots)
        self._acknowledger = Acknowledger(stream, new_backoff())
        self._pulse = pulse or Pulse(TICK)
        self._name = ConsumerName(stream)
        self._reading = Reading(stream, self._name, self._knows, self._must_look_up)
        self._intake = Intake(self._reading, sorter, self._threads, self._held, self._acknowledger)
        self._waiting = Waiting(self._probe, self._stopping, self._say_turned)
        self._backoff = new_backoff()
        self._ended: deque[tuple[Slot, Outcome]] = deque()
        self._collecting = False
        self._paused = False
        self._claimed = False
        self._deadline = 0.0
        self.exit = Exit.DRAINED
        """How it leaves, as far as it is known."""

    @property
    def is_stopping(self) -> bool:
        """Whether `stop()` was called, or the worker gave up by itself."""
        return self._stopping.is_set()

    @property
    def unfinished(self) -> int:
        """Threads that still run: the interpreter would wait for them."""
        return self._held.unfinished() + self._threads.left_behind

    def stop(self, reason: Exit = Exit.DRAINED) -> None:
        """Read no more; `run()` returns once what runs has finished or the grace is over."""
        logger.info("stopping, %d running", self._held.unfinished(), extra={"action": "stop"})
        self._notifier.stopping(f"stopping, {self._held.unfinished()} running")
        self.exit = max(self.exit, reason)
        self._deadline = self._deadline or time.monotonic() + self._grace
        self._held.closed = True
        self._stopping.set()
        self._wake_up()

    def pause(self) -> None:
        """Read no more, finish what runs, and stay: a planned drain before a later stop."""
        logger.info("reads no more, %d held", len(self._held), extra={"action": "pause"})
        self._paused = True
        self._wake_up()

    def report(self) -> None:
        """Write down what every slot is doing."""
        logger.info("slots:\n%s", self._held.report(), extra={"action": "report"})

    async def run(self) -> Exit:
        """Work until `stop()` and return the exit code. Outages are waited out."""
        self._loop = asyncio.get_running_loop()
        metrics.SLOTS.set(self._slots)
        watcher = self._start_helper(self._watch())
        await self._get_ready()
        reading = self._start_helper(self._read_until_stopped())
        helpers = [watcher, reading, *(self._start_helper(work) for work in self._helpers())]
        if not self.is_stopping:
            logger.info("worker %s is ready", self._stream.consumer, extra={"action": "start"})
            self._notifier.ready(self._status())
        await self._stopping.wait()
        await self._finish_what_runs(reading)
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
        await self._hand_back()
        await self._take_leave()
        return self.exit

    # Helpers: what goes on beside the reading

    def _helpers(self) -> Iterable[Coroutine[Any, Any, None]]:
        yield self._name.hold()
        yield self._acknowledger.run()
        yield self._reading.serve_interrupts()
        yield say_alive(self._threads, self._stream.consumer, self._doing)
        yield renew_leases(self._stream, self._renewable, self._lose)
        if self._drains:
            yield self._stop_when_nothing_is_due()

    def _watch(self) -> Coroutine[Any, Any, None]:
        return watch(self._held, self._pulse, self._changed.set, lambda: self.stop(Exit.STUCK))

    def _start_helper(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._helper_ended)
        return task

    def _helper_ended(self, task: asyncio.Task[None]) -> None:
        # A worker that reads on without its acknowledgements or its name does harm.
        if not task.cancelled() and (error := task.exception()):
            self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        code = Exit.of(error)
        what = "refused by a server" if code is Exit.REFUSED else "this worker ends"
        trace = error if code is Exit.FAILED else None
        logger.error("%s: %s", what, outage.told(error), exc_info=trace, extra={"action": "stop"})
        self.stop(code)

    def _renewable(self) -> list[str]:
        return [*self._held.renewable(), *self._intake.unsorted]

    def _lose(self, leases: Leases) -> None:
        if leases.lost or leases.trimmed:
            self._intake.lose(leases)
            self._wake_up()

    def _status(self) -> str:
        parts = [f"{len(self._held)} of {self._slots} slots busy"]
        if self._held:
            parts.append(f"oldest job {self._held.oldest():.0f} s")
        if self._paused:
            parts.append("reads no more")
        if self._waiting.reason:
            parts.append(f"waits: {self._waiting.reason}")
        return ", ".join(parts)[:STATUS_LENGTH]

    def _say_turned(self) -> None:
        # Called by the loops alone: a timer or a thread would feed the watchdog of a frozen worker.
        if self._notifier.due and not self._held.stuck():
            self._notifier.turned(self._status())

    def _doing(self) -> tuple[str, int, int]:
        # Slots that take nothing new are no help to what waits.
        slots = 0 if self._paused else self._slots
        return self._status(), slots, len(self._held)

    async def _stop_when_nothing_is_due(self) -> None:
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            idle = not self._held and not self._intake.unsorted and self._acknowledger.empty
            with contextlib.suppress(Exception):  # an outage is waited out by the loop
                if idle and not await self._threads.look_up(outbox.any_due):
                    return self.stop()

    # Reading

    async def _get_ready(self) -> None:
        deadline = time.monotonic() + settings.JOBS["NAME_WAIT"]
        while not self.is_stopping:
            try:
                if await self._name.claim():
                    await self._meet_servers()
                    return
                if time.monotonic() > deadline:
                    raise NameLost(f"the name {self._stream.consumer} is taken by another worker")
                await self._waiting.pause(settings.JOBS["NAME_TTL"] / 20)
            except Exception as error:
                if not isinstance(error, NameLost):
                    deadline = time.monotonic() + settings.JOBS["NAME_WAIT"]
                await self._after_error(error)

    async def _meet_servers(self) -> None:
        self._claimed = True
        await self._stream.ensure_group()
        await self._threads.look_up(processes.ask_database)

    async def _read_until_stopped(self) -> None:
        while not self.is_stopping:
            self._say_turned()
            try:
                await self._turn()
            except Exception as error:
                await self._after_error(error)

    async def _turn(self) -> None:
        if self._held.interrupted:
            await self._go_on_with(self._held.take_interrupted())
        elif self._intake.unsorted:
            await self._intake.admit()
        elif self._intake.has_debts:
            await self._intake.pay_debts()
        elif self._held.crowded():
            await self._intake.make_room()
        elif (free := await self._free_slots()) == 0 or self._paused:
            # XREADGROUP takes COUNT 0 to mean without limit: with no free slot nothing is sent.
            self._changed.clear()
            if not self._must_look_up():
                await self._change()
        elif await self._intake.read(min(READ_LIMIT, free)):
            # Not after other reads: they succeed while new entries cannot be had.
            self._waiting.over()
            self._backoff.reset()

    async def _change(self) -> None:
        # Nothing tells when a call that others wait for has become slow.
        seconds = LOOK_AGAIN if self._held.waits_for_room else None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    def _must_look_up(self) -> bool:
        """Whether a turn has something else to do than to wait for a slot or an entry."""
        return bool(self.is_stopping or self._held.interrupted or self._intake.has_debts)

    async def _free_slots(self) -> int:
        # Short jobs free more slots within moments: one read and one look-up for several.
        if 0 < self._slots - len(self._held) < self._slots // 2:
            await asyncio.sleep(GATHER)
        return self._slots - len(self._held)

    def _knows(self, entry_id: str) -> bool:
        return entry_id in self._held or entry_id in self._acknowledger

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
                self._acknowledger.settle([slot.entry.id])
            elif slot.fatal:
                self._give_up(slot.fatal)
        if self._held.interrupted:
            self._wake_up()
        self._changed.set()

    def _wake_up(self) -> None:
        """Something happened that a loop must see which waits for a slot or an entry."""
        self._changed.set()
        self._reading.interrupt()

    # Outages

    async def _go_on_with(self, cut: list[Slot]) -> None:
        """An outage runs them again when it is over; without one each waits for itself alone."""
        try:
            await self._probe()
        except Exception as error:
            if is_refusal(error):
                raise
            await self._waiting.out(f"{cut[0].kind.name}: {cut[0].told}", self._backoff)
            for slot in cut:
                self._held.run_again(slot)
        else:
            for slot in cut:
                slot.cuts += 1
                if slot.cuts & (slot.cuts - 1) == 0:
                    logger.warning("undecided %d times: %s", slot.cuts, slot.told)
                self._loop.call_later(self._backoff.after(slot.cuts), self._held.run_again, slot)

    async def _probe(self) -> None:
        await self._stream.ping()
        await self._threads.look_up(processes.ask_database)

    async def _after_error(self, error: Exception) -> None:
        if isinstance(error, NameLost | ReadsHang) or is_refusal(error):
            return self._give_up(error)
        if not outage.is_outage(error):
            logger.error("the loop failed: %s", outage.told(error), exc_info=error)
        try:
            if isinstance(error, NoGroup):
                with contextlib.suppress(StreamAway):
                    await self._reading.make_group()
            await self._waiting.out(outage.told(error), self._backoff)
        except Exception as refusal:
            self._give_up(refusal)
        return None

    # The end

    async def _finish_what_runs(self, reading: asyncio.Task[None]) -> None:
        while self._held.at_work() and (left := self._deadline - time.monotonic()) > 0:
            self._changed.clear()
            self._say_turned()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(left, 1.0))
        # A read that is cancelled would orphan what it was given.
        await asyncio.wait({reading}, timeout=LAST_WORDS)
        await self._acknowledger.flush(LAST_WORDS)

    async def _hand_back(self) -> None:
        entry_ids = [slot.entry.id for slot in self._held.left()] + self._intake.unsorted
        if not entry_ids:
            return
        logger.warning("%d jobs handed back unfinished", len(entry_ids))
        self.exit = max(self.exit, Exit.UNFINISHED)
        with contextlib.suppress(Exception):  # else they are reclaimed when their lease is over
            self._intake.lose(await self._stream.hand_back(entry_ids))
            self._note_handed_back()
        self._held.uncounted += [
            slot.outbox_id for slot in self._held.left() if slot.start_noted and not slot.stuck
        ]
        # Not for long: the service manager waits. A start that stays is one of three.
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._intake.pay_debts(), LAST_WORDS)
        failpoint("worker.handed_back")

    def _note_handed_back(self) -> None:
        for slot in self._held.left():
            about, job = slot.about(self._stream.consumer), slot.job
            concluded.note_unrun(about, "handed_back", job.request_id, job.trace)

    async def _take_leave(self) -> None:
        with contextlib.suppress(Exception):
            await self._stream.release_name()
        if self._claimed and self.exit is not Exit.NAME_TAKEN:
            with contextlib.suppress(Exception):
                gone = self._threads.look_up(processes.say_gone, "worker", self._stream.consumer)
                await asyncio.wait_for(gone, LAST_WORDS)
        with contextlib.suppress(Exception):
            await self._stream.close()
        if self.unfinished:
            self._threads.abandon()
        else:
            await asyncio.to_thread(self._threads.close)
        logger.info("left: %s", self.exit.name.lower(), extra={"action": "stop"})
