"""`make run` as its user sees it: ready, a part killed and back, stopped, started again."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from stagedoor.embedded.server import free_port
from tests.processes import ROOT, wait_for

STOP_SECONDS = 15
"""Promised for everything, from the signal to the last process."""


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stagedoor-run-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)
        yield Path(name) / "var"


class Copy:
    """One running copy of the product, its servers included."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.log = folder.with_name("run.log")
        names = ("DATABASE_URL", "REDIS_URL", "CACHE_URL", "SECRET_KEY", "DJANGO_SETTINGS_MODULE")
        kept = {name: value for name, value in os.environ.items() if name not in names}
        with self.log.open("w") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "stagedoor.run"], cwd=ROOT, stdout=log, stderr=log,
                env={**kept, "PORT": str(self.port), "VAR_DIR": str(folder)},
                start_new_session=True,
            )  # fmt: skip

    def said(self, text: str) -> bool:
        return text in self.log.read_text(errors="replace")

    def wait_until(self, text: str) -> None:
        wait_for(lambda: self.said(text) or self.popen.poll() is not None, text, seconds=120)
        assert self.said(text), self.log.read_text(errors="replace")

    def page(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as answer:
            return str(answer.read().decode())

    def processes(self) -> dict[int, str]:
        """Every living process that was started for this copy: they all know its folder."""
        found = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                mine = f"VAR_DIR={self.folder}".encode() in (entry / "environ").read_bytes()
                if entry.name.isdecimal() and mine:
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
        return found

    def stop(self) -> float:
        """SIGTERM; the seconds until it had ended, with exit code 0."""
        began = time.monotonic()
        self.popen.send_signal(signal.SIGTERM)
        assert self.popen.wait(60) == 0, self.log.read_text(errors="replace")
        return time.monotonic() - began


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Copy]:
    copy = Copy(folder)
    try:
        copy.wait_until("Stagedoor is ready at")
        yield copy
    finally:
        for pid in copy.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        copy.popen.wait(60)


def test_a_copy_runs_mends_itself_stops_and_finds_its_data_again(folder: Path) -> None:
    with running(folder) as copy:
        assert copy.log.read_text().count("Stagedoor is ready at") == 1
        assert "Demo staff user for /admin/" in copy.log.read_text()
        assert "Midsummer" in copy.page("/")
        [relay] = [pid for pid, line in copy.processes().items() if "manage.py relay" in line]
        os.kill(relay, signal.SIGKILL)
        copy.wait_until("ended by SIGKILL; started again in 1 s")
        wait_for(lambda: copy.log.read_text().count("starts  action=start") == 2, "relay again")
        wait_for(lambda: '"degraded": []' in copy.page("/readyz"), "everything well")
        assert copy.stop() < STOP_SECONDS
        assert copy.processes() == {}
    with running(folder) as copy:
        assert "Demo staff user" not in copy.log.read_text()
        assert "Midsummer" in copy.page("/")
        other = subprocess.run(
            [sys.executable, "-m", "stagedoor.run"], cwd=ROOT, capture_output=True, text=True,
            env={**os.environ, "PORT": str(free_port()), "VAR_DIR": str(folder)}, check=False,
        )  # fmt: skip
        assert other.returncode != 0
        assert "Another copy runs in" in other.stderr + other.stdout
        assert copy.stop() < STOP_SECONDS
