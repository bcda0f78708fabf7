"""What `pip install .` brings: the command, every page and file, beside the locked packages."""

import os
import re
import secrets
import shutil
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import stagedoor
from tests.processes import ROOT

ROOMS = ("jobs", "orders", "stagedoor", "templates", "tickets")


def tracked(*folders: str) -> set[str]:
    """Files of the repository that are not ignored, committed or not."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return {name for name in found.stdout.splitlines() if (ROOT / name).exists()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, as it would leave its traces in the checkout."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in tracked(*ROOMS, "deploy", "requirements", "pyproject.toml", "README.md"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    build = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", "out", ".")
    subprocess.run([sys.executable, "-m", "pip", *build], cwd=copy, check=True)
    [made] = (copy / "out").glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of its own that finds the locked packages, and the product installed."""
    folder = tmp_path_factory.mktemp("opt") / "current"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "locked.pth").write_text("\n".join(site.getsitepackages()))
    pip = ("pip", "--python", str(folder / "bin" / "python"), "install", "--quiet", "--no-deps")
    subprocess.run([sys.executable, "-m", *pip, wheel], check=True)
    return folder


def run(installed: Path, *words: str) -> str:
    """What the command says, run far from the checkout in an environment for production."""
    given = {
        "PATH": os.environ["PATH"],
        "SECRET_KEY": secrets.token_urlsafe(50),
        "LINK_KEYS": f"1:{secrets.token_hex(32)}",
        "DATABASE_URL": "postgres://127.0.0.1:1/none",
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "CACHE_URL": "redis://127.0.0.1:1/1",
        "EMAIL_URL": "smtp://127.0.0.1:1",
        "ALLOWED_HOSTS": "shop.example",
        "BASE_URL": "https://shop.example",
        "VAR_DIR": str(installed.parent / "state"),
    }
    done = subprocess.run(
        [installed / "bin" / "stagedoor", *words],
        cwd=installed.parent, env=given, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_every_file_of_the_product_is_in_the_wheel_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    brought = {re.sub(r"^stagedoor-[^/]+/data/share/stagedoor/", "deploy/", name) for name in found}
    assert brought == tracked(*ROOMS, "deploy")


def test_the_version_stands_in_one_place(wheel: Path) -> None:
    assert wheel.name == f"stagedoor-{stagedoor.__version__}-py3-none-any.whl"


def test_the_command_passes_the_gate_of_a_deploy_with_production_settings(installed: Path) -> None:
    said = run(installed, "check", "--deploy", "--fail-level", "WARNING")
    assert "System check identified no issues" in said


def test_the_pages_and_files_that_it_serves_are_there(installed: Path) -> None:
    run(installed, "collectstatic", "--no-input")
    static = installed.parent / "state" / "static"
    for name in ("stagedoor/site.css", "jobs/admin.css", "tickets/door.js", "admin/css/base.css"):
        assert (static / name).is_file()
    look = "from django.template.loader import get_template as get; print(get('base.html').origin)"
    assert str(installed) in run(installed, "shell", "--no-imports", "-c", look)


def test_every_path_that_a_unit_names_is_there_once_installed(installed: Path) -> None:
    units = list((installed / "share/stagedoor/systemd").glob("*.service"))
    named = {
        path
        for unit in units
        for path in re.findall(r"/opt/stagedoor/(?:current|%i)/(\S+)", unit.read_text())
    }
    assert {"bin/stagedoor", "bin/python"} <= named
    for path in named:
        assert (installed / path).is_file(), path
