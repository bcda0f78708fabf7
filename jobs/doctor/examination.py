"""One examination: each server, then what they and the settings are to each other."""

from collections.abc import Callable, Iterator
from functools import partial

from jobs.checks import check_settings
from jobs.errors import error_line

from .clocks import compared
from .database import database
from .finding import Finding, Level
from .stream_server import stream_server


def examine(url: str) -> Iterator[Finding]:
    """Every finding about the stream's server `url`, PostgreSQL and the settings. Raises nothing.

    Lazy: each finding comes as soon as it is known.
    """
    ahead: dict[str, float] = {"host": 0.0}
    yield from _of_server("Redis", "REDIS_URL", partial(stream_server, url, ahead))
    yield from _of_server("PostgreSQL", "DATABASE_URL", partial(database, ahead))
    yield from compared(ahead)
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


def _settings() -> Iterator[Finding]:
    problems = check_settings(None)
    for problem in problems:
        yield Finding(Level.WRONG, problem.msg, problem.hint or "")
    if not problems:
        yield Finding(Level.OK, "the settings of lease, grace and timeouts agree with each other")
