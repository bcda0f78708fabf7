"""Cutting the way of a job: a real process ends itself by SIGKILL at a failpoint."""

import signal
from dataclasses import dataclass
from pathlib import Path

from tests.processes import Process

HIT: set[str] = set()
"""The failpoints that this run has hit; a whole run must have hit them all."""


@dataclass(frozen=True)
class Cut:
    """A failpoint, armed in one process by its environment: `place` or `place/kind`."""

    place: str
    mark: Path

    def environment(self) -> dict[str, str]:
        """What arms it."""
        return {"FAILPOINT": self.place, "FAILPOINT_MARK": str(self.mark)}

    def was_hit_by(self, process: Process) -> None:
        """Assert that the process killed itself there."""
        assert process.ended() == -signal.SIGKILL, process.log()
        assert self.mark.read_text().strip() == self.place
        HIT.add(self.place.partition("/")[0])
