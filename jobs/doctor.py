"""Whether the servers and settings are such that the promises hold: asks, compares, names remedies.

What a server does not let this user ask is a warning: rented servers keep some to themselves.
"""

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from time import time as host_clock
from typing import Any

from django.conf import settings
from django.db import connection

from .checks import check_settings
from .errors import error_line
from .stream import MayNotAsk, StreamView

REDIS_LEAST = (7, 0)
POSTGRES_LEAST = 15
CLOCK_WARNING, CLOCK_WRONG = 1.0, 5.0
"""Seconds between two clocks."""
LEASE_RENDERS = 5
"""How many times the P95 of a kind's runs the lease should be."""
NEWEST, NEWEST_OF_KIND = 20_000, 1_000
"""Processed rows that are looked at, in all and of each kind."""
P95 = """
SELECT percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms) / 1000 AS seconds, kind
FROM (
    SELECT kind, duration_ms, row_number() OVER (PARTITION BY kind ORDER BY outbox_id DESC) AS place
    FROM (SELECT * FROM jobs_processed ORDER BY outbox_id DESC LIMIT %s) AS newest
) AS numbered
WHERE place <= %s GROUP BY kind ORDER BY seconds DESC
"""
"""Without an index on the kind: by the primary key, and never through the whole table."""


class Level(StrEnum):
    """How a finding is."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "WRONG"
    NO_ANSWER = "NO ANSWER"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, and how to mend it."""

    level: Level
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        mend = f"\n{'':11}{self.remedy}" if self.remedy else ""
        return f"{self.level:<11}{self.what}{mend}"


def exit_code(findings: Sequence[Finding]) -> int:
    """2 where a server did not answer, else 1 where something is wrong, else 0."""
    levels = {finding.level for finding in findings}
    return 2 if Level.NO_ANSWER in levels else int(Level.WRONG in levels)


def examine(url: str) -> Iterator[Finding]:
    """Every finding about the stream's server `url`, PostgreSQL and the settings. Raises nothing.

    Lazy: each finding comes as soon as it is known.
    """
    ahead: dict[str, float] = {"host": 0.0}
    yield from _of_server("Redis", "REDIS_URL", partial(_redis, url, ahead))
    yield from _of_server("PostgreSQL", "DATABASE_URL", partial(_postgres, ahead))
    yield from clocks(ahead)
    yield from _settings()


def _of_server(
    name: str, variable: str, look: Callable[[], Iterator[Finding]]
) -> Iterator[Finding]:
    # Whatever it was: a look that ended half way must not pass for one that found all in order.
    try:
        yield from look()
    except Exception as error:
        yield Finding(
            Level.NO_ANSWER,
            f"{name} does not answer as it should: {error_line(error)}",
            f"Start it, or mend {variable} (address, user, password); tables: `manage.py migrate`.",
        )


def _redis(url: str, ahead: dict[str, float]) -> Iterator[Finding]:
    with contextlib.closing(StreamView(url)) as view:
        for look in (_redis_version, _persistence, _eviction, _group):
            yield from _if_asked(partial(look, view))
        yield from _if_asked(partial(_measure, ahead, "Redis", view.clock))


