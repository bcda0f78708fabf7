"""A management command by hand: a unit held as the services are, and no secret on the way."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.processes import ROOT, wait_for
from tests.test_systemd import FOLDER

SCRIPT = ROOT / "deploy" / "stagedoor-admin"
SYSTEMD_RUN = '#!/bin/sh\nprintf "%s\\n" "$@"\nexit 3\n'
PATIENT = '#!/bin/sh\necho runs >"${0%/*}/runs"\nexec tail -f /dev/null\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A folder of programs that stand for systemd's and for root's."""
    programs = {
        "systemd-run": SYSTEMD_RUN,
        "systemctl": '#!/bin/sh\necho "$@" >>"${0%/*}/systemctl.said"\n',
        "id": "#!/bin/sh\necho 0\n",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def start(path: Path, *words: str, **given: str) -> subprocess.Popen[str]:
    """The script, at the head of a group of its own as at a terminal."""
    environment = {"PATH": f"{path}:{os.environ['PATH']}", **given}
    return subprocess.Popen(
        [SCRIPT, *words], env=environment, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_a_command_is_a_unit_that_what_all_services_are_told_is_told_too(path: Path) -> None:
    process = start(path, "jobs", "pause", "x", "--reason", "the provider moves")
    said = process.communicate()[0].splitlines()
    assert process.returncode == 3, "the command's own code"
    [unit] = [word.removeprefix("--unit=") for word in said if word.startswith("--unit=")]
    assert unit == f"stagedoor-admin-{process.pid}.service"
    [folder] = FOLDER.glob("*.service.d")
    assert unit.startswith(folder.name.removesuffix(".service.d"))
    common = (folder / "10-common.conf").read_text()
    assert "--uid=stagedoor" in said
    assert "\nUser=stagedoor\n" in common
    assert {"--wait", "--pipe", "--pty"} <= set(said)
    assert said[-6:] == [
        "/opt/stagedoor/current/bin/stagedoor", "jobs", "pause", "x", "--reason",
        "the provider moves",
    ]  # fmt: skip


def test_nothing_of_the_callers_environment_goes_along_but_who_it_is(path: Path) -> None:
    process = start(path, "createsuperuser", "buyer", SECRET_KEY="secret-one", SUDO_USER="anna")
    said = process.communicate()[0]
    assert "secret-one" not in said
    set_there = [line for line in said.splitlines() if line.startswith("--setenv=")]
    assert set_there == ["--setenv=LOGNAME=anna"]
    assert "--description=Stagedoor: createsuperuser, by hand" in said.splitlines()


def test_whoever_is_not_root_is_told_what_to_type(path: Path) -> None:
    (path / "id").write_text("#!/bin/sh\necho 1000\n")
    process = start(path, "jobs", "status")
    said = process.communicate()
    assert (process.returncode, said[0]) == (2, "")
    assert "sudo stagedoor-admin jobs status" in said[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_is_interrupted_is_not_left_at_work(path: Path, number: signal.Signals) -> None:
    (path / "systemd-run").write_text(PATIENT)
    process = start(path, "relay")
    wait_for(lambda: (path / "runs").exists(), "the command")
    os.killpg(process.pid, number)
    process.communicate()
    stopped = (path / "systemctl.said").read_text()
    assert stopped == f"stop stagedoor-admin-{process.pid}.service\n"
