"""Processes for CPU work: one at a time each, killed past their limit, replaced when they die.

A process gets picklable arguments and gives a picklable result. It opens no database and no
network, and forgets the worker's environment, secrets included, before its first work.
"""

import logging
import os
import queue
import sys
from collections.abc import Callable, Sequence
from typing import cast

from . import metrics
from .compute_process import STOP_SECONDS, ComputeProcess, NotBegun
from .errors import Discreet

logger = logging.getLogger(__name__)
TRIES = 3
"""Processes that may be gone before they begin one piece of work."""


class PoolBroken(Discreet):
    """No process of this host begins any work: nothing that waiting mends."""


def default_processes() -> int:
    """One process for each core; none on a build without a GIL, where threads scale."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return 0
    return cores()


def cores() -> int:
    """The cores of this machine that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Pool:
    """`processes` one-process workers, started and warmed up at once; 0 computes in the caller.

    `warm_up` names functions (`package.module.function`) that each process calls before its first
    work. A process is replaced after `renders` pieces of work, which keeps its memory flat, and
    may allocate `memory` bytes (0: as many as there are): more fails the work, not the machine.
    """

    def __init__(
        self, processes: int, *, warm_up: Sequence[str] = (), renders: int = 500, memory: int = 0
    ) -> None:
        self._warm_up = tuple(warm_up)
        self._memory = memory
        self._renders = renders
        self._inline = processes == 0
        self._free: queue.SimpleQueue[ComputeProcess] = queue.SimpleQueue()
        self._all: set[ComputeProcess] = set()
        for _ in range(processes):
            self._free.put(self._start())

    def compute[**P, R](
        self, limit: float, begun: Callable[[], None], function: Callable[P, R],
        *args: P.args, **kwargs: P.kwargs,
    ) -> R:  # fmt: skip
        """Call `function` in a free process and return its result, waiting for one to be free.

        `begun` is called once the wait is over. Raises ComputeTimeout after `limit` seconds of
        work, ProcessDied, ComputeFailed, or PoolBroken.
        """
        if self._inline:
            begun()
            return function(*args, **kwargs)
        process = self._free.get()
        try:
            begun()
            for _ in range(TRIES):
                try:
                    # Here and not after the work: a process that cannot be started (no memory, no
                    # more processes) costs this one call, and never a place in the pool.
                    process = self._good(process)
                    return cast(R, process.call(limit, function, args, kwargs))
                except (NotBegun, OSError) as error:
                    logger.warning("no process for CPU work: %s", error)
            raise PoolBroken(f"{TRIES} processes did not begin their work")
        finally:
            self._free.put(process)

    def close(self) -> None:
        """End every process; those that still work are killed after two seconds."""
        ending = list(self._all)
        for process in ending:
            process.hang_up()
        for process in ending:
            process.end(STOP_SECONDS)

    def _start(self) -> ComputeProcess:
        process = ComputeProcess(self._warm_up, self._memory)
        self._all.add(process)
        return process

    def _good(self, process: ComputeProcess) -> ComputeProcess:
        reason = (
            "broken" if process.broken else "recycled" if process.calls >= self._renders else ""
        )
        if not reason:
            return process
        fresh = self._start()
        metrics.POOL_REBUILT.labels(reason).inc()
        self._all.discard(process)
        process.end(0 if process.broken else STOP_SECONDS)
        return fresh
