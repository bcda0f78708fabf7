"""One job in one thread: its handler, its effects in one transaction, its outcome as a value."""

import contextlib
import enum
import functools
import logging
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

from django.db import close_old_connections, connection

from . import concluded, conclusion, dead_letters, outage, rows
from .breaker import Breaker
from .compute_process import ProcessDied
from .conclusion import Dead, Failure
from .correlation import correlated
from .errors import Discreet, error_line, traceback_text
from .failpoint import failpoint
from .policy import Retry, Wait
from .pool import Pool, PoolBroken
from .run import Run
from .slot import Slot
from .stream import Letters

logger = logging.getLogger(__name__)
TRUST = 1.0
"""Seconds after a good job in which its thread's connection is used without a check."""
CUTS_LIMIT = 20
"""Undecided runs, with both servers at work, after which such an error counts as the job's own:
about a minute and a half of locks that were not to be had."""
_thread = threading.local()


class Outcome(enum.Enum):
    """How a run ended. Only an outcome whose decision is committed acknowledges the entry."""

    PROCESSED = "done"
    ALREADY_PROCESSED = "duplicate"
    RETRY = "retry"
    LATER = "later"
    BURIED = "dead"
    CONCLUDED = "concluded elsewhere"
    CRASHED = "crashed"
    UNDECIDED = "undecided"

    @property
    def acknowledges(self) -> bool:
        """Whether the entry's news is settled.

        An undecided one (an outage) and one whose render process died are run again.
        """
        return self not in (Outcome.CRASHED, Outcome.UNDECIDED)


class EffectsMissing(Discreet):
    """The handler returned without a committed `effects()`: a programming error in it."""


