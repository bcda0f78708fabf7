"""One process for CPU work: what its parent holds of it, and what it does.

It says when it is ready and when it has begun: a death before that is not the fault of the work.
"""

import contextlib
import importlib
import multiprocessing
import os
import resource
import signal
import threading
import traceback
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

from .errors import Discreet

KEPT_ENVIRONMENT = frozenset({"PATH", "LANG", "LC_ALL", "HOME", "TMPDIR", "TZ"})
START_SECONDS = 60.0
"""How long a process may take to become ready; a warm-up takes about one."""
STOP_SECONDS = 2.0
NICENESS = 19
READY, BEGUN = "ready", "begun"


class ComputeTimeout(Discreet):
    """The work overran its limit; its process was killed. Raised by `Pool.compute`."""


class ProcessDied(Discreet):
    """The process ended in mid-work (signal, out of memory). Raised by `Pool.compute`."""


class ComputeFailed(Exception):
    """The work raised; the text is the original traceback. Raised by `Pool.compute`."""


class NotBegun(Exception):
    """The process was gone before it began the work: another one may do it."""


class _Killer(threading.Timer):
    """Kills after so many seconds, unless it was told in time that it is not needed."""

    def __init__(self, seconds: float, process: SpawnProcess) -> None:
        super().__init__(seconds, self._kill)
        self._process = process
        self._deciding = threading.Lock()
        self._needless = False
        self.struck = False

    def _kill(self) -> None:
        with self._deciding:
            if not self._needless:
                self.struck = True
                self._process.kill()

    def call_off(self) -> None:
        """From here on it does not strike; `struck` says whether it has."""
        with self._deciding:
            self._needless = True
        self.cancel()


class ComputeProcess:
    """The parent's end. `broken`: fit for no other work."""

    def __init__(self, warm_up: tuple[str, ...], memory: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(
            target=_serve, args=(theirs, warm_up, memory), daemon=True, name="compute"
        )
        self._process.start()
        theirs.close()
        self._ready = False
        self.calls = 0
        self.broken = False

    def call(self, limit: float, function: Any, args: Any, kwargs: Any) -> Any:
        """The result of the work; raises ComputeTimeout, ProcessDied, ComputeFailed, NotBegun."""
        self.calls += 1
        self._await_ready()
        # A timer rather than poll(): a process that is stopped would also block the sending.
        killer = _Killer(limit, self._process)
        killer.start()
        begun = False
        try:
            self._pipe.send((function, args, kwargs))
            begun = self._pipe.recv() == BEGUN
            good, result = self._pipe.recv()
        except (EOFError, OSError) as error:
            self.broken = True
            killer.call_off()
            raise self._death(function, limit, killer.struck, begun) from error
        finally:
            killer.call_off()
            # It may have struck just as the result came: no other work must meet a dead process.
            self.broken |= killer.struck
        if not good:
            raise ComputeFailed(result)
        return result

    def _await_ready(self) -> None:
        if self._ready:
            return
        try:
            if not self._pipe.poll(START_SECONDS):
                raise EOFError
            self._ready = self._pipe.recv() == READY
        except (EOFError, OSError) as error:
            self.broken = True
            self._process.join(STOP_SECONDS)
            raise NotBegun(f"a process did not start: {self._process.exitcode}") from error

    def _death(self, function: Any, limit: float, overran: bool, begun: bool) -> Exception:
        self._process.join(STOP_SECONDS)
        name = str(getattr(function, "__qualname__", function))
        if overran:
            return ComputeTimeout(f"{name} ran for more than {limit:g} s")
        code = self._process.exitcode
        if not begun:
            return NotBegun(f"a process ended with {code} before it began {name}")
        return ProcessDied(f"the process of {name} ended with {code}")

    def hang_up(self) -> None:
        """Let it end once its work is done."""
        self._pipe.close()

    def end(self, seconds: float) -> None:
        """End it; killed where it still works after so many seconds."""
        self._pipe.close()
        if seconds:
            self._process.join(seconds)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(pipe: Connection, warm_up: tuple[str, ...], memory: int) -> None:
    # The worker ends this process by closing the pipe; a signal to the group, or to all of a unit,
    # whatever it asks of the worker, must not cut a render.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
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
        pipe.send(READY)
        while True:
            work = pipe.recv()
            pipe.send(BEGUN)
            pipe.send_bytes(_answer(*work))


def _answer(function: Any, args: Any, kwargs: Any) -> Any:
    # Pickled here: a result that cannot be is the work's failure, and no death of its process.
    try:
        return ForkingPickler.dumps((True, function(*args, **kwargs)))
    except BaseException:
        return ForkingPickler.dumps((False, traceback.format_exc(limit=-8)))
