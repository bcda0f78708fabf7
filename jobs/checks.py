"""Start-up checks of settings and schedules; no server is asked (`jobs doctor` does)."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from .schedule import declared
from .schedule_problems import problems

LEAST_RETENTION = 30
"""Days: a deadline of a day, holds of a week, and somebody's holidays."""
STOP_MARGIN = 5.0
"""Seconds between the end of the grace and the service manager's SIGKILL, for the last words."""


@register("jobs")
def check_settings(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """What of `settings.JOBS` would lose, double or block a job."""
    return [*durations(), *stop_timeout(settings.JOBS["GRACE"])]


@register("jobs")
def check_schedules(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """What of the declared schedules would not fire, or not what it should."""
    return [
        Error(f"The schedule {name!r} {problem}.", hint="Mend its declaration.", id="jobs.E009")
        for name, problem in problems(declared())
    ]


def durations() -> Iterator[CheckMessage]:
    """Which durations and sizes are out of range, or contradict each other."""
    yield from _ranges(settings.JOBS)
    yield from _contradictions(settings.JOBS)


def _ranges(jobs: dict[str, Any]) -> Iterator[CheckMessage]:
    positive = (
        "BLOCK", "HUNG_AFTER", "LEASE", "LEASE_RENEWAL", "RECLAIM", "NAME_TTL", "NAME_WAIT",
        "HEARTBEAT", "BACKOFF_MIN", "LAG_LIMIT", "UNKNOWN_DELAY", "RELAY_POLL",
        "RECONCILE", "RECONCILE_AFTER", "HOLD_MIN", "REPLAYS_PER_SECOND",
        "BULK_LATE", "SAMPLES_KEPT", "PROBE_TIMEOUT", "TURN_LIMIT", "SCHEDULE_POLL",
        "SCHEDULE_FORGET",
    )  # fmt: skip
    for name in positive:
        if jobs[name] <= 0:
            yield _error("E001", name, f"is {jobs[name]:g}, not positive", "a number of seconds")
    for name in ("GRACE", "OUTLOOK"):
        if jobs[name] < 0:
            yield _error("E001", name, f"is {jobs[name]:g}, less than 0", "0 or more seconds")
    for name in (
        "MAXLEN",
        "MARK",
        "DEAD_MAXLEN",
        "RELAY_BATCH",
        "RENDERS_PER_PROCESS",
        "BULK_OUT",
        "PURGE_BATCH",
    ):
        if jobs[name] < 1:
            yield _error("E005", name, f"is {jobs[name]}", "1 or more")


def _contradictions(jobs: dict[str, Any]) -> Iterator[CheckMessage]:
    if jobs["LEASE"] < 3 * jobs["LEASE_RENEWAL"]:
        yield _error(
            "E002", "LEASE_RENEWAL",
            f"is {jobs['LEASE_RENEWAL']:g} s for a lease of {jobs['LEASE']:g} s: one late renewal "
            "and a job in work is taken over",
            "a third of JOBS_LEASE at most",
        )  # fmt: skip
    if jobs["NAME_WAIT"] < jobs["NAME_TTL"]:
        yield _error(
            "E003", "NAME_WAIT",
            f"is {jobs['NAME_WAIT']:g} s, shorter than JOBS_NAME_TTL ({jobs['NAME_TTL']:g} s): a "
            "worker that was killed could not start again at once",
            "JOBS_NAME_TTL and some seconds",
        )  # fmt: skip
    if jobs["BACKOFF_MAX"] < jobs["BACKOFF_MIN"]:
        yield _error("E004", "BACKOFF_MAX", "is below JOBS_BACKOFF_MIN", "more than that")
    if jobs["HOLD_MAX"] < jobs["HOLD_MIN"]:
        yield _error("E008", "HOLD_MAX", "is below JOBS_HOLD_MIN", "more than that")
    if jobs["RETENTION_DAYS"] < LEAST_RETENTION:
        yield _error(
            "E010", "RETENTION_DAYS",
            f"is {jobs['RETENTION_DAYS']:g}: a job that is held, or dead until somebody is back, "
            "could be done again after it was forgotten that it was done",
            f"{LEAST_RETENTION} or more",
        )  # fmt: skip
    if jobs["MARK"] > 0.9 * jobs["MAXLEN"]:
        yield _error(
            "E007", "MARK",
            f"is {jobs['MARK']}, too near to JOBS_MAXLEN ({jobs['MAXLEN']}): the stream would push "
            "out entries that nobody has read",
            "four fifths of JOBS_MAXLEN",
        )  # fmt: skip


def stop_timeout(grace: float) -> Iterator[CheckMessage]:
    """Whether a grace of so many seconds ends before the service manager kills the worker."""
    limit = settings.STOP_TIMEOUT
    if limit is not None and grace + STOP_MARGIN > limit:
        yield _error(
            "E006", "GRACE",
            f"is {grace:g} s, but the service manager kills after STOP_TIMEOUT={limit:g} s: what "
            "runs then would not be handed back",
            f"{limit - STOP_MARGIN:g} s at most, or raise TimeoutStopSec and STOP_TIMEOUT",
        )  # fmt: skip


def _error(number: str, name: str, problem: str, remedy: str) -> CheckMessage:
    return Error(f"JOBS_{name} {problem}.", hint=f"Set it to {remedy}.", id=f"jobs.{number}")
