"""One run of a job, as its handler sees it: `effects()`, once, in one transaction."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator

from django.db import transaction

from . import conclusion
from .failpoint import failpoint
from .pool import Pool
from .slot import Slot


class Run:
    """The desk of one running job (`job.Desk`)."""

    def __init__(self, slot: Slot, worker: str, pool: Pool) -> None:
        self._slot = slot
        self._job = dataclasses.replace(slot.job, desk=self)
        self._worker = worker
        self._pool = pool
        self._started = time.monotonic()
        self._inside = False
        self.committed = False
        self.did_nothing = False
        self.lost: Exception | None = None

    def handle(self) -> None:
        """Run the handler; raises what it raises."""
        self._slot.kind.handle(self._job)

    @contextlib.contextmanager
    def effects(self) -> Iterator[None]:
        """T3: the job's row moves to the processed table together with what the body writes.

        Raises AlreadyProcessed where another delivery won, UnknownJob where the row is not this
        job's; the body does not run then.
        """
        failpoint("runner.before_effects", self._job.kind)
        with transaction.atomic(durable=True):
            # Not after the block: Django leaves it without a word when it rolled back because an
            # error inside was swallowed, and an acknowledged job would be lost.
            transaction.on_commit(self._note_commit)
            self._move()
            failpoint("runner.moved", self._job.kind)
            self._inside = True
            try:
                yield
            finally:
                self._inside = False
            failpoint("runner.before_commit", self._job.kind)

    def _note_commit(self) -> None:
        self.committed = True
        failpoint("runner.committed", self._job.kind)

    def _move(self) -> None:
        ms = int((time.monotonic() - self._started) * 1000)
        try:
            conclusion.move_to_processed(self._job, self._worker, ms)
        except (conclusion.AlreadyProcessed, conclusion.UnknownJob) as lost:
            # Remembered here: a handler may swallow it and return as if all were well.
            self.lost = lost
            raise

    def nothing_to_do(self) -> None:
        """Record that the state was there already. Raises RuntimeError outside of `effects()`."""
        if not self._inside:
            raise RuntimeError("nothing_to_do() belongs inside effects()")
        conclusion.note_nothing_to_do(self._job.outbox_id)
        self.did_nothing = True

    def compute[**P, R](self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run CPU work in the pool, bounded by the kind's timeout; see `Pool.compute`."""
        self._slot.wait()
        try:
            return self._pool.compute(
                self._slot.kind.policy.timeout, self._slot.begin, function, *args, **kwargs
            )
        finally:
            self._slot.begin()
