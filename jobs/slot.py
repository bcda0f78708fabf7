"""A slot: the place of one job that a worker holds, from the read to its outcome."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from .concluded import About
from .job import Job
from .registry import Kind
from .stream import Entry


@dataclass(eq=False, slots=True)
class Slot:
    """One held job. A suspect may have killed a worker: it runs alone, and its start is counted.

    Only the thread that runs the job calls the three methods; the loop reads.
    """

    entry: Entry
    job: Job[Any]
    kind: Kind[Any]
    suspect: bool = False
    starts: int = 0
    attempts: int = 0
    """Runs that failed before it."""
    probe: bool = False
    """Its kind was held by the breaker: what becomes of it decides for all."""
    start_noted: bool = False
    given_up: bool = False
    error: str = ""
    """Why its last run did not succeed, for staff; `told`: the same for a log."""
    told: str = ""
    fatal: BaseException | None = None
    """Why no job can run here: a refusal of a server, a broken pool."""
    cuts: int = 0
    """Runs that ended undecided though both servers answered."""
    held_since: float = field(default_factory=time.monotonic)
    thread: int | None = None
    began: float | None = None
    """When the kind's timeout began to count; None while nothing is counted."""

    def about(self, worker: str) -> About:
        """What a line of log says of it."""
        return About(
            entry_id=self.entry.id,
            worker=worker,
            kind=self.job.kind,
            outbox_id=self.outbox_id,
            attempt=self.attempts + 1,
        )

    @property
    def outbox_id(self) -> int:
        """Whose job it is."""
        return self.job.outbox_id

    def begin(self) -> None:
        """This thread runs the job from now on."""
        self.thread = threading.get_ident()
        self.began = time.monotonic()

    def wait(self) -> None:
        """What the job waits for (a free process) is not its own time."""
        self.began = None

    def end(self) -> None:
        """No thread runs the job."""
        self.thread = None
        self.began = None

    def forgive(self, seconds: float) -> None:
        """The whole process stood still for so long: that is not the job's time."""
        if self.began is not None:
            self.began += seconds

    def seconds(self) -> float:
        """How much of its own time the job has used."""
        began = self.began
        return 0.0 if began is None else time.monotonic() - began

    @property
    def stuck(self) -> bool:
        """It runs for more than twice its timeout: nothing will end it but the process's end."""
        return self.seconds() > 2 * self.kind.policy.timeout

    @property
    def overdue(self) -> bool:
        """It runs for longer than its kind allows: its lease is not renewed any more."""
        return self.seconds() > self.kind.policy.timeout
