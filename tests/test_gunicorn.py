"""gunicorn's configuration: where its processes add their series up."""

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes import ROOT

CONFIGURATION = str(ROOT / "deploy" / "gunicorn.conf.py")


def configured() -> dict[str, Any]:
    return runpy.run_path(CONFIGURATION)


def test_it_chooses_a_folder_of_its_own_and_takes_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR")
    settings = configured()
    chosen = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])
    assert chosen.is_dir()
    assert chosen.stat().st_mode & 0o777 == 0o700
    settings["on_starting"](None)
    assert chosen.is_dir()
    settings["on_exit"](None)
    assert not chosen.exists()


def test_a_start_counts_from_zero_and_takes_away_what_a_killed_one_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    given, left, others = (
        tmp_path / name
        for name in (
            "given", f"stagedoor-metrics-{gone.pid}-x", f"stagedoor-metrics-{os.getpid()}-x",
        )
    )  # fmt: skip
    for folder in (given, left, others):
        folder.mkdir()
        (folder / "counter_1.db").write_bytes(b"1")
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(given))
    configured()["on_starting"](None)
    assert list(given.iterdir()) == []
    assert not left.exists()
    assert (others / "counter_1.db").exists(), "its master lives"
