"""Blocks marked `console` in the docs: commands after `$ `, and what they answer.

A command goes on in the next line after a backslash. Where lines of answer follow it they must be
those; `...` in a line stands for anything in it, alone for any lines. Each command ends with code
0, unless it says `; echo $?` and shows another.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = "$ "


@dataclass
class Command:
    """One command, and what it should answer; nothing where that is not told."""

    line: int
    text: str
    answer: list[str] = field(default_factory=list)

    def answers(self, said: str) -> bool:
        """Whether `said` is what the page shows."""
        if not self.answer:
            return True
        lines = [_line(line) for line in self.answer]
        return re.fullmatch("".join(lines), said.rstrip("\n") + "\n") is not None


def _line(line: str) -> str:
    if line == "...":
        return r"(?:.*\n)*"
    return ".*".join(re.escape(part) for part in line.split("...")) + r"\n"


def commands(page: Path) -> list[Command]:
    """Every command of the page, in order."""
    text = page.read_text()
    found: list[Command] = []
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1)) + 1
        for number, line in enumerate(block[1].splitlines(), start=first):
            if line.startswith(PROMPT):
                found.append(Command(number, line.removeprefix(PROMPT)))
            elif found[-1].text.endswith("\\"):
                found[-1].text += f"\n{line}"
            else:
                found[-1].answer.append(line)
    return found
