"""The units that are shipped: accepted by systemd, tight, and in step with the settings."""

import configparser
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.checks import STOP_MARGIN
from jobs.notify import START_LIMIT
from jobs.threads import LOOK_UP_LIMIT
from stagedoor.settings import base
from tests.processes import ROOT

FOLDER = ROOT / "deploy" / "systemd"
SERVICES = sorted(path.name for path in FOLDER.glob("*.service"))
LOOPS = ("stagedoor-relay@.service", "stagedoor-schedule.service", "stagedoor-worker@.service")
BY_HAND = "stagedoor-admin-1.service"
STRICTEST = 20
"""Tenths of systemd's measure of exposure: a service may have 2.0 at most."""


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that runs this checkout instead of what is installed."""
    if shutil.which("systemd-analyze") is None:
        if "REQUIRE_SYSTEMD" in os.environ:
            raise AssertionError("no systemd-analyze: apt install systemd")
        pytest.skip("no systemd-analyze on the path")
    folder = tmp_path_factory.mktemp("units")
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    program = folder / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for path in folder.glob("*.service"):
        text = re.sub(r"/opt/stagedoor/(current|%i)/bin/\w+", str(program), path.read_text())
        path.write_text(text)
    return folder


def analyze(units: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """`systemd-analyze` over this copy and the system's own units."""
    return subprocess.run(
        ["systemd-analyze", "--no-pager", *words],
        cwd=units, env={**os.environ, "SYSTEMD_UNIT_PATH": f"{units}:"},
        capture_output=True, text=True,
    )  # fmt: skip


def test_systemd_has_nothing_to_say_about_the_units(units: Path) -> None:
    files = [path for path in units.iterdir() if path.suffix in (".service", ".socket", ".target")]
    assert len(files) == len(SERVICES) + 2
    found = analyze(units, "verify", "--man=no", *files)
    assert (found.returncode, found.stdout + found.stderr) == (0, "")


@pytest.fixture
def _by_hand(units: Path) -> Iterator[None]:
    """A unit as `stagedoor-admin` asks for one: its name alone says what it may."""
    unit = units / BY_HAND
    unit.write_text(f"[Service]\nExecStart={units}/program\n")
    yield
    unit.unlink()


@pytest.mark.usefixtures("_by_hand")
@pytest.mark.parametrize("service", [*SERVICES, BY_HAND])
def test_no_service_is_more_exposed_than_two_of_ten(service: str, units: Path) -> None:
    words = ("security", "--offline=true", f"--threshold={STRICTEST}", units / service)
    found = analyze(units, *words)
    assert found.returncode == 0, found.stdout
    assert "Overall exposure level" in found.stdout


def section(service: str) -> dict[str, str]:
    """What the unit itself says under [Service]; of a name that stands twice, the last."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(FOLDER / service)
    return dict(parser["Service"])


def test_the_stop_of_a_worker_leaves_time_for_its_grace_and_tells_it_the_limit() -> None:
    worker = section("stagedoor-worker@.service")
    assert worker["Environment"] == f"STOP_TIMEOUT={worker['TimeoutStopSec']}"
    assert base.JOBS["GRACE"] + STOP_MARGIN <= float(worker["TimeoutStopSec"])
    assert worker["SuccessExitStatus"] == "3"


@pytest.mark.parametrize("service", LOOPS)
def test_a_loop_is_watched_and_its_longest_turn_is_no_freeze(service: str) -> None:
    unit = section(service)
    assert unit["Type"] == "notify"
    assert float(unit["WatchdogSec"]) > 2 * LOOK_UP_LIMIT
    assert float(unit["TimeoutStartSec"]) <= START_LIMIT
    assert float(unit["TimeoutStartSec"]) > base.JOBS["NAME_WAIT"] + LOOK_UP_LIMIT


@pytest.mark.parametrize("service", [*LOOPS, "stagedoor-web.service"])
def test_whatever_runs_is_started_again_for_ever_with_a_pause_and_dies_after_its_children(
    service: str,
) -> None:
    unit = section(service)
    assert (unit["Restart"], unit["KillMode"]) == ("always", "mixed")
    assert 1 <= float(unit["RestartSec"]) <= 10
    common = (FOLDER / "stagedoor-.service.d" / "10-common.conf").read_text()
    assert "StartLimitIntervalSec=0\n" in common
    assert {"MemoryMax", "TasksMax"} <= set(unit)


def test_web_waits_for_its_last_requests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # The configuration would choose a folder for this process, too, and all that it starts.
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    settings: dict[str, object] = {}
    exec((ROOT / "deploy" / "gunicorn.conf.py").read_text(), settings)  # noqa: S102
    graceful = settings["graceful_timeout"]
    assert isinstance(graceful, int)
    assert graceful + STOP_MARGIN <= float(section("stagedoor-web.service")["TimeoutStopSec"])


def test_no_unit_says_what_the_file_for_all_of_them_overrides() -> None:
    """systemd reads that file after the unit: `UMask=` of a unit would be in vain."""
    common = set(section("stagedoor-.service.d/10-common.conf"))
    for service in SERVICES:
        assert set(section(service)) & common <= {"Environment"}, service


def test_static_files_are_for_nginx_to_read() -> None:
    text = (FOLDER / "stagedoor-migrate@.service").read_text()
    assert re.search(r"^ExecStart=/bin/sh -c 'umask 022 && exec \S+ collectstatic ", text, re.M)
