"""The job of the composition itself: the sessions of staff that are over are deleted."""

from dataclasses import dataclass

from django.contrib.sessions.backends.cached_db import SessionStore

from jobs.job import Job
from jobs.policy import Policy
from jobs.registry import Lane, handler
from jobs.schedule import ONCE, Schedule, declare


@dataclass(frozen=True)
class NoArgs:
    """All of them."""


@handler(
    "delete_sessions", policy=Policy(attempts=8, base=10, timeout=60, hold_after=0), lane=Lane.BULK
)
def delete_sessions(job: Job[NoArgs]) -> None:
    """State: no session that is over is kept. Django deletes none by itself."""
    with job.effects():
        SessionStore.clear_expired()


declare(
    Schedule(
        name="sessions", words="Deletes sessions of staff that are over",
        cron="35 4 * * *", kind="delete_sessions", catch_up=ONCE, grace=3600,
    )
)  # fmt: skip
