"""The clocks of this host and of the servers: ages and leases are read from all of them."""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping

from .finding import Finding, Level

CLOCK_WARNING, CLOCK_WRONG = 1.0, 5.0
"""Seconds between two clocks."""


def host_clock() -> float:
    """This host's time, in seconds since 1970."""
    return time.time()


def seconds_ahead(server_clock: Callable[[], float]) -> float:
    """How far that clock is ahead of this host's."""
    before = host_clock()
    there = server_clock()
    # It was asked half way, as far as anybody knows.
    return there - (before + host_clock()) / 2


def compared(ahead: Mapping[str, float]) -> Iterator[Finding]:
    """Of each two clocks; `ahead`: seconds that each is ahead of the host's own."""
    for one, other in itertools.combinations(ahead, 2):
        apart = abs(ahead[one] - ahead[other])
        what = f"the clocks of {one} and {other} are {apart:.1f} s apart"
        if apart <= CLOCK_WARNING:
            yield Finding(Level.OK, what)
        else:
            level = Level.WRONG if apart > CLOCK_WRONG else Level.WARNING
            yield Finding(level, what, "Let all hosts keep time with NTP (chronyc tracking).")
