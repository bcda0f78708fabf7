"""The process of a server, on both of its sides: the test's, and its own."""

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self

from .faults import ACCEPT, Fault, Plan, Planned
from .ledger import Call, Ledger, read_calls, steps_used

HOST = "127.0.0.1"
ROOT = Path(__file__).resolve().parent.parent.parent


class ServerProcess:
    """One server with its folder: it keeps port, plan and ledger when it is started again."""

    module: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = 0
        self._plan = Plan()
        self._process: subprocess.Popen[str] | None = None
        self._plan.write(folder / "plan.json")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Return once it listens; on the port that it had before, if it was started before."""
        command = [sys.executable, "-m", self.module, str(self.folder), str(self.port)]
        with (self.folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                text=True, start_new_session=True,
            )  # fmt: skip
        assert self._process.stdout is not None
        port = self._process.stdout.readline()
        assert port, f"{self.module} did not start:\n{self.log()}"
        self.port = int(port)

    def stop(self) -> None:
        """SIGTERM: calls under way end without an answer."""
        if self._process:
            self._process.terminate()
            self._gone()

    def kill(self) -> None:
        """SIGKILL; nothing where it does not run."""
        if self._process:
            self._process.kill()
            self._gone()

    def _gone(self) -> None:
        assert self._process is not None
        with self._process:
            self._process = None

    def log(self) -> str:
        """What it wrote to stderr."""
        return (self.folder / "log").read_text()

    def plan(
        self,
        *steps: Fault,
        then: Fault | Sequence[tuple[float, Fault]] = ACCEPT,
        recipients: Mapping[str, Fault] | None = None,
        seed: int = 0,
    ) -> None:
        """The next calls meet `steps`, one each, and those after them `then`.

        `then` may be weights and faults, drawn by `seed`. A call to one of `recipients` meets that
        one's fault in the place of its step.
        """
        self._plan = Plan(
            number=self._plan.number + 1, steps=steps,
            then=((1.0, then),) if isinstance(then, Fault) else tuple(then),
            recipients=recipients or {}, seed=seed, window=self._plan.window,
        )  # fmt: skip
        self._plan.write(self.folder / "plan.json")

    def remember_keys_for(self, seconds: float) -> None:
        """How long a key is known, from now on and for those that are known already."""
        self._plan = replace(self._plan, window=seconds)
        self._plan.write(self.folder / "plan.json")

    def calls(self) -> list[Call]:
        """Every call that was decided, in order."""
        return read_calls(self.folder / "ledger.jsonl")

    def accepted(self) -> dict[str, int]:
        """How many emails each key (or Message-ID) made; those without one are under ""."""
        return dict(Counter(call.key for call in self.calls() if call.accepted))


class Desk:
    """What a server process has: its port, and plan and ledger from its folder."""

    def __init__(self) -> None:
        self.folder = Path(sys.argv[1])
        self.port = int(sys.argv[2])
        self.before = read_calls(self.folder / "ledger.jsonl")
        self.ledger = Ledger(self.folder / "ledger.jsonl")
        self.plans = Planned(self.folder / "plan.json", steps_used(self.before))

    def open(self, port: int) -> None:
        """Tell the test that `port` listens; end when the test's process does."""
        print(port, flush=True)
        threading.Thread(target=_end_with_the_test, daemon=True).start()


def _end_with_the_test() -> None:
    sys.stdin.read()
    os._exit(0)
