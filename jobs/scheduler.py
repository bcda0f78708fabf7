"""The scheduler: has every due time of every schedule decided. Any number may run."""

import contextlib
import logging
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from . import cursors, filling, outage, processes, samples
from .backoff import Backoff
from .correlation import accept_request_id, accept_trace, correlated
from .cursors import Cursor
from .due_slots import DueSlot, is_due, next_due
from .notify import Notifier
from .pulse import Pulse
from .schedule import Schedule
from .stopping import Stop

logger = logging.getLogger(__name__)
LOOK_AGAIN = 0.5
"""Seconds after which a scheduler looks whether what another was at is done."""

CLOCK_BACK = timedelta(minutes=1)
"""A cursor that is so far ahead of the clock goes back with it: else a clock that was a year ahead
for a moment would silence every schedule for a year."""


@dataclass
class Step:
    """What one step did: the slots that it wrote; `busy`: others were at a schedule.

    `failed`: names of those that could not be decided. `began`: the monotonic time of `now`.
    """

    now: datetime
    began: float = field(default_factory=time.monotonic)
    written: list[tuple[Schedule, DueSlot]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    busy: bool = False


def step(schedules: Sequence[Schedule], by: str, now: datetime | None = None) -> Step:
    """Decide all that is due up to `now`, which is PostgreSQL's time unless a test says another.

    Raises a database error; what was decided before it stays. A schedule whose job cannot be
    written is logged, keeps its cursor, and does not keep the others.
    """
    done = Step(now or filling.clock())
    known = cursors.read(schedules, done.now)
    quiet = []
    for schedule in schedules:
        until = known[schedule.name].decided_until
        if is_due(schedule, until, done.now):
            _fill(schedule, known[schedule.name], by, done)
        elif until < done.now or _went_back(schedule, until - done.now):
            quiet.append(schedule)
    cursors.move(quiet, known, done.now)
    return done


def _went_back(schedule: Schedule, ahead: timedelta) -> bool:
    # Less is another scheduler that looked at the clock a moment later: its decisions stand.
    if ahead < CLOCK_BACK:
        return False
    logger.warning("schedule %s: the clock went back by %s", schedule.name, ahead)
    return True


def _fill(schedule: Schedule, known: Cursor, by: str, done: Step) -> None:
    try:
        with correlated(accept_request_id(""), accept_trace("")):
            written = filling.fill_slots(schedule, known, done.now, by)
            for slot in written or ():
                _log(schedule, slot)
    except Exception as error:
        if outage.is_outage(error) or outage.is_refusal(error):
            raise
        logger.exception("schedule %s cannot be decided", schedule.name)
        done.failed.append(schedule.name)
        return
    if written is None:
        done.busy = True
    else:
        done.written += [(schedule, slot) for slot in written]


def _log(schedule: Schedule, slot: DueSlot) -> None:
    level = logging.INFO if slot.result.fires else logging.WARNING
    logger.log(
        level, "schedule %s: %d due at %s UTC %s, %.1f s late",
        schedule.name, slot.count, f"{slot.due_at:%Y-%m-%d %H:%M}", slot.result, slot.seconds_late,
        extra={"action": "fired" if slot.result.fires else "not fired", "kind": schedule.kind},
    )  # fmt: skip


class Scheduler:
    """Repeats `step()`: at each due time, and every SCHEDULE_POLL seconds.

    `notifier` tells the service manager of every turn.
    """

    def __init__(
        self, schedules: Sequence[Schedule], name: str = "", notifier: Notifier | None = None
    ) -> None:
        self._schedules = schedules
        self._name = name or f"{socket.gethostname()}-{os.getpid()}"
        self._notifier = notifier or Notifier()
        self._status = "starting"
        self._every: float = min(settings.JOBS["SCHEDULE_POLL"], settings.JOBS["HEARTBEAT"])
        self.pulse = Pulse(max(self._every, settings.JOBS["BACKOFF_MAX"]))
        """Of its loop, which waits for so long at most where all is well."""
        self._stop = Stop()
        self._backoff = Backoff(settings.JOBS["BACKOFF_MIN"], settings.JOBS["BACKOFF_MAX"])

    def stop(self) -> None:
        """Make `run()` return after its present step; may be called from a signal handler."""
        self._stop.ask()

    def run(self) -> None:
        """Schedule until `stop()`. Outages are waited out; a refusal is raised."""
        logger.info("scheduler %s starts", self._name, extra={"action": "start"})
        with contextlib.suppress(Exception):
            processes.forget_lost()
        while not self._stop.asked:
            # By the loop itself, also while it backs off: not by a timer.
            self.pulse.beat()
            if self._notifier.due:
                self._notifier.turned(self._status)
            try:
                self._turn()
            except Exception as error:
                if outage.is_refusal(error):
                    raise
                self._back_off(error)
        self._notifier.stopping("stopping")
        with contextlib.suppress(Exception):
            processes.say_gone("scheduler", self._name)
        logger.info("scheduler %s stops", self._name, extra={"action": "stop"})

    def _turn(self) -> None:
        done = step(self._schedules, self._name)
        cursors.forget(self._schedules, done.now, settings.JOBS["SCHEDULE_FORGET"])
        self._status = f"{len(self._schedules)} schedules"
        processes.say_alive("scheduler", self._name, self._status)
        self._backoff.reset()
        self._notifier.ready(self._status)
        # After the slots: it may wait for a server.
        samples.take(done.now)
        self._stop.wait(self._seconds_after(done))

    def _seconds_after(self, done: Step) -> float:
        dues = [next_due(schedule, done.now) for schedule in self._schedules]
        passed = time.monotonic() - done.began
        until = ((due - done.now).total_seconds() - passed for due in dues if due)
        return max(0.0, min(*until, self._every, LOOK_AGAIN if done.busy else self._every))

    def _back_off(self, error: Exception) -> None:
        self._status = f"backs off: {outage.told(error)}"
        logger.warning("scheduler %s", self._status, extra={"action": "back off"})
        connection.close()
        self._stop.wait(self._backoff.pause())