def _if_asked(look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from look()
    except MayNotAsk as error:
        yield Finding(
            Level.WARNING,
            f"Redis: may not ask: {error}",
            "Allow this user the command (ACL SETUSER), or look there yourself.",
        )


def _redis_version(view: StreamView) -> Iterator[Finding]:
    info = view.info()
    yield redis_version(info)


def redis_version(info: Mapping[str, Any]) -> Finding:
    """Of what INFO says; another server names the version of Redis that it stands for."""
    speaks = str(info.get("redis_version", "0"))
    own = info.get("valkey_version")
    name = f"Valkey {own}, which speaks Redis {speaks}" if own else f"Redis {speaks}"
    if tuple(map(int, re.findall(r"\d+", speaks)[:2])) >= REDIS_LEAST:
        return Finding(Level.OK, name)
    return Finding(Level.WRONG, f"{name} is too old", "Use Redis 7.0 or Valkey 7.2, or later.")


def _persistence(view: StreamView) -> Iterator[Finding]:
    if view.setting("appendonly") == "yes":
        yield Finding(Level.OK, "Redis keeps what it has: appendonly yes")
    else:
        yield Finding(
            Level.WARNING,
            "Redis forgets everything when it restarts: appendonly is no. No job is lost, all "
            "that are not done are published again",
            "CONFIG SET appendonly yes, and the same in its configuration file.",
        )


def _eviction(view: StreamView) -> Iterator[Finding]:
    policy = view.setting("maxmemory-policy")
    if policy == "noeviction":
        yield Finding(Level.OK, "Redis throws nothing away: maxmemory-policy noeviction")
    else:
        yield Finding(
            Level.WRONG,
            f"Redis may throw the stream away when its memory is full: maxmemory-policy {policy}",
            "CONFIG SET maxmemory-policy noeviction, and the same in its configuration file; "
            "a cache goes on another server (CACHE_URL).",
        )


def _group(view: StreamView) -> Iterator[Finding]:
    name = f"the group {settings.JOBS['GROUP']!r} of the stream {settings.JOBS['STREAM']!r}"
    if view.has_group():
        yield Finding(Level.OK, f"{name} is there")
    else:
        yield Finding(Level.WRONG, f"{name} is missing", "Start a relay: it makes the group.")


def _measure(
    ahead: dict[str, float], name: str, server_clock: Callable[[], float]
) -> Iterator[Finding]:
    before = host_clock()
    there = server_clock()
    # It was asked half way, as far as anybody knows.
    ahead[name] = there - (before + host_clock()) / 2
    yield from ()


def clocks(ahead: Mapping[str, float]) -> Iterator[Finding]:
    """Of each two clocks; `ahead`: seconds that each is ahead of the host's own."""
    for one, other in itertools.combinations(ahead, 2):
        apart = abs(ahead[one] - ahead[other])
        what = f"the clocks of {one} and {other} are {apart:.1f} s apart"
        if apart <= CLOCK_WARNING:
            yield Finding(Level.OK, what)
        else:
            level = Level.WRONG if apart > CLOCK_WRONG else Level.WARNING
            yield Finding(level, what, "Let all hosts keep time with NTP (chronyc tracking).")


def _postgres(ahead: dict[str, float]) -> Iterator[Finding]:
    # Before a clock is read: the first question waits for the connection.
    yield postgres_version(int(_one("SHOW server_version_num")))
    yield from _measure(ahead, "PostgreSQL", _database_clock)
    yield _lease()


def _database_clock() -> float:
    return float(_one("SELECT extract(epoch FROM clock_timestamp())::float8"))


def _one(statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


def postgres_version(number: int) -> Finding:
    """Of PostgreSQL's own number, e.g. 180001."""
    name = f"PostgreSQL {number // 10_000}.{number % 10_000}"
    if number // 10_000 >= POSTGRES_LEAST:
        return Finding(Level.OK, name)
    return Finding(
        Level.WRONG, f"{name} is too old", f"Use PostgreSQL {POSTGRES_LEAST} or later."
    )  # fmt: skip


def _lease() -> Finding:
    with connection.cursor() as cursor:
        cursor.execute(P95, [NEWEST, NEWEST_OF_KIND])
        slowest = cursor.fetchone()
    lease = settings.JOBS["LEASE"]
    if slowest is None:
        return Finding(Level.OK, f"a lease of {lease:g} s; no job was processed yet")
    seconds, kind = slowest
    what = f"a lease of {lease:g} s, and 95 % of {kind}, the slowest kind, take {seconds:.2g} s"
    if lease >= LEASE_RENDERS * seconds:
        return Finding(Level.OK, what)
    return Finding(
        Level.WARNING,
        f"{what}: less than {LEASE_RENDERS} times that, a worker that renews late is robbed",
        f"Set JOBS_LEASE to {LEASE_RENDERS * seconds:.0f} s or more, or see why it takes so long.",
    )


def _settings() -> Iterator[Finding]:
    problems = check_settings(None)
    for problem in problems:
        yield Finding(Level.WRONG, problem.msg, problem.hint or "")
    if not problems:
        yield Finding(Level.OK, "the settings of lease, grace and timeouts agree with each other")