class Runner:
    """Runs jobs for the consumer `worker`; may be called from any number of threads."""

    def __init__(self, worker: str, pool: Pool, letters: Letters) -> None:
        self._worker = worker
        self._pool = pool
        self._letters = letters
        self._breaker = Breaker()

    def run(self, slot: Slot) -> Outcome:
        """Run one job in this thread and decide how it ended. Raises nothing."""
        with correlated(slot.job.request_id, slot.job.trace):
            slot.begin()
            started = time.monotonic()
            outcome = self._decided(slot)
            seconds = time.monotonic() - started
            slot.end()
            self._note(slot, outcome, seconds)
            return outcome

    def _note(self, slot: Slot, outcome: Outcome, seconds: float) -> None:
        # In an outage every slot would say the same several times a second: the loop says it once.
        level = logging.DEBUG if outcome is Outcome.UNDECIDED else logging.INFO
        concluded.note_run(slot.about(self._worker), outcome.value, seconds, level)

    def _decided(self, slot: Slot) -> Outcome:
        try:
            with _checked_connection():
                return self._attempt(slot) if self._note_start(slot) else self._bury_killer(slot)
        except BaseException as error:
            _remember(slot, error)
            slot.fatal = error if outage.is_refusal(error) else None
            if outage.is_outage(error) or slot.fatal:
                return Outcome.UNDECIDED
            return self._undecidable(error, slot)

    def _undecidable(self, error: BaseException, slot: Slot) -> Outcome:
        # A fault of ours in deciding: the handler must not be run again for ever because of it.
        if not slot.cuts:
            logger.error("job not decided", extra=_about(slot), exc_info=error)
        if slot.cuts < CUTS_LIMIT:
            return Outcome.UNDECIDED
        failure = Failure(slot.error, traceback_text(error), self._worker)
        try:
            reason = "its outcome could not be decided"
            dead_letters.bury(self._letters, slot.entry, slot.outbox_id, reason, failure)
        except Exception:
            return Outcome.UNDECIDED
        return Outcome.BURIED

    def _note_start(self, slot: Slot) -> bool:
        if slot.suspect and not slot.start_noted:
            if slot.starts >= rows.STARTS_LIMIT:
                return False
            rows.note_start(slot.outbox_id, slot.starts + 1, self._worker)
            slot.start_noted = True
            slot.starts += 1
            failpoint("runner.start_noted", slot.job.kind)
        return True

    def _bury_killer(self, slot: Slot) -> Outcome:
        reason = f"worker died {rows.STARTS_LIMIT + 1} times"
        failure = Failure(slot.error or reason, "", self._worker)
        buried = dead_letters.bury(self._letters, slot.entry, slot.outbox_id, reason, failure)
        return Outcome.BURIED if buried else Outcome.CONCLUDED

    def _attempt(self, slot: Slot) -> Outcome:
        error: BaseException | None = None
        run = Run(slot, self._worker, self._pool)
        try:
            run.handle()
        except BaseException as raised:
            error = raised
        if run.committed:
            if error is not None:
                logger.warning(
                    "raised after its commit: %s", outage.told(error), extra=_about(slot)
                )
            if not run.did_nothing:
                self._breaker.succeeded(slot)
            return Outcome.PROCESSED
        if isinstance(run.lost, conclusion.AlreadyProcessed):
            return Outcome.ALREADY_PROCESSED
        return self._failed(run.lost or error or EffectsMissing(slot.kind.name), slot)

    def _failed(self, error: BaseException, slot: Slot) -> Outcome:
        _remember(slot, error)
        if isinstance(error, PoolBroken) or outage.is_refusal(error):
            slot.fatal = error
            return Outcome.UNDECIDED
        if outage.is_outage(error):
            # A commit that raised may have happened all the same: look before deciding.
            close_old_connections()
            if slot.outbox_id in rows.processed_among([slot.outbox_id]):
                return Outcome.PROCESSED
            return Outcome.UNDECIDED if slot.cuts < CUTS_LIMIT else self._count(error, slot)
        if isinstance(error, ProcessDied):
            # As a worker's death: no attempt, but a start from now on, alone among suspects.
            logger.error("a process died under its job: %s", slot.told, extra=_about(slot))
            slot.suspect, slot.start_noted = True, False
            return Outcome.CRASHED
        if isinstance(error, conclusion.UnknownJob):
            return self._bury_unknown(error, slot)
        return self._count(error, slot)

    def _bury_unknown(self, error: BaseException, slot: Slot) -> Outcome:
        # Where it is the row's own entry, the row cannot be what the entry says: it would come for
        # ever. Else the entry is a stranger's.
        reason = f"UnknownJob: {error}"
        failure = Failure(slot.error, traceback_text(error), self._worker)
        if not dead_letters.bury(self._letters, slot.entry, slot.outbox_id, reason, failure):
            dead_letters.refuse(self._letters, slot.entry, reason, self._worker)
        return Outcome.BURIED

    def _count(self, error: BaseException, slot: Slot) -> Outcome:
        policy = slot.kind.policy
        failure = Failure(slot.error, traceback_text(error), self._worker)
        _log_failure(policy.wait_of(error) is not None, error, slot)
        decide = functools.partial(policy.after_failure, error, chance=random.random())  # noqa: S311
        verdict = conclusion.fail(slot.outbox_id, slot.entry.id, decide, failure)
        failpoint("runner.failure_counted", slot.job.kind)
        if verdict is not None and policy.burdens_kind(error):
            self._breaker.failed(slot)
        match verdict:
            case Retry():
                return Outcome.RETRY
            case Wait():
                return Outcome.LATER
            case Dead():
                dead_letters.post(self._letters, slot.entry, verdict, failure)
                return Outcome.BURIED
            case None:
                return Outcome.CONCLUDED


def _remember(slot: Slot, error: BaseException) -> None:
    slot.error, slot.told = error_line(error), outage.told(error)


def _log_failure(later: bool, error: BaseException, slot: Slot) -> None:
    if later:
        logger.warning("job waits: %s", slot.told, extra=_about(slot))
    else:
        logger.error("job failed: %s", slot.told, extra=_about(slot), exc_info=error)


@contextlib.contextmanager
def _checked_connection() -> Iterator[None]:
    # A check before every job would be one round trip in five. One that was good a moment ago may
    # be gone all the same: that is an outage, and closes it here.
    if time.monotonic() - getattr(_thread, "good_at", 0.0) > TRUST:
        close_old_connections()
    _thread.good_at = 0.0
    try:
        yield
        if connection.connection is not None and not connection.errors_occurred:
            _thread.good_at = time.monotonic()
    finally:
        if not _thread.good_at:
            with contextlib.suppress(Exception):
                close_old_connections()


def _about(slot: Slot) -> dict[str, Any]:
    return {"kind": slot.job.kind, "outbox_id": slot.outbox_id, "entry_id": slot.entry.id}
