"""What the answers to “Where is my ticket?” are made of."""

from collections.abc import Iterable
from dataclasses import dataclass

from jobs.processes import alive
from jobs.story import UNFINISHED, Happening, State

from .models import Delivery
from .timeline import dead_job_page
from .times import clock

BY_ITSELF = "Nothing to do: it goes on by itself."
NOBODY = "Nothing to do here: it goes on as soon as a {} is at work, and none is now."


@dataclass(frozen=True, slots=True)
class Answer:
    """`text`: the state now. `todo`: what staff can do. `url`: the page of the dead job in it."""

    text: str
    todo: str
    tone: str = ""
    url: str = ""


def on_its_way() -> str:
    """What to do about a job that is not done: nothing, if somebody is at work to do it."""
    missing = [role for role in ("relay", "worker") if not alive(role)]
    return NOBODY.format(" and a ".join(missing)) if missing else BY_ITSELF


def came_back(email: Delivery) -> str:
    """When and why an email that was accepted bounced."""
    at = f" at {clock(email.bounced_at)}" if email.bounced_at else ""
    return f"The email bounced{at}: {email.get_bounce_display()}."


def open_job(story: Iterable[Happening], *kinds: str) -> Happening | None:
    """The newest job of these kinds that is not done, a dead one only where none goes on."""
    found = [
        line for line in story if line.kind in kinds and line.what in (*UNFINISHED, State.DEAD)
    ]
    return max(found, key=lambda line: (line.what != State.DEAD, line.outbox_id), default=None)


def dead(text: str, job: Happening, otherwise: str) -> Answer:
    """`text`, why that is so, and what to do but replay."""
    return Answer(
        f"{text}: job {job.outbox_id} is dead since {clock(job.at)}, {job.note}.",
        f"Look at the reason, then replay the job or {otherwise}.",
        "bad",
        dead_job_page(job.outbox_id),
    )


def state_of(job: Happening) -> str:
    """Where a job that is not done stands."""
    words = {
        State.DUE: f"job {job.outbox_id} is due since",
        State.WAITING: f"job {job.outbox_id} is tried again at",
        State.HELD: f"{job.kind} is held by {job.by} until",
        State.WITH_WORKERS: f"job {job.outbox_id} is with the workers since",
    }[State(job.what)]
    note = f" ({job.note})" if job.note else ""
    return f"{words} {clock(job.at)}{note}"
