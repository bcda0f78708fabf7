"""The relay: moves due outbox rows to the stream. Any number of relays may run."""

import contextlib
import logging
import os
import socket
import threading
import time

import psycopg
from django.conf import settings
from django.db import connection, transaction

from . import metrics, outage, outbox, processes
from .backoff import Backoff
from .errors import error_line
from .failpoint import failpoint
from .stream import RelayStream, StreamRefused

logger = logging.getLogger(__name__)


def step(stream: RelayStream, batch: int) -> int:
    """T2: publish up to `batch` due rows and return how many.

    Appends before it marks: a crash in between publishes twice, which is harmless; the other way
    round a row would be lost. Raises StreamAway or a database error, with nothing marked.
    """
    with transaction.atomic(durable=True):
        rows = outbox.lock_due(batch)
        if not rows:
            return 0
        entry_ids = stream.append([row.fields() for row in rows])
        failpoint("relay.appended", rows[0].kind)
        outbox.mark_relayed(dict(zip((row.id for row in rows), entry_ids, strict=True)))
    metrics.JOBS_RELAYED.inc(len(rows))
    for row, entry_id in zip(rows, entry_ids, strict=True):
        _log(row, entry_id)
    return len(rows)


def _log(row: outbox.DueRow, entry_id: str) -> None:
    logger.info(
        "relayed %s",
        row.kind,
        extra={
            "action": "relayed",
            "kind": row.kind,
            "outbox_id": row.id,
            "entry_id": entry_id,
            "request_id": row.request_id,
            "trace": row.trace,
        },
    )


class Relay:
    """Repeats `step()`: woken by NOTIFY, every second, and when the next row comes due."""

    def __init__(self, stream: RelayStream, name: str = "") -> None:
        self._stream = stream
        self._name = name or f"{socket.gethostname()}-{os.getpid()}"
        self._stopping = threading.Event()
        self._listener: psycopg.Connection | None = None
        self._batch = settings.JOBS["RELAY_BATCH"]
        self._backoff = Backoff(settings.JOBS["BACKOFF_MIN"], settings.JOBS["BACKOFF_MAX"])
        self._say_alive_at = 0.0
        self._group_sure = False

    def stop(self) -> None:
        """Make `run()` return after its present step; may be called from a signal handler."""
        self._stopping.set()

    def run(self) -> None:
        """Relay until `stop()`. Outages are waited out; a refusal is raised."""
        logger.info("relay %s starts", self._name, extra={"action": "start"})
        with contextlib.suppress(Exception):
            processes.forget_lost()
        while not self._stopping.is_set():
            try:
                self._turn()
            except Exception as error:
                if isinstance(error, StreamRefused) or outage.is_refusal(error):
                    raise
                self._back_off(error)
        with contextlib.suppress(Exception):
            processes.say_gone("relay", self._name)
        self._close_listener()
        logger.info("relay %s stops", self._name, extra={"action": "stop"})

    def _turn(self) -> None:
        self._listen()
        self._say_alive()
        if not self._group_sure:
            self._stream.ensure_group()
        moved = step(self._stream, self._batch)
        self._group_sure = True
        self._backoff.reset()
        if moved < self._batch:
            self._wait(moved)
        self._batch = min(self._batch * 2, settings.JOBS["RELAY_BATCH"])

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
        due = outbox.seconds_until_due()
        poll = settings.JOBS["RELAY_POLL"]
        # A due row that did not move is locked by somebody: asking at once again would spin.
        least = 0.0 if moved else settings.JOBS["BACKOFF_MIN"]
        seconds = poll if due is None else min(max(due, least), poll)
        if self._listener is None or self._stopping.is_set():
            return
        for _ in self._listener.notifies(timeout=seconds, stop_after=1):
            pass
        for _ in self._listener.notifies(timeout=0):
            pass

    def _back_off(self, error: Exception) -> None:
        logger.warning("relay backs off: %s", error_line(error), extra={"action": "back off"})
        connection.close()
        self._close_listener()
        self._group_sure = False
        self._batch = max(1, self._batch // 2)
        self._stopping.wait(self._backoff.pause())

    def _close_listener(self) -> None:
        if self._listener is not None:
            with contextlib.suppress(psycopg.Error):
                self._listener.close()
        self._listener = None
