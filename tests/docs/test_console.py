"""What the pages tell people to type is typed, beside a running copy."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.copies import Copy
from tests.processes import ROOT

from .console import Command, commands

PAGES = [
    page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if commands(page)
]
STAGEDOOR = f'stagedoor-admin() {{ "{sys.executable}" -m stagedoor "$@"; }}\n'
"""What an operator has on the path: there it asks systemd for a unit."""
WORDS = (("var/", "{folder}/"), ("127.0.0.1:8000", "127.0.0.1:{port}"))
"""Where the copy of a reader is, and where the copy of this test is."""


def typed(command: Command, copy: Copy) -> str:
    """What the command answers; it must end well."""
    text = command.text
    for theirs, ours in WORDS:
        text = text.replace(theirs, ours.format(folder=copy.folder, port=copy.port))
    # Within `make test` a make of its own would tell which folder it enters and leaves.
    given = {name: value for name, value in copy.environment.items() if "MAKE" not in name}
    done = subprocess.run(
        ["bash", "-c", STAGEDOOR + text], cwd=ROOT, timeout=300, text=True,
        env={**given, "DJANGO_SETTINGS_MODULE": "stagedoor.settings.development"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{text}\n{done.stdout}"
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_says_to_type_answers_as_it_shows(page: Path, copy: Copy) -> None:
    copy.wait_until_well()
    for command in commands(page):
        said = typed(command, copy)
        assert command.answers(said), f"{page.name}:{command.line} {command.text}\n{said}"
    copy.wait_until_well()


def test_an_answer_is_compared_line_by_line() -> None:
    command = Command(1, "x", ["one", "...", "three ... five"])
    assert command.answers("one\nthree and five\n")
    assert command.answers("one\ntwo\ntwo\nthree 4 five\n")
    assert not command.answers("one\ntwo\nthree 4 six\n")
    assert not command.answers("one\nthree 4 five\nsix\n")


def test_every_console_block_begins_with_a_command() -> None:
    blocks = [
        (page.name, block)
        for page in PAGES
        for block in re.findall(r"^```console\n(.*?)^```$", page.read_text(), re.M | re.S)
    ]
    assert [name for name, block in blocks if not block.startswith("$ ")] == []
    assert blocks
