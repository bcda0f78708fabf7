"""The worker's threads, each with its own database connection."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from django.db import close_old_connections, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper


class Threads:
    """`slots` threads for jobs, and one for the worker's own look at the database."""

    def __init__(self, slots: int) -> None:
        self._connections: list[BaseDatabaseWrapper] = []
        self._slots = ThreadPoolExecutor(slots, "slot", self._adopt_connection)
        # Look-ups must not queue behind the jobs that fill every slot's thread.
        self._lookups = ThreadPoolExecutor(1, "lookup", self._adopt_connection)

    def run_job[**P, R](
        self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> Future[R]:
        """Call `function` in a slot's thread."""
        return self._slots.submit(function, *args, **kwargs)

    async def look_up[R](self, function: Callable[..., R], *args: Any) -> R:
        """The answer of `function`, which asks the database. Raises what it raises."""
        return await asyncio.get_running_loop().run_in_executor(
            self._lookups, _with_good_connection, function, *args
        )

    def close(self) -> None:
        """Wait for every thread and close its connection: a thread cannot when it ends."""
        self._lookups.shutdown()
        self._slots.shutdown()
        for kept in self._connections:
            kept.close()

    def abandon(self) -> None:
        """Leave the threads that still run to the end of the process."""
        self._slots.shutdown(wait=False)

    def _adopt_connection(self) -> None:
        connection.inc_thread_sharing()
        self._connections.append(connections[connection.alias])


def _with_good_connection[R](function: Callable[..., R], *args: Any) -> R:
    close_old_connections()
    try:
        return function(*args)
    finally:
        close_old_connections()
