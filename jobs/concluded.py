"""One line of log, and one count, for each entry that a worker is done with."""

import logging
from dataclasses import dataclass

from . import metrics
from .correlation import correlated

logger = logging.getLogger(__name__)
UNKNOWN = "unknown"
"""The kind of what no handler of this build goes by: a label must not be anybody's bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Which entry, of which job, in the hands of which worker; `attempt` counts from 1."""

    entry_id: str
    worker: str
    kind: str = UNKNOWN
    outbox_id: int | None = None
    attempt: int = 1

    def fields(self) -> dict[str, object]:
        """What a line of log about it carries."""
        return {
            "entry_id": self.entry_id,
            "worker": self.worker,
            "kind": self.kind,
            "outbox_id": self.outbox_id,
            "attempt": self.attempt,
        }


def note_run(about: About, result: str, seconds: float, level: int = logging.INFO) -> None:
    """Its handler ran, for so many seconds; within `correlated()`."""
    metrics.note_finished(about.kind, result, seconds)
    _log(about, result, seconds, level)


def note_unrun(about: About, result: str, request_id: str = "", trace: str = "") -> None:
    """It was not run, or handed back: what became of it."""
    metrics.JOBS_FINISHED.labels(about.kind, result).inc()
    with correlated(request_id, trace):
        _log(about, result, 0.0, logging.INFO)


def _log(about: About, result: str, seconds: float, level: int) -> None:
    logger.log(
        level, "%s %s", about.kind, result,
        extra={**about.fields(), "action": "job", "result": result, "seconds": round(seconds, 4)},
    )  # fmt: skip
