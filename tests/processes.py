"""The real processes of the product, started by tests: gunicorn, relay, workers."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from django.conf import settings
from django.db import connection

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = "CHAOS" in os.environ
"""Whether the processes run with the shipped durations (`make chaos`)."""
PATIENCE = 300.0 if SHIPPED else 60.0
SHORT = {
    "JOBS_LEASE": "2",
    "JOBS_LEASE_RENEWAL": "0.5",
    "JOBS_RECLAIM": "0.5",
    "JOBS_NAME_TTL": "2",
    "JOBS_NAME_WAIT": "4",
    "JOBS_BLOCK": "1",
    "JOBS_HUNG_AFTER": "1",
    "JOBS_BACKOFF_MAX": "0.5",
    "JOBS_HEARTBEAT": "1",
    "JOBS_UNKNOWN_DELAY": "0.5",
    "JOBS_LAG_LIMIT": "2",
    "JOBS_RECONCILE": "0.5",
    "JOBS_RECONCILE_AFTER": "2",
    "JOBS_HOLD_MIN": "0.5",
    "JOBS_HOLD_MAX": "2",
    "JOBS_REPLAYS_PER_SECOND": "200",
    "JOBS_MAXLEN": "1000",
    "JOBS_MARK": "800",
}
"""Seconds, for the processes under test (design §3)."""


def duration(name: str) -> float:
    """How long `JOBS_<name>` is in the processes under test."""
    return float(settings.JOBS[name] if SHIPPED else SHORT[f"JOBS_{name}"])


def wait_for[T](condition: Callable[[], T], what: str, seconds: float = PATIENCE) -> T:
    """The first true answer of `condition`, asked every 20 ms. Fails the test after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s in vain for: {what}")
        time.sleep(0.02)
    return answer


class Process:
    """One running process of the product, on the test's database and stream."""

    def __init__(self, folder: Path, name: str, *command: str, **environment: str) -> None:
        self.name = name
        self.log_file = folder / f"{name}-{time.monotonic_ns()}.log"
        with self.log_file.open("wb") as log:
            self.popen = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT, stdout=log, stderr=log, start_new_session=True,
                env={**_environment(), **environment},
            )  # fmt: skip

    def __enter__(self) -> "Process":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.kill()
        if kind is not None:
            print(f"--- {self.name} ---\n{self.log()[-6000:]}")

    def log(self) -> str:
        """All that it has written."""
        return self.log_file.read_text(errors="replace")

    def said(self, text: str, times: int = 1) -> bool:
        """Whether it has written `text` (so often)."""
        return self.log().count(text) >= times

    def wait_until_said(self, text: str) -> None:
        """Wait for `text` in its log; fails at once where the process has ended."""
        wait_for(
            lambda: self.said(text) or self.popen.poll() is not None, f"{text!r} by {self.name}"
        )
        assert self.said(text), f"{self.name} ended with {self.popen.returncode}:\n{self.log()}"

    def wait_until_it_runs(self, kind: str, number: int = 1) -> None:
        """Wait until a worker reports `number` slots that run jobs of `kind`."""

        self.wait_until_said("is ready")

        def runs() -> bool:
            before = len(self.log())
            self.signal(signal.SIGUSR2)
            wait_for(lambda: "slots:" in self.log()[before:], "a report")
            report = self.log()[before:]
            return report.count("runs for") >= number and report.count(f"{kind}, outbox") >= number

        wait_for(runs, f"{number} running {kind}")

    def signal(self, number: int) -> None:
        """Send one signal to the process alone."""
        self.popen.send_signal(number)

    def ended(self, seconds: float = PATIENCE) -> int:
        """Wait for its end and return its exit code, negative for a signal."""
        return self.popen.wait(seconds)

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self.signal(signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        """SIGKILL to it and its children; nothing where it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait(PATIENCE)


def _environment() -> dict[str, str]:
    address = dict(connection.settings_dict)
    host = f"{address['HOST']}:{address['PORT']}"
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "stagedoor.settings.testing",
        "DATABASE_URL": f"postgres://{address['USER']}:{address['PASSWORD']}@{host}/{address['NAME']}",
        "VAR_DIR": str(settings.VAR_DIR),
        "REDIS_URL": settings.REDIS_URL,
        "PYTHONUNBUFFERED": "1",
        **({} if SHIPPED else SHORT),
    }


class Product:
    """Starts the parts of the product; every one of them is killed at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stack = contextlib.ExitStack()
        self.started: list[Process] = []
        """Every process, in the order of their starts."""

    def relay(self, *options: str, **environment: str) -> Process:
        """A relay."""
        return self._start("relay", "manage.py", "relay", *options, **environment)

    def worker(self, name: str = "worker-1", *options: str, **environment: str) -> Process:
        """A worker with one render process."""
        return self._worker(name, "1", options, environment)

    def plain_worker(self, name: str, *options: str, **environment: str) -> Process:
        """A worker without render processes, which starts sooner."""
        return self._worker(name, "0", options, environment)

    def _worker(
        self, name: str, renders: str, options: Sequence[str], environment: Mapping[str, str]
    ) -> Process:
        command = ("manage.py", "runworker", "--name", name, "--render-processes", renders)
        return self._start(name, *command, *options, **environment)

    def web(self, port: int, **environment: str) -> Process:
        """gunicorn with one process and four threads, answering when this returns."""
        process = self._start(
            "web", "-m", "gunicorn", "stagedoor.wsgi", "--bind", f"127.0.0.1:{port}",
            "--threads", "4", **environment,
        )  # fmt: skip
        wait_for(lambda: _answers(port) or process.popen.poll() is not None, "an answer of web")
        return process

    def scheduler(self, *options: str, **environment: str) -> Process:
        """A scheduler."""
        return self.command("schedule", *options, **environment)

    def web_as_deployed(self, port: int, processes: int, **environment: str) -> Process:
        """gunicorn with its own configuration and so many processes, answering then."""
        process = self._start(
            "web", "-m", "gunicorn", "--config", "deploy/gunicorn.conf.py", "stagedoor.wsgi",
            PORT=str(port), WEB_CONCURRENCY=str(processes), **environment,
        )  # fmt: skip
        wait_for(lambda: _answers(port) or process.popen.poll() is not None, "an answer of web")
        return process

    def command(self, *words: str, **environment: str) -> Process:
        """A management command."""
        return self._start(words[0], "manage.py", *words, **environment)

    def _start(self, name: str, *command: str, **environment: str) -> Process:
        process = self.stack.enter_context(Process(self.folder, name, *command, **environment))
        self.started.append(process)
        return process


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


def product(folder: Path) -> Iterator[Product]:
    """For a fixture: a product in `folder` whose processes end with the test."""
    made = Product(folder)
    with made.stack:
        yield made


def compute_processes(pid: int) -> list[int]:
    """Children of the worker that render; multiprocessing's own helper is not one of them."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [
        int(child) for child in children
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]  # fmt: skip
