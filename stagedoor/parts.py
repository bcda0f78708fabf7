"""The parts of a running copy: started, named in each log line, started again, stopped in order.

Knows no Django.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .children import signal_group

LONGEST_LINE = 65_536

Say = Callable[[str, str], None]
Note = Callable[[str, int | None], None]
"""Told the number of a part's process when it starts, None when it has ended."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """A process of the product: a guarded command, and the signal that asks it to end."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] | None = None
    folder: Path | None = None
    stop_signal: signal.Signals = signal.SIGTERM


@dataclass(frozen=True, kw_only=True)
class Pauses:
    """Seconds before a part is started again: from `first`, doubled up to `longest`.

    A part that lived `forgiven_after` seconds starts from `first` again.
    """

    first: float = 1
    longest: float = 30
    forgiven_after: float = 60

    def after(self, last: float, lived: float) -> float:
        """The pause after a part that lived `lived` s, when the last pause was `last` (0: none)."""
        if not last or lived >= self.forgiven_after:
            return self.first
        return min(2 * last, self.longest)


class Supervisor:
    """Keeps parts running until it is told to stop; what they write goes to `say`, by line."""

    def __init__(
        self, say: Say, pauses: Pauses | None = None, note: Note = lambda name, pid: None
    ) -> None:
        self.say = say
        self.note = note
        self.pauses = pauses or Pauses()
        self.stopping = asyncio.Event()
        self._runs: dict[Part, asyncio.Task[int]] = {}
        self._processes: dict[Part, asyncio.subprocess.Process] = {}
        self._keepers: list[asyncio.Task[None]] = []

    def keep(self, part: Part) -> None:
        """Run `part` and start it again whenever it ends."""
        self._keepers.append(asyncio.create_task(self._keep(part)))

    async def once(self, part: Part) -> int:
        """Run `part` to its end; returns its exit code, negative for a signal.

        Whoever waits may be cancelled: the part then runs on until it ends or `stop` ends it.
        """
        run = self._runs[part] = asyncio.create_task(self._run(part))
        run.add_done_callback(lambda _: self._runs.pop(part))
        return await asyncio.shield(run)

    async def stop(self, parts: Sequence[Part], deadline: float) -> None:
        """End `parts` with one signal each; those alive at `deadline` (monotonic s) are killed."""
        self.stopping.set()
        for part in parts:
            self._ask_to_end(part)
        if runs := {self._runs[part]: part for part in parts if part in self._runs}:
            _, late = await asyncio.wait(runs, timeout=max(0, deadline - time.monotonic()))
            for run in late:
                self._kill_late(runs[run])
            await asyncio.wait(runs)

    def kill(self) -> None:
        """Kill every part at once."""
        self.stopping.set()
        for process in self._processes.values():
            signal_group(process.pid, signal.SIGKILL)

    async def _run(self, part: Part) -> int:
        read, write = os.pipe()
        pump = asyncio.create_task(self._pump(part.name, read))
        try:
            process = await self._spawn(part, write)
        finally:
            os.close(write)
        self._processes[part] = process
        self.note(part.name, process.pid)
        if self.stopping.is_set():  # it was being born when the others were signalled
            self._ask_to_end(part)
        code = await process.wait()
        del self._processes[part]
        self.note(part.name, None)
        # What a dead part leaves behind would hold its port, and its pipe, for ever.
        signal_group(process.pid, signal.SIGKILL)
        await asyncio.wait([pump], timeout=1)
        pump.cancel()
        return code

    @staticmethod
    async def _spawn(part: Part, output: int) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *part.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=part.environment,
            cwd=part.folder,
        )

    async def _keep(self, part: Part) -> None:
        pause = 0.0
        while not self.stopping.is_set():
            began = time.monotonic()
            code = await self.once(part)
            if self.stopping.is_set():
                return
            pause = self.pauses.after(pause, time.monotonic() - began)
            self.say(part.name, f"{ending(code)}; started again in {pause:g} s")
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), pause)

    def _ask_to_end(self, part: Part) -> None:
        # To the process alone: its own children are its own to end, and a worker that is told
        # twice leaves its jobs unfinished.
        if process := self._processes.get(part):
            with suppress(ProcessLookupError):
                process.send_signal(part.stop_signal)

    def _kill_late(self, part: Part) -> None:
        if process := self._processes.get(part):
            self.say(part.name, "did not end in time: killed")
            signal_group(process.pid, signal.SIGKILL)

    async def _pump(self, name: str, pipe: int) -> None:
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe, "rb", 0)
        )
        rest = b""
        try:
            while chunk := await reader.read(LONGEST_LINE):
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > LONGEST_LINE:
                    lines, rest = [*lines, rest], b""
                for line in lines:
                    self.say(name, line.decode(errors="replace"))
        finally:
            if rest:
                self.say(name, rest.decode(errors="replace"))
            transport.close()


def ending(code: int) -> str:
    """How a process ended, in words, from its exit code (negative: the signal)."""
    if code >= 0:
        return f"ended with code {code}"
    with suppress(ValueError):
        return f"ended by {signal.Signals(-code).name}"
    return f"ended by signal {-code}"


class Printer:
    """Writes lines with a part's name before them; a reader who went away is told by `on_lost`."""

    WIDTH = 8

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost

    def __call__(self, name: str, line: str) -> None:
        """Write `line` of the part `name`."""
        self.plain(f"{name:<{self.WIDTH}} | {line}")

    def plain(self, line: str) -> None:
        """Write `line` as it is."""
        try:
            print(line, flush=True)
        except OSError:  # a closed pipe or terminal must not leave the parts without a parent
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
            self._on_lost()
