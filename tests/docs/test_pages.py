"""The docs name tests, functions, files and headings that exist."""

import importlib
import inspect
import re
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pytest

from stagedoor import __version__
from tests.processes import ROOT

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
ARCHITECTURE = ROOT / "docs" / "architecture.md"
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`")
ARROW = re.compile(r"^\| [^|]+ \| (T\d+)?[^|]* \| `([\w.]+)` \| [^|]+ \|$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")


def named_tests() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        yield from TEST.findall(page.read_text())


def test_every_test_that_is_named_exists() -> None:
    named = set(named_tests())
    assert len(named) > 60
    missing = [
        f"{file}::{name}" for file, name in sorted(named)
        if not (ROOT / file).is_file() or f"def {name}" not in (ROOT / file).read_text()
    ]  # fmt: skip
    assert missing == []


def test_every_promise_names_a_test() -> None:
    parts = re.split(r"^\*\*(P\d+)\*\* ", ARCHITECTURE.read_text(), flags=re.MULTILINE)
    promises = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert set(promises) == {f"P{number}" for number in range(1, 11)}
    assert [name for name, text in promises.items() if not TEST.search(text)] == []


def arrows() -> list[tuple[str, str]]:
    return ARROW.findall(ARCHITECTURE.read_text())


def found(path: str) -> object:
    """What `path` leads to, the module as far as there is one."""
    words = path.split(".")
    depth = max(n for n in range(1, len(words) + 1) if is_module(words[:n]))
    module = importlib.import_module(".".join(words[:depth]))
    return reduce(getattr, words[depth:], module)


def is_module(words: list[str]) -> bool:
    place = ROOT.joinpath(*words)
    return place.is_dir() or place.with_suffix(".py").is_file()


@pytest.mark.parametrize(("transaction", "path"), arrows())
def test_every_arrow_names_a_function_which_says_its_transaction(
    transaction: str, path: str
) -> None:
    function = found(path)
    assert callable(function)
    module = inspect.getmodule(function)
    assert module is not None
    said = f"{inspect.getdoc(module)} {inspect.getdoc(function)}"
    assert not transaction or re.search(rf"\b{transaction}\b", said) or path in CALLED_IN


CALLED_IN = {"jobs.outbox.mark_unpublishable"}
"""Functions of a transaction that a caller opens: a relay step."""


def test_every_arrow_of_the_table_is_read() -> None:
    text = ARCHITECTURE.read_text()
    table = text[text.index("| arrow |") : text.index("An **acknowledgement**")]
    assert len(arrows()) == table.strip().count("\n") - 1


def anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def headings(page: Path) -> set[str]:
    return {anchor(line) for line in re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    astray = []
    for path, fragment in LINK.findall(page.read_text()):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (fragment and fragment not in headings(target)):
            astray.append(f"{path}#{fragment}")
    assert astray == []


def test_the_changelog_tells_of_this_version() -> None:
    releases = re.findall(r"^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$", CHANGELOG, re.MULTILINE)
    assert releases[0] == __version__
