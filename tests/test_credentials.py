"""Secrets come as files of the service manager's folder; each is read by the shipped settings."""

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from stagedoor.settings.credentials import with_credentials
from tests.processes import ROOT

NAMES = ("SECRET_KEY", "LINK_KEYS", "DATABASE_URL", "REDIS_URL", "CACHE_URL", "EMAIL_URL")
SHOW = """
import os, sys
from django.conf import settings
print(settings.SECRET_KEY, settings.LINK_KEYS[1].hex(), settings.DATABASES["default"]["HOST"],
      settings.REDIS_URL, settings.CACHE_URL, settings.MAILERS["default"]["OPTIONS"]["host"],
      sorted(set(os.environ) & set(sys.argv[1:])), sep="\\n")
"""


def test_a_file_wins_over_the_variable_of_its_name_and_loses_its_newline(tmp_path: Path) -> None:
    (tmp_path / "SECRET_KEY").write_text("from the file\n")
    found = with_credentials(
        {"CREDENTIALS_DIRECTORY": str(tmp_path), "SECRET_KEY": "variable", "PORT": "8000"}
    )
    assert (found["SECRET_KEY"], found["PORT"]) == ("from the file", "8000")


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    for name in ("notes.txt", "lower", "PORT~"):
        (tmp_path / name).write_text("x")
    assert "notes.txt" not in with_credentials({"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert len(with_credentials({"CREDENTIALS_DIRECTORY": str(tmp_path)})) == 1


def test_without_a_folder_there_is_the_environment_alone() -> None:
    assert dict(with_credentials({"PORT": "1"})) == {"PORT": "1"}


@pytest.mark.parametrize("broken", ["missing", "bytes"])
def test_a_folder_that_cannot_be_read_is_a_bad_setting(broken: str, tmp_path: Path) -> None:
    folder = tmp_path / "missing" if broken == "missing" else tmp_path
    (tmp_path / "SECRET_KEY").write_bytes(b"\xff")
    with pytest.raises(ImproperlyConfigured, match="CREDENTIALS_DIRECTORY="):
        with_credentials({"CREDENTIALS_DIRECTORY": str(folder)})


def test_production_takes_every_secret_from_files_and_hands_none_to_its_children(
    tmp_path: Path,
) -> None:
    key, link = secrets.token_hex(32), secrets.token_hex(32)
    values = (
        key, f"1:{link}", "postgres://u:p@db.example/shop", "redis://:p@stream.example/0",
        "redis://:p@cache.example/0", "smtp://mail.example:25",
    )  # fmt: skip
    folder = tmp_path / "credentials"
    folder.mkdir()
    for name, value in zip(NAMES, values, strict=True):
        # As systemd names them: LoadCredential=stagedoor:/etc/stagedoor/credentials.
        (folder / f"stagedoor_{name}").write_text(f"{value}\n")
    given = {
        **{name: value for name, value in os.environ.items() if name not in NAMES},
        "DJANGO_SETTINGS_MODULE": "stagedoor.settings.production",
        "CREDENTIALS_DIRECTORY": str(folder),
        "BASE_URL": "https://shop.example",
        "ALLOWED_HOSTS": "shop.example",
    }
    command = [sys.executable, "-c", SHOW, *NAMES]
    shown = subprocess.run(command, env=given, cwd=ROOT, capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines() == [
        key, link, "db.example", "redis://:p@stream.example/0",
        "redis://:p@cache.example/0", "mail.example", "[]",
    ]  # fmt: skip
