"""gunicorn's configuration: where its processes add their series up."""

import contextlib
import os
import runpy
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from stagedoor.embedded import free_port
from tests.processes import ROOT, Process, wait_for

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


RELEASE = """
NAME = {name!r}

def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"] != "/late":
        return [NAME.encode()]
    from late import NAME as late
    return [f"{NAME} {late}".encode()]
"""


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    """Two of them, of which a part is loaded late, and `current`, which leads to the first."""
    for name in ("one", "two"):
        packages = tmp_path / name / "site-packages"
        packages.mkdir(parents=True)
        (packages / "release.py").write_text(RELEASE.replace("{name!r}", repr(name)))
        (packages / "late.py").write_text(f"NAME = {name!r}\n")
        # The master, too, has loaded some of it: as it has the shop's formatters of the log.
        (packages / "sitecustomize.py").write_text("import release\n")
    (tmp_path / "current").symlink_to("one")
    return tmp_path


def test_a_reload_is_all_of_the_new_release_and_until_then_all_of_the_old(releases: Path) -> None:
    port = free_port()

    def page(path: str) -> str:
        address = f"http://127.0.0.1:{port}{path}"
        with contextlib.suppress(OSError), urllib.request.urlopen(address) as answer:
            return str(answer.read().decode())
        return ""

    given = {"PORT": str(port), "PYTHONPATH": str(releases / "current" / "site-packages")}
    command = ("-m", "gunicorn", "-c", CONFIGURATION, "release:app")
    with Process(releases, "web", *command, WEB_CONCURRENCY="1", **given) as web:
        wait_for(lambda: page("/") == "one", "the web part")
        (releases / "next").symlink_to("two")
        (releases / "next").rename(releases / "current")
        assert page("/late") == "one one"
        web.signal(signal.SIGHUP)
        wait_for(lambda: page("/late") not in ("", "one one"), "the reload")
        assert page("/late") == "two two"
