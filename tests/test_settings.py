"""A setting that is missing or wrong is told in a line: which, and what it must be."""

import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from stagedoor.settings.environment import Environment
from tests.processes import ROOT


def checked(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A command beside a copy of which nothing is known in `folder`."""
    settings = {
        "DJANGO_SETTINGS_MODULE": "stagedoor.settings.development", "VAR_DIR": str(folder),
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "manage.py", "check", *options],
        cwd=ROOT, env=settings, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_command_without_its_settings_says_so_in_a_line_and_is_not_to_be_started_again(
    tmp_path: Path,
) -> None:
    refused = checked(tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "Set the SECRET_KEY environment variable, or start `make run`" in refused.stderr
    assert f"{tmp_path}/env" in refused.stderr


def test_the_stack_is_there_for_who_asks_for_it(tmp_path: Path) -> None:
    assert "Traceback (most recent call last)" in checked(tmp_path, "--traceback").stderr


@pytest.mark.parametrize(
    ("read", "value"), [("int", "s3cret"), ("float", "s3cret"), ("float", "nan"), ("int", "1.5")]
)
def test_what_is_no_number_is_told_by_its_name_and_not_by_its_value(read: str, value: str) -> None:
    env = Environment()
    env.ENVIRON = {"FILES_DAYS": value}
    wanted = "a whole number" if read == "int" else "a number"
    with pytest.raises(ImproperlyConfigured, match=f"^FILES_DAYS must be {wanted}, and is not.$"):
        getattr(env, read)("FILES_DAYS", default=1)
    assert getattr(env, read)("ABSENT", default=1) == 1


def test_a_number_is_read_as_python_writes_it() -> None:
    env = Environment()
    env.ENVIRON = {"FILES_DAYS": "1e3"}
    assert env.float("FILES_DAYS", default=1.0) == 1000
