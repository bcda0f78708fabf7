"""`make demo-faults`: what it plays happens, and it harms nothing but the copy beside it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import override_settings

from stagedoor.embedded.server import free_port
from stagedoor.faults.copy import OURS, RunningCopy
from stagedoor.place import Place, Refused
from tests.copies import Copy, surroundings
from tests.processes import ROOT, wait_for

COMMAND = [sys.executable, "-m", "stagedoor.faults"]


def played(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        COMMAND, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_without_a_running_copy_it_says_how_to_start_one(tmp_path: Path) -> None:
    show = played(surroundings(tmp_path / "var", free_port()))
    assert show.returncode == 1
    assert f"No copy runs in {tmp_path / 'var'}. Start one in another terminal" in show.stderr
    assert not (tmp_path / "var").exists()


def test_a_copy_with_a_real_provider_or_given_servers_is_left_alone(tmp_path: Path) -> None:
    place = Place(1, tmp_path)
    (tmp_path / "env").write_text("PORT=1\n")
    with pytest.raises(Refused, match="real provider"):
        RunningCopy(place)
    with (
        override_settings(MAILERS={"default": {"BACKEND": OURS}}),
        pytest.raises(Refused, match="servers of yours"),
    ):
        RunningCopy(place)


def test_each_fault_happens_and_every_order_ends_with_one_email(copy: Copy) -> None:
    # Addresses of somebody else in the shell: not those are played with.
    strange = {"DATABASE_URL": "postgres://127.0.0.1:1/other", "REDIS_URL": "redis://127.0.0.1:1/0"}
    before = sorted(path.name for path in (copy.folder / "mail").glob("*.eml"))
    # One that was killed a moment ago waits for its name before it works.
    place = Place(copy.port, copy.folder)
    worker = wait_for(lambda: place.process("worker-1") or 0, "worker-1 to be started again")
    os.kill(worker, signal.SIGKILL)
    show = played({**copy.environment, **strange})
    assert show.returncode == 0, show.stdout + show.stderr
    lines = copy.log.read_text()
    assert lines.count("worker-1 | ended by SIGKILL; started again") > 1
    assert "redis    | ended by SIGKILL; started again" in lines
    assert "holds email_tickets" in lines
    assert "buried: given up: the mail server refuses the recipient: 550" in lines
    assert "replayed by make demo-faults" in show.stdout
    assert "all is in order" in show.stdout
    assert not [name for name in ("down", "refusing") if (copy.folder / "mail" / name).exists()]
    assert len(list((copy.folder / "mail").glob("*.eml"))) > len(before) + 24
    copy.wait_until_well()
