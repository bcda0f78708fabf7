"""One examination: each server, then what they and the settings are to each other."""

from collections.abc import Callable, Iterator
from functools import partial

from jobs.checks import check_schedules, check_settings
from jobs.errors import error_line

from .clocks import compared
from .database import database
from .finding import Finding, Level
from .stream_server import stream_server

MEND_REDIS = "Start it, or mend REDIS_URL (address, user, password)."
MEND_POSTGRES = (
    "Start it, mend DATABASE_URL (address, user, password), or run `manage.py migrate` where "
    "tables are missing."
)


def examine(url: str) -> Iterator[Finding]:
    """Every finding about the stream's server `url`, PostgreSQL and the settings. Raises nothing.

    Lazy: each finding comes as soon as it is known.
    """
    ahead: dict[str, float] = {"host": 0.0}
    yield from _of_server("Redis", partial(stream_server, url, ahead), MEND_REDIS)
    yield from _of_server("PostgreSQL", partial(database, ahead), MEND_POSTGRES)
    yield from compared(ahead)
    yield from _settings()


def _of_server(name: str, look: Callable[[], Iterator[Finding]], remedy: str) -> Iterator[Finding]:
    # Whatever it was: a look that ended half way must not pass for one that found all in order.
    try:
        yield from look()
    except Exception as error:
        what = f"{name} does not answer as it should: {error_line(error)}"
        yield Finding(Level.NO_ANSWER, what, remedy)


def _settings() -> Iterator[Finding]:
    problems = [*check_settings(None), *check_schedules(None)]
    for problem in problems:
        yield Finding(Level.WRONG, problem.msg, problem.hint or "")
    if not problems:
        yield Finding(Level.OK, "the settings of lease, grace and timeouts agree with each other")
