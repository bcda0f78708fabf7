"""Burial: the row is marked dead and committed, then the letter is added to `jobs:dead`.

A letter that cannot be added is no loss: the outbox row keeps the whole story.
"""

import contextlib
import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from django.conf import settings

from . import conclusion, dead_rows, metrics, rows
from .conclusion import Dead, Failure
from .errors import error_line, storable
from .failpoint import failpoint
from .job import MalformedJob, parse_outbox_id
from .outage import told
from .stream import Entry, Letters

logger = logging.getLogger(__name__)
LOOK_AGAIN = 600.0
"""Seconds between two looks at every letter where the numbers say that all is well."""
ADD_FOR = 1.0
"""Seconds for which a look adds letters: the relay publishes nothing meanwhile, 10,000 take 24."""


def bury(letters: Letters, entry: Entry, outbox_id: int, reason: str, failure: Failure) -> bool:
    """Stop trying the job of `entry`; False where its publication was concluded already.

    Raises a database error; nothing is changed then.
    """
    dead = conclusion.mark_dead(outbox_id, entry.id, reason, failure)
    if dead:
        post(letters, entry, dead, failure)
    return dead is not None


def bury_malformed(letters: Letters, entry: Entry, error: MalformedJob, worker: str) -> None:
    """An entry that does not parse: its row is dead at once, or the entry is kept as refused."""
    failure = Failure(error_line(error), "", worker)
    outbox_id = parse_outbox_id(entry.fields) or rows.row_of_entry(entry.id)
    if outbox_id and bury(letters, entry, outbox_id, f"malformed: {error}", failure):
        return
    state = rows.row_states([outbox_id]).get(outbox_id) if outbox_id else None
    if state is None or not state.dead:
        refuse(letters, entry, f"malformed: {error}", worker)


def refuse(letters: Letters, entry: Entry, reason: str, worker: str) -> None:
    """An entry that no row stands behind: kept with its raw bytes, and never run."""
    conclusion.refuse(entry.id, entry.fields, reason, worker)
    metrics.ENTRIES_REFUSED.labels(reason.partition(":")[0]).inc()
    post(letters, entry, Dead(reason, 0), Failure(reason, "", worker))


def post(letters: Letters, entry: Entry, dead: Dead, failure: Failure) -> None:
    """Add the letter of what was just marked dead. Raises nothing."""
    failpoint("dead_letters.marked")
    logger.error(
        "buried: %s: %s", storable(dead.reason), failure.error.partition(":")[0],
        extra={"action": "buried", "entry_id": entry.id, "attempts": dead.attempts},
    )  # fmt: skip
    metrics.JOBS_BURIED.inc()
    try:
        _add(letters, entry, dead, failure)
    except Exception as error:
        logger.warning("no letter for entry %s yet: %s", entry.id, told(error))
    failpoint("dead_letters.posted")


def take_away(letters: Sequence[str]) -> None:
    """After a replay or discard. Raises nothing: reconcile finds what stays."""
    if not letters:
        return
    try:
        with contextlib.closing(Letters(settings.REDIS_URL)) as stream:
            stream.remove(letters)
    except Exception as error:
        logger.warning("%d letters stay for now: %s", len(letters), told(error))


def _add(letters: Letters, entry: Entry, dead: Dead, failure: Failure) -> None:
    deliveries = letters.deliveries(entry.id)
    about = {
        "error": failure.error or dead.reason,
        "traceback": failure.traceback,
        "failed_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "attempts": str(dead.attempts),
        "deliveries": str(deliveries),
        "worker": failure.by,
        "entry_id": entry.id,
        "row": str(dead.outbox_id or ""),
    }
    letter = letters.add(entry.fields, about)
    if not dead_rows.note_letter(about["row"] or entry.id, letter, deliveries=deliveries):
        # Somebody was quicker: it is replayed or discarded already, or has its letter.
        letters.remove([letter])


class Looked:
    """When this process last looked at every letter, by the monotonic clock."""

    at = float("-inf")


def reconcile(letters: Letters) -> int:
    """Make `jobs:dead` match the dead rows again; returns how many letters were added or removed.

    Looked at one by one where the numbers differ, and every LOOK_AGAIN seconds: 10,000 letters are
    50 MB. One relay at a time. Raises StreamAway or a database error.
    """
    if _numbers_agree(letters) and time.monotonic() - Looked.at < LOOK_AGAIN:
        return 0
    with dead_rows.alone() as alone:
        if not alone:
            return 0
        Looked.at = time.monotonic()
        return _match(letters)


def _numbers_agree(letters: Letters) -> bool:
    there, wanted, most = letters.count(), dead_rows.count(), settings.JOBS["DEAD_MAXLEN"]
    # The server cuts in whole nodes: where there are more, a few more than the newest stay.
    return there == wanted or (wanted > most and there >= most)


def _match(letters: Letters) -> int:
    there: dict[str, str] = {}
    twice: set[str] = set()
    wrong: list[str] = []
    for letter, key in letters.read():
        if key in there:
            # The older one: its job was replayed since, and has died again.
            wrong.append(there[key])
            twice.add(key)
        there[key] = letter
    dead = dead_rows.newest(settings.JOBS["DEAD_MAXLEN"])
    wrong += [letter for key, letter in there.items() if key not in dead]
    # Before any is added: MAXLEN counts them too, and would cut off good ones.
    letters.remove(wrong)
    # The oldest first: MAXLEN cuts off what was added first.
    missing = [key for key in reversed(dead) if key not in there and dead[key]]
    added, until = 0, time.monotonic() + ADD_FOR
    for key in missing:
        added += _add_again(letters, key)
        if time.monotonic() > until:
            break  # the next look goes on
    for key in twice & dead.keys():
        dead_rows.note_letter(key, there[key], again=True)
    if added or wrong:
        logger.warning("jobs:dead: %d letters added, %d removed", added, len(wrong))
    return added + len(wrong)


def _add_again(letters: Letters, key: str) -> bool:
    story = dead_rows.letter_of(key)
    if story is None:
        return False
    letter = letters.add(story.fields, story.about)
    if not dead_rows.note_letter(key, letter, again=True):
        letters.remove([letter])
    return True
