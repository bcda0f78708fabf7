"""The stream's server: version, persistence, eviction, the group."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.conf import settings

from jobs.stream import MayNotAsk, StreamView

from .clocks import seconds_ahead
from .finding import Finding, Level

REDIS_LEAST = (7, 0)


def stream_server(url: str, ahead: dict[str, float]) -> Iterator[Finding]:
    """Every finding about it; notes in `ahead` how its clock goes.

    Raises StreamAway, StreamRefused or ValueError where there is no looking at it.
    """
    with contextlib.closing(StreamView(url)) as view:
        for look in (_version, _persistence, _eviction, _group):
            yield from _if_asked(look, view)
        try:
            ahead["Redis"] = seconds_ahead(view.clock)
        except MayNotAsk as error:
            yield _may_not(error)


def _if_asked(look: Callable[[StreamView], Finding], view: StreamView) -> Iterator[Finding]:
    try:
        yield look(view)
    except MayNotAsk as error:
        yield _may_not(error)


def _may_not(error: MayNotAsk) -> Finding:
    return Finding(
        Level.WARNING,
        f"Redis: may not ask: {error}",
        "Allow this user the command (ACL SETUSER), or look there yourself.",
    )


def _version(view: StreamView) -> Finding:
    return version(view.info())


def version(info: Mapping[str, Any]) -> Finding:
    """Of what INFO says; another server names the version of Redis that it stands for."""
    speaks = str(info.get("redis_version", "0"))
    own = info.get("valkey_version")
    name = f"Valkey {own}, which speaks Redis {speaks}" if own else f"Redis {speaks}"
    if tuple(map(int, re.findall(r"\d+", speaks)[:2])) >= REDIS_LEAST:
        return Finding(Level.OK, name)
    return Finding(Level.WRONG, f"{name} is too old", "Use Redis 7.0 or Valkey 7.2, or later.")


def _persistence(view: StreamView) -> Finding:
    if view.setting("appendonly") == "yes":
        return Finding(Level.OK, "Redis keeps what it has: appendonly yes")
    return Finding(
        Level.WARNING,
        "Redis forgets everything when it restarts: appendonly is no. No job is lost, all "
        "that are not done are published again",
        "CONFIG SET appendonly yes, and the same in its configuration file.",
    )


def _eviction(view: StreamView) -> Finding:
    policy = view.setting("maxmemory-policy")
    if policy == "noeviction":
        return Finding(Level.OK, "Redis throws nothing away: maxmemory-policy noeviction")
    return Finding(
        Level.WRONG,
        f"Redis may throw the stream away when its memory is full: maxmemory-policy {policy}",
        "CONFIG SET maxmemory-policy noeviction, and the same in its configuration file; "
        "a cache goes on another server (CACHE_URL).",
    )


def _group(view: StreamView) -> Finding:
    name = f"the group {settings.JOBS['GROUP']!r} of the stream {settings.JOBS['STREAM']!r}"
    if view.has_group():
        return Finding(Level.OK, f"{name} is there")
    return Finding(Level.WRONG, f"{name} is missing", "Start a relay: it makes the group.")
