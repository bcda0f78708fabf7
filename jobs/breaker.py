"""The circuit breaker: a kind whose runs fail one after the other is held for a while.

Counted in this worker's memory: a success costs nothing, and each worker finds out for itself.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable

from . import holds, metrics, outage
from .slot import Slot

logger = logging.getLogger(__name__)


class Breaker:
    """Told of every run's end, by any number of threads. Raises nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_a_row: defaultdict[str, set[int]] = defaultdict(set)

    def succeeded(self, slot: Slot) -> None:
        """A run did what it should: its kind is let go where it was held."""
        name = slot.kind.name
        with self._lock:
            failed = self._in_a_row.pop(name, set())
        if failed or slot.probe:
            self._try(lambda: self._release(name))

    def failed(self, slot: Slot) -> None:
        """A run failed: after enough jobs in a row the kind is held, never after one alone."""
        name, limit = slot.kind.name, slot.kind.policy.hold_after
        if not limit:
            return
        with self._lock:
            self._in_a_row[name].add(slot.outbox_id)
            trips = slot.probe or len(self._in_a_row[name]) >= limit
            if trips:
                del self._in_a_row[name]
        if trips:
            self._try(lambda: self._trip(name, slot))

    def _trip(self, kind: str, slot: Slot) -> None:
        if seconds := holds.trip(kind, slot.error):
            metrics.BREAKER_TRIPS.labels(kind).inc()
            logger.error(
                "holds %s for %.0f s: its jobs fail one after the other: %s",
                kind, seconds, slot.told, extra={"action": "hold kind", "kind": kind},
            )  # fmt: skip

    def _release(self, kind: str) -> None:
        if holds.release(kind):
            logger.warning(
                "lets %s go: a job of it succeeded", kind,
                extra={"action": "release kind", "kind": kind},
            )  # fmt: skip

    def _try(self, change: Callable[[], None]) -> None:
        # The run's own outcome is committed: what fails here must not undo it.
        try:
            change()
        except Exception as error:
            logger.warning("the breaker could not change a hold: %s", outage.told(error))
