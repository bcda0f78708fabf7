"""Running copies of the product, `make run` and all, for the tests that need one."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from stagedoor.embedded.server import free_port
from tests.processes import ROOT, wait_for

OUR_OWN = ("DATABASE_URL", "REDIS_URL", "CACHE_URL", "SECRET_KEY", "DJANGO_SETTINGS_MODULE")
"""What the tests have set for themselves, and no copy may see."""


def surroundings(folder: Path, port: int) -> dict[str, str]:
    """The environment of whoever uses the copy in `folder`."""
    kept = {name: value for name, value in os.environ.items() if name not in OUR_OWN}
    return {**kept, "PORT": str(port), "VAR_DIR": str(folder)}


class Copy:
    """One running copy of the product, its servers included."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.log = folder.with_name("run.log")
        self.environment = {**surroundings(folder, self.port), **settings}
        with self.log.open("w") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "stagedoor.run"],
                cwd=ROOT, stdout=log, stderr=log, env=self.environment, start_new_session=True,
            )  # fmt: skip

    def said(self, text: str) -> bool:
        """Whether it has written `text`."""
        return text in self.log.read_text(errors="replace")

    def wait_until(self, text: str) -> None:
        """Wait for `text`; fails at once where the copy has ended."""
        wait_for(lambda: self.said(text) or self.popen.poll() is not None, text, seconds=120)
        assert self.said(text), self.log.read_text(errors="replace")

    def page(self, path: str) -> str:
        """One of its pages."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as answer:
            return str(answer.read().decode())

    def wait_until_well(self) -> None:
        """Wait until every part of it runs and is seen."""
        wait_for(lambda: '"degraded": []' in self.page("/readyz"), "everything well")

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
def running(folder: Path, **settings: str) -> Iterator[Copy]:
    """A copy in `folder` until the end of the block, ready; none of its processes stays."""
    copy = Copy(folder, **settings)
    try:
        copy.wait_until("Stagedoor is ready at")
        yield copy
    finally:
        for pid in copy.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        copy.popen.wait(60)
