"""One job in one thread: its handler, its effects in one transaction, its outcome as a value."""

import contextlib
import dataclasses
import enum
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from django.db import close_old_connections, transaction

from . import metrics, outage, outbox
from .correlation import correlated
from .errors import error_line, traceback_text
from .failpoint import failpoint
from .job import Job
from .pool import Pool
from .registry import Kind

logger = logging.getLogger(__name__)


class Outcome(enum.Enum):
    """How a run ended. Only an outcome whose decision is committed acknowledges the entry."""

    PROCESSED = "done"
    ALREADY_PROCESSED = "duplicate"
    RETRY = "retry"
    REFUSED = "refused"
    UNDECIDED = "undecided"

    @property
    def acknowledges(self) -> bool:
        """Whether the entry's news is settled.

        An undecided one (an outage) stays pending and is run again; a refused one stays pending.
        """
        return self in (Outcome.PROCESSED, Outcome.ALREADY_PROCESSED, Outcome.RETRY)


class EffectsMissing(RuntimeError):
    """The handler returned without a committed `effects()`: a programming error in it."""


class Run:
    """The desk of one running job (`job.Desk`)."""

    def __init__(self, job: Job[Any], kind: Kind[Any], worker: str, pool: Pool) -> None:
        self._job = dataclasses.replace(job, desk=self)
        self._kind = kind
        self._worker = worker
        self._pool = pool
        self._started = time.monotonic()
        self._inside = False
        self.committed = False
        self.lost: Exception | None = None

    def handle(self) -> None:
        """Run the handler; raises what it raises."""
        self._kind.handle(self._job)

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
            outbox.move_to_processed(
                self._job, dataclasses.asdict(self._job.args), self._worker, ms
            )
        except (outbox.AlreadyProcessed, outbox.UnknownJob) as lost:
            # Remembered here: a handler may swallow it and return as if all were well.
            self.lost = lost
            raise

    def nothing_to_do(self) -> None:
        """Record that the state was there already. Raises RuntimeError outside of `effects()`."""
        if not self._inside:
            raise RuntimeError("nothing_to_do() belongs inside effects()")
        outbox.note_nothing_to_do(self._job.outbox_id)

    def compute[**P, R](self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run CPU work in the pool, bounded by the kind's timeout; see `Pool.compute`."""
        return self._pool.compute(self._kind.policy.timeout, function, *args, **kwargs)


def run_job(job: Job[Any], entry_id: str, kind: Kind[Any], worker: str, pool: Pool) -> Outcome:
    """Run one job in this thread and decide how it ended. Raises nothing."""
    with correlated(job.request_id, job.trace):
        started = time.monotonic()
        outcome = _settled(Run(job, kind, worker, pool), job, entry_id, kind)
        seconds = time.monotonic() - started
        metrics.JOBS_FINISHED.labels(kind.name, outcome.value).inc()
        metrics.HANDLER_SECONDS.labels(kind.name).observe(seconds)
        _log(job, entry_id, outcome, seconds)
        return outcome


def _settled(run: Run, job: Job[Any], entry_id: str, kind: Kind[Any]) -> Outcome:
    try:
        close_old_connections()
        return _attempt(run, job, entry_id, kind)
    except BaseException as error:
        logger.error("job not decided: %s", error_line(error), extra=_about(job, entry_id))
        return Outcome.UNDECIDED
    finally:
        with contextlib.suppress(Exception):
            close_old_connections()


def _attempt(run: Run, job: Job[Any], entry_id: str, kind: Kind[Any]) -> Outcome:
    error: BaseException | None = None
    try:
        run.handle()
    except BaseException as raised:
        error = raised
    if run.committed:
        if error is not None:
            logger.warning("raised after its commit: %s", error_line(error), extra=_about(job))
        return Outcome.PROCESSED
    if isinstance(run.lost, outbox.AlreadyProcessed):
        return Outcome.ALREADY_PROCESSED
    return _failed(run.lost or error or EffectsMissing(kind.name), job, entry_id, kind)


def _failed(error: BaseException, job: Job[Any], entry_id: str, kind: Kind[Any]) -> Outcome:
    if outage.is_outage(error):
        # A commit that raised may have happened all the same: look before deciding.
        close_old_connections()
        done = job.outbox_id in outbox.processed_among([job.outbox_id])
        logger.warning("outage: %s", error_line(error), extra=_about(job, entry_id))
        return Outcome.PROCESSED if done else Outcome.UNDECIDED
    logger.error(
        "job failed: %s\n%s", error_line(error), traceback_text(error),
        extra=_about(job, entry_id),
    )  # fmt: skip
    if isinstance(error, outbox.UnknownJob):
        return Outcome.REFUSED
    outbox.retry_later(job.outbox_id, entry_id, kind.policy.delay, error_line(error))
    return Outcome.RETRY


def _about(job: Job[Any], entry_id: str = "") -> dict[str, Any]:
    return {"kind": job.kind, "outbox_id": job.outbox_id, "entry_id": entry_id}


def _log(job: Job[Any], entry_id: str, outcome: Outcome, seconds: float) -> None:
    extra = {**_about(job, entry_id), "action": "job", "result": outcome.value}
    logger.info("%s %s", job.kind, outcome.value, extra={**extra, "seconds": round(seconds, 4)})
