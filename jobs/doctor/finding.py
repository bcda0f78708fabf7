"""What the doctor found, how bad it is, and how to mend it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How a finding is."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "WRONG"
    NO_ANSWER = "NO ANSWER"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, and how to mend it."""

    level: Level
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        mend = f"\n{'':11}{self.remedy}" if self.remedy else ""
        return f"{self.level:<11}{self.what}{mend}"


def exit_code(findings: Sequence[Finding]) -> int:
    """2 where a server did not answer, else 1 where something is wrong, else 0."""
    levels = {finding.level for finding in findings}
    return 2 if Level.NO_ANSWER in levels else int(Level.WRONG in levels)
