"""What is kept for a time: which rows of which table, for how long, and what becomes of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings


def retention() -> float:
    """Days for which what was done stays known; one for all, or a replay would do it again."""
    return float(settings.JOBS["RETENTION_DAYS"])


@dataclass(frozen=True, kw_only=True)
class Shelf:
    """Rows of `table`, gone through by `key`. Names and conditions are SQL.

    `born`: a time that is never later for a smaller key, but for seconds: where none of a batch
    is old enough the rest is not either; empty: there are so few that all are looked at. `past`:
    which of those born before `%(until)s` go; the row is called `row`. `open`: which are looked
    at at all, for an index. `change`: what is set instead of deleting. `choose`: told the keys of a
    batch and `until`, it does what must come before, in the batch's transaction, and answers the
    keys of those rows that may go. `most`: rows in a batch, where that is fewer than PURGE_BATCH.
    """

    name: str
    table: str
    born: str
    past: str = "true"
    key: str = "id"
    open: str = "true"
    change: str = ""
    days: Callable[[], float] = retention
    choose: Callable[[list[int], datetime], list[int]] | None = None
    most: int | None = None


_shelves: dict[str, Shelf] = {}


def register(*shelves: Shelf) -> None:
    """Have these purged too. Raises ValueError for a name that is taken."""
    for shelf in shelves:
        if shelf.name in _shelves:
            raise ValueError(f"there is a shelf {shelf.name!r} already")
        _shelves[shelf.name] = shelf


def registered() -> Iterator[Shelf]:
    """Every shelf, in the order of registration."""
    return iter(_shelves.values())


def shelf_named(name: str) -> Shelf | None:
    """None where this build knows none of that name."""
    return _shelves.get(name)


NOT_OPEN = "NOT EXISTS (SELECT FROM jobs_outbox WHERE jobs_outbox.id = row.outbox_id)"
"""Its job is done: what is not done, dead or not, may still be asked about."""
NOT_NEEDED = """NOT EXISTS (SELECT FROM jobs_outbox
    WHERE jobs_outbox.id = row.outbox_id AND discarded_at IS NULL)"""
"""Its job is done, or discarded and never run again: it needs no words and no address."""

register(
    Shelf(
        name="processed", table="jobs_processed", key="outbox_id", born="created_at",
        past="row.processed_at < %(until)s",
    ),
    Shelf(name="events", table="jobs_event", born="at", past=NOT_OPEN),
    Shelf(
        name="replays", table="jobs_replay_batch", born="at",
        past="NOT EXISTS (SELECT FROM jobs_event WHERE batch_id = row.id)",
    ),
    Shelf(
        name="refused", table="jobs_refused_entry", born="refused_at",
        past="row.settled_at < %(until)s",
    ),
    Shelf(
        name="discarded", table="jobs_outbox", born="created_at", open="discarded_at IS NOT NULL",
        past="row.discarded_at < %(until)s",
    ),
    Shelf(
        name="due slots", table="jobs_scheduled_run", born="decided_at",
        # After its job: a scheduled job without its slot is what the audit looks for.
        past=f"""(row.outbox_id IS NULL OR {NOT_OPEN} AND NOT EXISTS (
            SELECT FROM jobs_processed AS job WHERE job.outbox_id = row.outbox_id))""",
    ),
    Shelf(
        name="processes", table="jobs_process", born="", past="row.seen_at < %(until)s",
        days=lambda: float(settings.JOBS["PROCESSES_KEPT_DAYS"]),
    ),
)  # fmt: skip
