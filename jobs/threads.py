"""The worker's threads, each with its own database connection.

Jobs that take a millisecond run faster one after the other than side by side: eight threads of
one interpreter spend more on handing over its lock than on the jobs (`make bench`). So a waiting
job wakes a thread at once only if none is at work, and the loop wakes one for each that still
waits SPREAD seconds later.
"""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import close_old_connections, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

SPREAD = 0.002
"""Seconds that a job may wait for a thread that is at work (`make bench`)."""


class Threads:
    """`slots` threads for jobs, and one for the worker's own look at the database.

    Made, and called, in the loop's thread.
    """

    def __init__(self, slots: int) -> None:
        self._connections: list[BaseDatabaseWrapper] = []
        self._waiting: deque[Callable[[], None]] = deque()
        self._wakes: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._at_work = 0
        self._lock = threading.Lock()
        self._spreading = False
        # Daemons: the interpreter must not wait for a job that never returns.
        self._slots = [
            threading.Thread(target=self._serve, name=f"slot-{number}", daemon=True)
            for number in range(slots)
        ]
        for thread in self._slots:
            thread.start()
        # Look-ups must not queue behind the jobs that fill every slot's thread.
        self._lookups = ThreadPoolExecutor(1, "lookup", self._adopt_connection)

    def run_job(self, work: Callable[[], None]) -> None:
        """Call `work`, which must not raise, in a slot's thread."""
        self._waiting.append(work)
        if self._at_work == 0:
            self._wakes.put(True)
        if not self._spreading:
            self._spread_later()

    def _spread_later(self) -> None:
        self._spreading = True
        asyncio.get_running_loop().call_later(SPREAD, self._spread)

    def _spread(self) -> None:
        self._spreading = False
        if self._waiting:
            self._wakes.put(True)
            self._spread_later()

    def _serve(self) -> None:
        self._adopt_connection()
        while self._wakes.get():
            self._count(1)
            while work := self._next():
                work()
            self._count(-1)

    def _next(self) -> Callable[[], None] | None:
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    def _count(self, change: int) -> None:
        with self._lock:
            self._at_work += change

    async def look_up[R](self, function: Callable[..., R], *args: Any) -> R:
        """The answer of `function`, which asks the database. Raises what it raises."""
        return await asyncio.get_running_loop().run_in_executor(
            self._lookups, _with_good_connection, function, *args
        )

    def close(self) -> None:
        """Wait for every thread and close its connection: a thread cannot when it ends."""
        self._lookups.shutdown()
        for _ in self._slots:
            self._wakes.put(False)
        for thread in self._slots:
            thread.join()
        for kept in self._connections:
            kept.close()

    def abandon(self) -> None:
        """Leave the threads that still run to the end of the process."""
        for _ in self._slots:
            self._wakes.put(False)

    def _adopt_connection(self) -> None:
        connection.inc_thread_sharing()
        self._connections.append(connections[connection.alias])


def _with_good_connection[R](function: Callable[..., R], *args: Any) -> R:
    close_old_connections()
    try:
        return function(*args)
    finally:
        close_old_connections()
