"""Places where a test can cut the way of a job. They do nothing unless the settings arm them."""

from collections.abc import Callable

_armed: Callable[[str], None] | None = None

FAILPOINTS = (
    "enqueue.committed",
    "relay.appended",
    "relay.made_due",
    "relay.wrote_epoch",
    "relay.found_lost",
    "worker.read",
    "worker.sorted",
    "worker.reclaimed",
    "worker.renewed",
    "worker.handed_back",
    "runner.start_noted",
    "sending.noted",
    "sending.accepted",
    "runner.before_effects",
    "runner.moved",
    "runner.before_commit",
    "runner.committed",
    "runner.failure_counted",
    "dead_letters.marked",
    "dead_letters.posted",
    "replay.made_due",
    "replay.committed",
    "scheduler.locked",
    "scheduler.slot_written",
    "scheduler.job_written",
    "scheduler.moved",
    "scheduler.committed",
    "purging.committed",
    "files.orders_locked",
    "files.unlinked",
    "acknowledger.before",
    "acknowledger.after",
)
"""Every place there is; the suite that cuts must have hit them all."""


def failpoint(place: str, kind: str = "") -> None:
    """Mark a place between two writes; `kind` narrows what a test aims at."""
    if _armed is not None:
        _armed(f"{place}/{kind}" if kind else place)


def arm(action: Callable[[str], None] | None) -> None:
    """Call `action` with `place/kind` at each failpoint; None disarms. Test settings only."""
    global _armed
    _armed = action
