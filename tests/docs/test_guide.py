"""The guide's code, block by block, as an app of its own on real servers."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.processes import ROOT

GUIDE = ROOT / "docs" / "guide.md"
BLOCK = re.compile(r"^```python(?: (?P<file>\S+))?\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
SETTINGS = """
from stagedoor.settings.testing import *
INSTALLED_APPS = ["points", *INSTALLED_APPS]
"""
OUR_SERVERS = ("DATABASE_URL", "REDIS_URL", "CACHE_URL", "VAR_DIR")
OPTIONS = ("-c", str(ROOT / "pyproject.toml"), "--ds=guide_settings", "-p", "no:cacheprovider")
REAL_PROCESSES = """
import pytest
from orders.models import Order
from tests.people import buy, new_type
from points.foresight import of_points
from points.models import Points
from points.services import start_giving
from tests.processes import Product, wait_for


@pytest.mark.django_db(transaction=True)
def test_a_relay_and_a_worker_run_it(product: Product, redis: object) -> None:
    order = Order.objects.get(pk=buy(new_type(), 2).id)
    start_giving(order.event_id)
    assert [one.effect.name for one in of_points([order.pk])] == ["SAFE"]
    own = {"DJANGO_SETTINGS_MODULE": "guide_settings"}
    product.relay(**own)
    product.worker("worker-1", **own)
    wait_for(Points.objects.filter(order=order, number=20).exists, "points")
    assert [one.effect.name for one in of_points([order.pk])] == ["NOTHING"]
"""


def blocks() -> dict[str, str]:
    """Each file of the guide and what it holds."""
    return {match["file"]: match["code"] for match in BLOCK.finditer(GUIDE.read_text())}


def test_every_python_block_says_its_file() -> None:
    assert None not in blocks()
    assert len(blocks()) == GUIDE.read_text().count("```python")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guide's app, as its reader would have it after the last step."""
    folder = tmp_path_factory.mktemp("guide")
    for file, code in blocks().items():
        # `tests` is the house's own package.
        path = folder / file.replace("tests/", "tests_of_")
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
    (folder / "points" / "__init__.py").touch()
    with (folder / "points" / "handlers.py").open("a") as handlers:
        handlers.write("\nfrom . import bank, nightly  # noqa: E402, F401\n")
    (folder / "tests_of_points" / "test_real_processes.py").write_text(REAL_PROCESSES)
    (folder / "guide_settings.py").write_text(SETTINGS)
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.conftest"]\n')
    return folder


def run(folder: Path, *words: str, without: Sequence[str] = ()) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in without}
    environment |= {
        "PYTHONPATH": f"{folder}:{ROOT}",
        "DJANGO_SETTINGS_MODULE": "guide_settings",
    }
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_guides_code_and_its_tests_run(folder: Path) -> None:
    run(folder, str(ROOT / "manage.py"), "makemigrations", "points")
    run(folder, str(ROOT / "manage.py"), "check")
    said = run(folder, "-m", "pytest", "-v", *OPTIONS, str(folder), without=OUR_SERVERS)
    tests = sum(code.count("\ndef test_") for code in blocks().values()) + 1
    assert said.count(" PASSED ") == tests > 8


def test_the_guides_code_is_in_the_houses_form(tmp_path: Path) -> None:
    for file, code in blocks().items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(code)
    house = ("--config", str(ROOT / "pyproject.toml"), "--no-cache")
    run(tmp_path, "-m", "ruff", "check", *house, "--ignore", "S101,I001", str(tmp_path))
    run(tmp_path, "-m", "ruff", "format", "--check", *house, str(tmp_path))
