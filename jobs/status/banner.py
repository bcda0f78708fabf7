"""What every page of the admin says where something is wrong: a few small look-ups."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from django.db import Error, connection

from jobs.models import KindHold
from jobs.outage import told

from .books import alive_within, holds_seen
from .holds import hold_line
from .queue import LATE_AFTER
from .screen import span

logger = logging.getLogger(__name__)
QUEUE = "admin:jobs_sample_changelist"
LOOK = """
SELECT
    (SELECT count(*) FROM jobs_process WHERE role = 'worker' AND seen_at > now() - recent),
    (SELECT count(*) FROM jobs_process WHERE role = 'relay' AND seen_at > now() - recent),
    (SELECT count(*) FROM jobs_process WHERE role = 'scheduler' AND seen_at > now() - recent),
    (SELECT extract(epoch FROM now() - min(due_at))::float8 FROM jobs_outbox
     WHERE dead_at IS NULL AND due_at <= now() AND kind NOT IN (
        SELECT kind FROM jobs_kind_hold WHERE until > now() AND by <> %s)),
    (SELECT count(*) FROM jobs_outbox WHERE dead_at IS NOT NULL AND discarded_at IS NULL)
        + (SELECT count(*) FROM jobs_refused_entry WHERE settled_at IS NULL)
FROM make_interval(secs => %s) AS recent
"""


@dataclass(frozen=True, slots=True)
class Alert:
    """One line of the banner; `page` names the admin page that tells more, or is empty."""

    text: str
    page: str = ""


def alerts() -> list[Alert]:
    """What is wrong now, for people. Raises nothing: a page must not fail for its banner."""
    try:
        return list(_alerts())
    except Error as error:
        logger.warning("no banner: %s", told(error))
        return [Alert("The state of the queue is not known: the database did not answer.")]


def _alerts() -> Iterator[Alert]:
    with connection.cursor() as cursor:
        cursor.execute(LOOK, [KindHold.BREAKER, alive_within()])
        workers, relays, schedulers, age, dead = cursor.fetchone()
    if not relays:
        yield Alert("No relay is at work: orders are taken, but nothing is sent. Start one.", QUEUE)
    if not workers:
        yield Alert("No worker is at work: no tickets are made or emailed. Start one.", QUEUE)
    if not schedulers:
        yield Alert(
            "No scheduler is at work: nothing that is due by the clock happens. Start one.", QUEUE
        )
    if age is not None and age > LATE_AFTER:
        yield Alert(f"The oldest job has been due for {span(age)}.", QUEUE)
    if dead:
        noun = "dead job waits" if dead == 1 else "dead jobs wait"
        yield Alert(f"{dead} {noun} for somebody.", "admin:jobs_deadjob_changelist")
    for seen in holds_seen():
        yield Alert(hold_line(seen), "admin:jobs_kindhold_changelist")
