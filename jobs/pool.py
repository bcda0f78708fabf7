"""Processes for CPU work: one at a time each, killed past their limit, replaced when they die.

A process gets picklable arguments and gives a picklable result. It opens no database and no
network, and forgets the worker's environment, secrets included, before its first work.
"""

import contextlib
import importlib
import logging
import multiprocessing
import os
import queue
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, cast

from . import metrics

logger = logging.getLogger(__name__)
KEPT_ENVIRONMENT = frozenset({"PATH", "LANG", "LC_ALL", "HOME", "TMPDIR", "TZ"})
STOP_SECONDS = 2.0
NICENESS = 19


class ComputeTimeout(Exception):
    """The work overran its limit; its process was killed. Raised by `Pool.compute`."""


class ProcessDied(Exception):
    """The process ended in mid-work (signal, out of memory). Raised by `Pool.compute`."""


class ComputeFailed(Exception):
    """The work raised; the text is the original traceback. Raised by `Pool.compute`."""


def default_processes() -> int:
    """One process for each core; none on a build without a GIL, where threads scale."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return 0
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
        self._free: queue.SimpleQueue[_Process] = queue.SimpleQueue()
        self._all: set[_Process] = set()
        for _ in range(processes):
            self._free.put(self._start())

    def compute[**P, R](
        self, limit: float, begun: Callable[[], None], function: Callable[P, R],
        *args: P.args, **kwargs: P.kwargs,
    ) -> R:  # fmt: skip
        """Call `function` in a free process and return its result, waiting for one to be free.

        `begun` is called once the wait is over. Raises ComputeTimeout after `limit` seconds of
        work, ProcessDied, or ComputeFailed.
        """
        if self._inline:
            begun()
            return function(*args, **kwargs)
        process = self._free.get()
        try:
            begun()
            # Here and not after the work: a process that cannot be started (no memory, no more
            # processes) costs this one call, and never a place in the pool.
            process = self._good(process)
            return cast(R, process.call(limit, function, args, kwargs))
        finally:
            self._free.put(process)

    def close(self) -> None:
        """End every process; those that still work are killed after two seconds."""
        ending = list(self._all)
        for process in ending:
            process.hang_up()
        for process in ending:
            process.end(STOP_SECONDS)

    def _start(self) -> "_Process":
        process = _Process(self._warm_up, self._memory)
        self._all.add(process)
        return process

    def _good(self, process: "_Process") -> "_Process":
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


class _Process:
    """The parent's end of one process."""

    def __init__(self, warm_up: tuple[str, ...], memory: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(
            target=_serve, args=(theirs, warm_up, memory), daemon=True, name="compute"
        )
        self._process.start()
        theirs.close()
        self.calls = 0
        self.broken = False

    def call(self, limit: float, function: Any, args: Any, kwargs: Any) -> Any:
        self.calls += 1
        # A timer rather than poll(): a process that is stopped would also block the sending.
        overrun = threading.Timer(limit, self._process.kill)
        overrun.start()
        try:
            self._pipe.send((function, args, kwargs))
            good, result = self._pipe.recv()
        except (EOFError, OSError) as error:
            self.broken = True
            self._process.join(STOP_SECONDS)
            raise self._death(function, limit, overrun.finished.is_set()) from error
        finally:
            # It may have fired just as the result came: the next work must not meet a dead process.
            self.broken |= overrun.finished.is_set()
            overrun.cancel()
        if not good:
            raise ComputeFailed(result)
        return result

    def _death(self, function: Any, limit: float, overran: bool) -> Exception:
        if overran:
            return ComputeTimeout(f"{_name(function)} ran for more than {limit:g} s")
        code = self._process.exitcode
        return ProcessDied(f"the process of {_name(function)} ended with {code}")

    def hang_up(self) -> None:
        self._pipe.close()

    def end(self, seconds: float) -> None:
        self._pipe.close()
        if seconds:
            self._process.join(seconds)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", function))


def _serve(pipe: Connection, warm_up: tuple[str, ...], memory: int) -> None:
    # The worker ends this process by closing the pipe; a signal to the group must not cut a render.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Whoever answers a buyer, and the database behind it, goes first on a machine that does both.
    os.nice(NICENESS)
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    for name in set(os.environ) - KEPT_ENVIRONMENT:
        del os.environ[name]
    for path in warm_up:
        module, _, function = path.rpartition(".")
        getattr(importlib.import_module(module), function)()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            pipe.send(_answer(*pipe.recv()))


def _answer(function: Any, args: Any, kwargs: Any) -> tuple[bool, Any]:
    try:
        return True, function(*args, **kwargs)
    except BaseException:
        return False, traceback.format_exc(limit=-8)
