"""One audit: the database at one moment, then the stream's server, twice where something lacks."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from django.db import connection, transaction

from jobs.errors import error_line

from .entries import Entries, Publication
from .rules import registered

SHOWN = 20
"""Ids written out for each broken rule; the report holds all."""
ON_STREAM = "every relayed row has an entry on the stream or pending"

STATES = """
SELECT count(*) FILTER (WHERE dead_at IS NULL AND relayed_at IS NULL
        AND available_at <= statement_timestamp()) AS "due",
    count(*) FILTER (WHERE dead_at IS NULL AND relayed_at IS NULL
        AND available_at > statement_timestamp()) AS "waiting for retry",
    count(*) FILTER (WHERE dead_at IS NULL AND relayed_at IS NOT NULL) AS "relayed",
    count(*) FILTER (WHERE dead_at IS NOT NULL) AS "dead"
FROM jobs_outbox
"""
RELAYED = """
SELECT id, coalesce(entry_id, '') FROM jobs_outbox
WHERE dead_at IS NULL AND relayed_at < statement_timestamp() - make_interval(secs => %s)
ORDER BY id
"""
STILL_RELAYED = """
SELECT id, seen.entry FROM unnest(%s::bigint[], %s::text[]) AS seen (id, entry)
JOIN jobs_outbox AS job USING (id)
WHERE dead_at IS NULL AND relayed_at IS NOT NULL AND coalesce(entry_id, '') = seen.entry
ORDER BY id
"""


class CouldNotLook(Exception):
    """A server did not answer, or not as it should: nothing is proved. Stays inside this file."""


@dataclass
class Report:
    """What was seen. `states`: outbox rows by their own state; `broken`: what breaks each rule.

    `could_not_look` says why not all was seen, else empty.
    """

    states: dict[str, int] = field(default_factory=dict)
    broken: dict[str, list[str]] = field(default_factory=dict)
    could_not_look: str = ""

    @property
    def exit_code(self) -> int:
        """0 in order, 1 not in order, 2 could not look."""
        return 2 if self.could_not_look else int(any(self.broken.values()))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.states:
            yield "outbox: " + ", ".join(f"{count} {name}" for name, count in self.states.items())
        for name, keys in self.broken.items():
            yield f"BROKEN  {name}: {len(keys)}" if keys else f"ok      {name}"
            yield from (f"        {key}" for key in keys[:SHOWN])
            if len(keys) > SHOWN:
                yield f"        and {len(keys) - SHOWN} more"
        if self.could_not_look:
            yield f"could not look: {self.could_not_look}"


def audit(url: str, *, after: float, pause: float) -> Report:
    """Look at the database, then at the stream's server `url`. Raises nothing.

    A publication older than `after` seconds must be found; one that is not is sought again
    `pause` seconds later.
    """
    report = Report()
    try:
        with _looking_at("PostgreSQL"):
            relayed = _read_books(report, after)
        lost = _found_nowhere(url, relayed, pause)
        report.broken[ON_STREAM] = [f"outbox row {one.outbox_id}" for one in lost]
    except CouldNotLook as reason:
        report.could_not_look = str(reason)
    return report


@contextlib.contextmanager
def _looking_at(server: str) -> Iterator[None]:
    # Whatever it was: an audit that ended half way must not pass for one that found all in order.
    try:
        yield
    except Exception as error:
        raise CouldNotLook(f"{server}: {error_line(error)}") from error


def _read_books(report: Report, after: float) -> list[Publication]:
    # One snapshot for all: between two of them jobs move on, and what is well would look broken.
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute(STATES)
        names = [column.name for column in cursor.description]
        report.states = dict(zip(names, cursor.fetchone(), strict=True))
        for rule in registered():
            cursor.execute(rule.sql)
            report.broken[rule.name] = [str(key) for (key,) in cursor.fetchall()]
        cursor.execute(RELAYED, [after])
        return [Publication(*row) for row in cursor.fetchall()]


def _found_nowhere(url: str, relayed: list[Publication], pause: float) -> list[Publication]:
    missing = _lacking(url, relayed)
    if not missing:
        return []
    # The job may have been done, and acknowledged, since its row was read.
    time.sleep(pause)
    return _lacking(url, _still_relayed(missing))


def _lacking(url: str, publications: list[Publication]) -> list[Publication]:
    with _looking_at("Redis"), contextlib.closing(Entries(url)) as entries:
        return entries.lack(publications)


def _still_relayed(publications: list[Publication]) -> list[Publication]:
    with _looking_at("PostgreSQL"), connection.cursor() as cursor:
        entries = [one.entry_id for one in publications]
        cursor.execute(STILL_RELAYED, [[one.outbox_id for one in publications], entries])
        return [Publication(*row) for row in cursor.fetchall()]
