"""The relay: moves due outbox rows to the stream. Any number of relays may run."""

import contextlib
import logging
import os
import socket
import time

import psycopg
from django.conf import settings
from django.db import connection

from . import dead_letters, holds, metrics, outage, outbox, processes, tally
from .backoff import Backoff
from .notify import Notifier
from .publishing import reconcile, step
from .pulse import Pulse
from .stopping import Stop
from .stream import Letters, RelayStream, StreamRefused
from .tally import State

logger = logging.getLogger(__name__)
COUNT_AGAIN = 1.0
"""Seconds between two counts of what is out."""
SAY_AGAIN = 60.0
"""Seconds between two lines of log about one hold."""


class Pressure:
    """How many rows may be published before workers have done others (design §7).

    Counted in the outbox, at most once a second: the group's own `lag` is wrong after any trim.
    The count is kept for others (`tally`).
    """

    def __init__(self) -> None:
        self._count = 0
        self._counted_at = float("-inf")
        self._said_at = float("-inf")

    def room(self) -> int:
        """Rows that may be published now; 0: hold."""
        now = time.monotonic()
        if now - self._counted_at >= COUNT_AGAIN:
            self._count = tally.count_and_keep().number(State.RELAYED)
            self._counted_at = now
        room = max(0, int(settings.JOBS["MARK"]) - self._count)
        metrics.RELAY_HOLDS.set(not room)
        if not room and now - self._said_at >= SAY_AGAIN:
            self._said_at = now
            logger.warning(
                "holds: %d rows are relayed and not done", self._count, extra={"action": "hold"}
            )
        return room

    def count_again(self) -> None:
        """All was made due: what was counted is no longer out."""
        self._counted_at = float("-inf")

    def add(self, number: int) -> None:
        """So many were published since the count."""
        self._count += number


class Relay:
    """Repeats `step()`: woken by NOTIFY, every second, and when the next row comes due.

    Holds while as many rows are relayed and not done as the stream keeps safely. `notifier` tells
    the service manager of every turn.
    """

    def __init__(
        self, stream: RelayStream, letters: Letters, name: str = "",
        notifier: Notifier | None = None,
    ) -> None:  # fmt: skip
        self._stream = stream
        self._letters = letters
        self._name = name or f"{socket.gethostname()}-{os.getpid()}"
        self._notifier = notifier or Notifier()
        self._status = "starting"
        self._stop = Stop()
        self._listener: psycopg.Connection | None = None
        self._batch = settings.JOBS["RELAY_BATCH"]
        self._backoff = Backoff(settings.JOBS["BACKOFF_MIN"], settings.JOBS["BACKOFF_MAX"])
        self._say_alive_at = 0.0
        self._reconcile_at = time.monotonic() + settings.JOBS["RECONCILE"]
        self._pressure = Pressure()
        self._group_sure = False
        self.pulse = Pulse(max(settings.JOBS["RELAY_POLL"], settings.JOBS["BACKOFF_MAX"]))
        """Of its loop, which waits for so long at most where all is well."""

    def stop(self) -> None:
        """Make `run()` return after its present step; may be called from a signal handler."""
        self._stop.ask()

    def run(self) -> None:
        """Relay until `stop()`. Outages are waited out; a refusal is raised."""
        logger.info("relay %s starts", self._name, extra={"action": "start"})
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
                if isinstance(error, StreamRefused) or outage.is_refusal(error):
                    raise
                self._back_off(error)
        self._notifier.stopping("stopping")
        with contextlib.suppress(Exception):
            processes.say_gone("relay", self._name)
        self._close_listener()
        logger.info("relay %s stops", self._name, extra={"action": "stop"})

    def _turn(self) -> None:
        self._listen()
        self._say_alive()
        # First: scrapes go by the count, also while the stream's server is away.
        self._pressure.room()
        if not self._group_sure:
            self._stream.ensure_group()
        known = self._stream.seen_epoch
        # With no room too: a memory that is lost while this relay holds must be noticed.
        moved = step(self._stream, min(self._batch, self._pressure.room()), self._name)
        self._pressure.add(moved)
        if self._stream.seen_epoch != known:
            self._pressure.count_again()
        self._reconcile()
        self._group_sure = True
        self._backoff.reset()
        self._say_ready()
        if moved < self._batch:
            self._wait(moved)
        self._batch = min(self._batch * 2, settings.JOBS["RELAY_BATCH"])

    def _say_ready(self) -> None:
        holds_back = not self._pressure.room()
        self._status = "holds: too many rows are relayed and not done" if holds_back else "relaying"
        self._notifier.ready(self._status)

    def _reconcile(self) -> None:
        if time.monotonic() < self._reconcile_at:
            return
        # First: what fails here must not keep the relay from publishing.
        self._reconcile_at = time.monotonic() + settings.JOBS["RECONCILE"]
        reconcile(self._stream)
        holds.forget_over()
        dead_letters.reconcile(self._letters)

    def _say_alive(self) -> None:
        now = time.monotonic()
        if now >= self._say_alive_at:
            processes.say_alive("relay", self._name, "relaying")
            self._say_alive_at = now + settings.JOBS["HEARTBEAT"]

    def _listen(self) -> None:
        if self._listener is None or self._listener.closed:
            self._listener = psycopg.connect(**connection.get_connection_params(), autocommit=True)
            self._listener.execute(f"LISTEN {outbox.CHANNEL}")

    def _wait(self, moved: int) -> None:
        held = holds.in_force()
        due = outbox.seconds_until_due([hold.kind for hold in held])
        poll = settings.JOBS["RELAY_POLL"]
        # A due row that did not move is locked by somebody: asking at once again would spin.
        least = 0.0 if moved else settings.JOBS["BACKOFF_MIN"]
        seconds = poll if due is None else min(max(due, least), poll)
        if self._listener is None or self._stop.asked:
            return
        for _ in self._listener.notifies(timeout=seconds, stop_after=1):
            pass
        for _ in self._listener.notifies(timeout=0):
            pass

    def _back_off(self, error: Exception) -> None:
        self._status = f"backs off: {outage.told(error)}"
        logger.warning("relay %s", self._status, extra={"action": "back off"})
        connection.close()
        self._close_listener()
        self._group_sure = False
        self._batch = max(1, self._batch // 2)
        self._stop.wait(self._backoff.pause())

    def _close_listener(self) -> None:
        if self._listener is not None:
            with contextlib.suppress(psycopg.Error):
                self._listener.close()
        self._listener = None
