"""The worker's threads, each with its own database connection.

Jobs that take a millisecond run faster on few threads than on many: threads of one interpreter
spend more on handing over its lock than on the jobs (`make bench`). So a waiting job wakes a thread
only while few have just begun one; behind slow jobs it never waits.
"""

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import OperationalError, close_old_connections, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

HOT_THREADS = 4
"""Threads that have just begun a job, above which another waiting job wakes none (`make bench`)."""
SPREAD = 0.01
"""Seconds for which a thread counts as having just begun; so long may a job wait (`make bench`)."""
LOOK_UP_LIMIT = 45.0
"""Seconds: STATEMENT_TIMEOUT_MS, which ends a slow statement on the server, and then some."""


class DatabaseHangs(OperationalError):
    """It neither answers nor fails, for longer than any statement may take there."""


class Threads:
    """`slots` threads for jobs, and one for the worker's own look at the database.

    Made, and called, in the loop's thread.
    """

    def __init__(self, slots: int) -> None:
        self._connections: list[BaseDatabaseWrapper] = []
        self._waiting: deque[Callable[[], None]] = deque()
        self._wakes: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._began = [0.0] * slots
        self._spreading = False
        self.left_behind = 0
        """Threads whose look-up hung: the interpreter would wait for them."""
        # Daemons: the interpreter must not wait for a job that never returns.
        self._slots = [
            threading.Thread(target=self._serve, args=(number,), name=f"slot-{number}", daemon=True)
            for number in range(slots)
        ]
        for thread in self._slots:
            thread.start()
        self._lookups = self._new_lookups()

    def run_job(self, work: Callable[[], None]) -> None:
        """Call `work`, which must not raise, in a slot's thread."""
        self._waiting.append(work)
        self._wake()

    def _wake(self) -> None:
        woken = self._wakes.qsize()
        for _ in range(min(HOT_THREADS - self._hot(), len(self._waiting)) - woken):
            self._wakes.put(True)
        if self._waiting and not self._spreading:
            self._spreading = True
            asyncio.get_running_loop().call_later(SPREAD, self._spread)

    def _hot(self) -> int:
        since = time.monotonic() - SPREAD
        return sum(began > since for began in self._began)

    def _spread(self) -> None:
        self._spreading = False
        if self._waiting:
            self._wake()

    def _serve(self, number: int) -> None:
        self._adopt_connection()
        while self._wakes.get():
            while work := self._next():
                self._began[number] = time.monotonic()
                work()
            self._began[number] = 0.0

    def _next(self) -> Callable[[], None] | None:
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    async def look_up[R](self, function: Callable[..., R], *args: Any) -> R:
        """The answer of `function`, which asks the database.

        Raises what it raises, or DatabaseHangs: the connection is left behind then.
        """
        answer = asyncio.get_running_loop().run_in_executor(
            self._lookups, _with_good_connection, function, *args
        )
        # Where nobody waits any more, at a stop or after the limit, how it failed is no news.
        answer.add_done_callback(lambda late: late.cancelled() or late.exception())
        done, _ = await asyncio.wait({answer}, timeout=LOOK_UP_LIMIT)
        if not done:
            self.left_behind += 1
            self._lookups.shutdown(wait=False)
            self._lookups = self._new_lookups()
            raise DatabaseHangs(f"PostgreSQL has not answered for {LOOK_UP_LIMIT:g} s")
        return answer.result()

    def _new_lookups(self) -> ThreadPoolExecutor:
        # Look-ups must not queue behind the jobs that fill every slot's thread.
        return ThreadPoolExecutor(1, "lookup", self._adopt_connection)

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
