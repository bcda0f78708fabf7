"""The jobs of the machinery itself: it forgets what its time is over for."""

from dataclasses import dataclass

from django.utils import timezone

from . import purging, shelves
from .job import Job
from .outbox import enqueue
from .policy import GiveUp, Policy
from .registry import Lane, handler
from .schedule import ONCE, Schedule, declare

PURGE = Policy(attempts=8, base=10, timeout=60, hold_after=0)


@dataclass(frozen=True)
class NoArgs:
    """All of it."""


@dataclass(frozen=True)
class ShelfArgs:
    """Which shelf, and the last key before what is left of it."""

    shelf: str
    cursor: int


@handler("purge", policy=PURGE, lane=Lane.BULK)
def purge(job: Job[NoArgs]) -> None:
    """State: each shelf has the job that clears it."""
    with job.effects():
        for shelf in shelves.registered():
            enqueue("purge_shelf", shelf=shelf.name, cursor=0)


@handler("purge_shelf", policy=PURGE, lane=Lane.BULK)
def purge_shelf(job: Job[ShelfArgs]) -> None:
    """State: what is past its time is gone from the shelf, or what is left has a job."""
    shelf = shelves.shelf_named(job.args.shelf)
    if shelf is None:
        raise GiveUp(f"there is no shelf {job.args.shelf}")
    left = purging.sweep(shelf, job.args.cursor, timezone.now())
    with job.effects():
        if left is not None:
            enqueue("purge_shelf", shelf=shelf.name, cursor=left)


declare(
    Schedule(
        name="purge", words="Forgets what its time is over for: old jobs, files, words of emails",
        cron="15 4 * * *", kind="purge", catch_up=ONCE, grace=3600,
    )
)  # fmt: skip
