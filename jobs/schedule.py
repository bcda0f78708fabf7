"""Schedules: which job is due when, declared next to the handlers; pure.

declare(
    Schedule(
        name="sales_summary", words="Emails staff what was sold the day before",
        cron="0 7 * * *", tz="Europe/Berlin", kind="email_summary", catch_up=ONCE, grace=300,
    )
)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

CATCH_UP_LIMIT = 100
"""Due times that one schedule may make up for at once: they are one transaction, and no flood."""


@dataclass(frozen=True, slots=True)
class CatchUp:
    """How many of the due times that were missed fire late, the newest ones: `limit`."""

    limit: int

    def __str__(self) -> str:
        return {0: "none", 1: "one"}.get(self.limit, f"the newest {self.limit}")


SKIP = CatchUp(0)
ONCE = CatchUp(1)


def all_(limit: int) -> CatchUp:
    """Every due time that was missed, the newest `limit` of them: 1 to CATCH_UP_LIMIT."""
    return CatchUp(limit)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """One job that is due again and again; `manage.py check` names what is wrong with it.

    `words`: what it does, for staff who read no code. `cron`: minute, hour, day, month, weekday on
    the clock of the zone `tz`; see `due_times.py` for the days on which it is changed. `args`: the
    kind's own. `catch_up`: what becomes of due times that are more than `grace` seconds past when a
    scheduler comes to them; up to that the newest CATCH_UP_LIMIT fire and count as on time.
    """

    name: str
    cron: str
    kind: str
    args: Mapping[str, int | str] = field(default_factory=dict)
    tz: str = "UTC"
    catch_up: CatchUp = SKIP
    grace: float = 60.0
    words: str = ""


_declared: list[Schedule] = []


def declare(*schedules: Schedule) -> None:
    """Have schedulers fire these; two of one name are found by `manage.py check`."""
    _declared.extend(schedules)


def declared() -> list[Schedule]:
    """Every schedule of this build, by name."""
    return sorted(_declared, key=lambda schedule: schedule.name)


def forget(name: str) -> None:
    """Take a schedule back: for tests that declared one."""
    _declared[:] = [schedule for schedule in _declared if schedule.name != name]
