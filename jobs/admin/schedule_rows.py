"""What staff read of schedules: when each is due, whether it fires, what became of its jobs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.urls import reverse

from jobs import past_slots, processes, story
from jobs.due_slots import Result, next_due
from jobs.due_times import UnknownZone, in_words, zone_of
from jobs.models import ScheduleCursor, ScheduledRun, SchedulePause
from jobs.schedule import Schedule, declared
from jobs.status.holds import clock
from jobs.status.screen import span
from jobs.story import Happening

from . import deeds

SILENT = timedelta(minutes=2)
"""A due time that nobody has decided for so long is what the alert of it is about."""
NO_ONE = "nobody fires it"


@dataclass(frozen=True, slots=True)
class SlotSeen:
    """A due slot as it is shown: `due` and `last` on the schedule's clock and in UTC; `last` is
    empty where it stands for one due time. `url`: the page of its job, for who may see it."""

    slot: ScheduledRun
    due: Sequence[str]
    last: Sequence[str]
    late: str
    job: str
    url: str


@dataclass(frozen=True, slots=True)
class Row:
    """One schedule; `schedule` None: not of this build. `state`: what is wrong; empty: it fires.

    `fired`: the last time that it did so by itself; `by_hand`: a run by hand since then.
    """

    name: str
    schedule: Schedule | None
    cron: str
    tz: str
    due: Sequence[str]
    state: Sequence[str]
    pause: SchedulePause | None
    fired: SlotSeen | None
    by_hand: SlotSeen | None

    @property
    def when(self) -> str:
        """When it is due, in words."""
        return in_words(self.cron) if self.cron else ""


def rows(user: Any, only: str = "") -> list[Row]:
    """Those of this build, those that others have been at, those that are paused; or `only`."""
    known = {one.name: one for one in declared()}
    cursors = _cursors(known)
    pauses = {one.name: one for one in SchedulePause.objects.filter(until=None)}
    names = [only] if only else sorted(known.keys() | cursors.keys() | pauses.keys())
    fired = {slot.name: slot for slot in past_slots.last_fired(names)}
    run = {slot.name: slot for slot in past_slots.last_run(names)}
    jobs = story.whereabouts(_jobs([*fired.values(), *run.values()]))
    look = _Look(user, jobs, deeds.now(), processes.alive("scheduler"))
    return [
        look.row(name, known.get(name), cursors.get(name), pauses.get(name),
                 fired.get(name), run.get(name))
        for name in names
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Look:
    """Who looks, and what is the same for all rows: where jobs are, the time, who is at work."""

    user: Any
    jobs: Mapping[int, Happening]
    now: datetime
    schedulers: int

    def row(
        self, name: str, schedule: Schedule | None, cursor: ScheduleCursor | None,
        pause: SchedulePause | None, fired: ScheduledRun | None, run: ScheduledRun | None,
    ) -> Row:  # fmt: skip
        clocks = schedule or cursor
        cron, tz = (clocks.cron, clocks.tz) if clocks else ("", "UTC")
        due = next_due(schedule, cursor.decided_until if cursor else self.now) if schedule else None
        return Row(
            name, schedule, cron, tz, on_clocks(due, tz) if due else (),
            list(self._state(schedule, cursor, due, pause)), pause,
            slot_seen(fired, tz, self.jobs, self.user) if fired else None,
            slot_seen(run, tz, self.jobs, self.user) if run and run != fired else None,
        )  # fmt: skip

    def _state(
        self, schedule: Schedule | None, cursor: ScheduleCursor | None, due: datetime | None,
        pause: SchedulePause | None,
    ) -> Iterator[str]:  # fmt: skip
        if schedule is None:
            yield "not of this build"
        if pause is not None:
            yield f"paused since {clock(pause.since)} by {pause.by}: {pause.reason}"
        if not self.schedulers:
            yield f"{NO_ONE}: no scheduler runs"
        elif schedule is not None and cursor is None:
            yield "no scheduler of this build has seen it yet"
        elif due is not None and due < self.now - SILENT:
            yield f"{NO_ONE}: the log of the scheduler says why"


def _cursors(known: Mapping[str, Schedule]) -> dict[str, ScheduleCursor]:
    """By name; of a schedule of this build that of its own expression and zone."""
    found: dict[str, ScheduleCursor] = {}
    for cursor in ScheduleCursor.objects.order_by("decided_until"):
        one = known.get(cursor.name)
        if one is None or (one.cron, one.tz) == (cursor.cron, cursor.tz):
            found[cursor.name] = cursor
    return found


def exists(name: str) -> bool:
    """Whether there is, or was, a schedule of that name."""
    tables = (ScheduleCursor, SchedulePause, ScheduledRun)
    return any(one.name == name for one in declared()) or any(
        model.objects.filter(name=name).exists() for model in tables
    )


def history(row: Row, before: datetime | None, limit: int, user: Any) -> list[SlotSeen]:
    """The schedule's slots, the newest first; only those due before `before`, if given."""
    slots = past_slots.history(row.name, before, limit)
    jobs = story.whereabouts(_jobs(slots))
    return [slot_seen(slot, row.tz, jobs, user) for slot in slots]


def _jobs(slots: Sequence[ScheduledRun]) -> set[int]:
    return {slot.outbox_id for slot in slots if slot.outbox_id is not None}


def slot_seen(
    slot: ScheduledRun, tz: str, jobs: Mapping[int, Happening], user: Any
) -> SlotSeen:  # fmt: skip
    """The slot for that person, where `jobs` are now."""
    by_hand = slot.result == Result.BY_HAND
    job = jobs.get(slot.outbox_id) if slot.outbox_id else None
    gone = "not known any more" if slot.outbox_id else ""
    return SlotSeen(
        slot,
        on_clocks(slot.due_at, tz, "%H:%M:%S" if by_hand else "%H:%M"),
        on_clocks(slot.last_due_at, tz) if slot.count > 1 else (),
        "" if by_hand else span(slot.seconds_late),
        job.what if job else gone,
        job_url(slot.outbox_id, user) if job else "",
    )


def job_url(outbox_id: int | None, user: Any) -> str:
    """The page of a job; empty where the person may not see it."""
    if outbox_id is None or not user.has_perm("jobs.view_deadjob"):
        return ""
    return reverse("admin:jobs_deadjob_change", args=[outbox_id])


def on_clocks(moment: datetime, tz: str, time: str = "%H:%M") -> list[str]:
    """A moment on the clock of the zone and, where that is another one, in UTC."""
    try:
        local = moment.astimezone(zone_of(tz))
    except UnknownZone:
        local = moment.astimezone(UTC)
    shown = [f"{local:%a %Y-%m-%d {time} %Z}"]
    return shown if tz == "UTC" else [*shown, f"{moment.astimezone(UTC):%Y-%m-%d {time}} UTC"]
