"""`make run` as its user sees it: ready, a part killed and back, stopped, started again."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stagedoor.embedded.server import free_port
from tests.copies import running
from tests.processes import ROOT, wait_for

STOP_SECONDS = 15
"""Promised for everything, from the signal to the last process."""


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stagedoor-run-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)
        yield Path(name) / "var"


def test_a_copy_runs_mends_itself_stops_and_finds_its_data_again(folder: Path) -> None:
    with running(folder) as copy:
        assert copy.log.read_text().count("Stagedoor is ready at") == 1
        assert "Demo staff user for /admin/" in copy.log.read_text()
        assert "Midsummer" in copy.page("/")
        [relay] = [pid for pid, line in copy.processes().items() if "manage.py relay" in line]
        assert (folder / "pids" / "relay").read_text() == f"{relay}\n"
        os.kill(relay, signal.SIGKILL)
        copy.wait_until("ended by SIGKILL; started again in 1 s")
        starts = re.compile(r"relay \S+ starts ")
        wait_for(lambda: len(starts.findall(copy.log.read_text())) == 2, "relay again")
        copy.wait_until_well()
        assert copy.stop() < STOP_SECONDS
        assert copy.processes() == {}
        assert list((folder / "pids").iterdir()) == []
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
