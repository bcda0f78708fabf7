"""The pages of schedules: when they fire, whether they did, and the buttons for it."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs import schedule_deeds
from jobs.foresight import Asked, foresee
from jobs.models import ScheduledRun, SchedulePause
from jobs.prognosis import Effect, Prognosis
from jobs.registry import all_kinds, kind_named
from jobs.schedule import Schedule, declared
from jobs.schedule_problems import NAME_LIMIT
from jobs.status.holds import clock

from . import deeds, schedule_rows
from .kinds import means
from .pages import page
from .story_page import held_in_words
from .to_be_read import ToBeRead

SLOTS_SHOWN = 50
PAUSES_SHOWN = 20
FRESH = timedelta(hours=1)
"""A page that was open for longer has not seen what is so now."""


class ScheduleAdmin(ToBeRead):
    def get_urls(self) -> list[URLPattern]:
        """The list, one schedule, and its deeds. The name is no part of the path: it may hold
        what a path cannot."""
        wrap = self.admin_site.admin_view
        either = require_http_methods(["GET", "HEAD", "POST"])
        pages = (
            ("", require_safe(self.list_page), "changelist"),
            ("one/", require_safe(self.one_page), "one"),
            ("run/", either(self.run_page), "run"),
            ("pause/", require_POST(self.pause), "pause"),
            ("resume/", require_POST(self.resume), "resume"),
        )
        return [
            path(route, wrap(view), name=f"jobs_scheduledrun_{name}") for route, view, name in pages
        ]

    def list_page(self, request: HttpRequest) -> HttpResponse:
        """Every schedule."""
        self._require(request)
        found = schedule_rows.rows(request.user)
        return page(self, request, "schedules.html", "Schedules", rows=found)

    def one_page(self, request: HttpRequest) -> HttpResponse:
        """One schedule, its history, its pauses, and the buttons that this person may press."""
        self._require(request)
        name = _name(request.GET)
        [row] = schedule_rows.rows(request.user, name)
        slots = schedule_rows.history(row, _before(request), SLOTS_SHOWN + 1, request.user)
        pauses = SchedulePause.objects.filter(name=name).order_by("-since")[:PAUSES_SHOWN]
        return page(
            self, request, "schedule.html", name, row=row,
            means=_means(row.schedule) if row.schedule else "",
            slots=slots[:SLOTS_SHOWN], is_newest="before" not in request.GET,
            older=slots[SLOTS_SHOWN - 1].slot.due_at if len(slots) > SLOTS_SHOWN else None,
            pauses=pauses, reason_limit=deeds.REASON_LIMIT,
            may_run=request.user.has_perm("jobs.run_schedule"),
            may_pause=request.user.has_perm("jobs.pause_schedule"),
        )  # fmt: skip

    def run_page(self, request: HttpRequest) -> HttpResponse:
        """What a run by hand would do; POST: run it."""
        self._require(request, "jobs.run_schedule")
        schedule = _declared(request.POST if request.method == "POST" else request.GET)
        prognosis = _prognosis(schedule)
        if request.method != "POST":
            return self._ask(request, schedule, prognosis)
        seen, now = deeds.seen(request.POST), deeds.now()
        if seen is None or not now - FRESH <= seen <= now:
            messages.error(request, "Nothing was run: that page was too old. This is a new one.")
            return _to("run", schedule.name)
        if prognosis and prognosis.effect is Effect.IMPOSSIBLE:
            messages.error(request, f"Nothing was run: {prognosis.text}.")
            return _to("one", schedule.name)
        self._run(request, schedule, seen)
        return _to("one", schedule.name)

    def _ask(
        self, request: HttpRequest, schedule: Schedule, prognosis: Prognosis | None
    ) -> HttpResponse:
        paused = SchedulePause.objects.filter(name=schedule.name, until=None).exists()
        return page(
            self, request, "schedule_run.html", f"Run {schedule.name} now?", seen=deeds.now(),
            schedule=schedule, means=_means(schedule), prognosis=prognosis, paused=paused,
            held=held_in_words([schedule.kind]),
            possible=prognosis is None or prognosis.effect is not Effect.IMPOSSIBLE,
        )  # fmt: skip

    def _run(self, request: HttpRequest, schedule: Schedule, seen: datetime) -> None:
        by = deeds.name_of(request.user)
        with transaction.atomic(durable=True):
            slot, made = schedule_deeds.run_now(schedule, seen, by)
            if made:
                what = f"Run by hand: outbox row {slot.outbox_id}"
                deeds.log(request, what, None, schedule.name, ScheduledRun)
        held = held_in_words([schedule.kind])
        if not made:
            said = f"It was run already from that page, at {clock(slot.decided_at)} by {slot.by}:"
        elif held:
            said = f"Its job is due, and waits: {held}:"
        else:
            said = "Its job is due, a worker runs it in a moment:"
        level = messages.SUCCESS if made else messages.WARNING
        messages.add_message(request, level, format_html("{} {}.", said, _job(request, slot)))

    def pause(self, request: HttpRequest) -> HttpResponse:
        """POST: what is due from now on does not fire."""
        self._require(request, "jobs.pause_schedule")
        name, why = _name(request.POST), deeds.reason(request.POST)
        if not why:
            messages.error(request, f"Nothing was changed: {deeds.REASON_WANTED}")
            return _to("one", name)
        with transaction.atomic(durable=True):
            pause, made = schedule_deeds.pause(name, why, deeds.name_of(request.user))
            if made:
                deeds.log(request, f"Paused: {why}", None, name, ScheduledRun)
        if made:
            messages.success(request, "Paused: what is due from now on does not fire.")
        else:
            messages.warning(request, f"Was paused already, by {pause.by}: {pause.reason}")
        return _to("one", name)

    def resume(self, request: HttpRequest) -> HttpResponse:
        """POST: what is due from now on fires."""
        self._require(request, "jobs.pause_schedule")
        name = _name(request.POST)
        with transaction.atomic(durable=True):
            was_paused = schedule_deeds.resume(name, deeds.name_of(request.user))
            if was_paused:
                deeds.log(request, "Resumed", None, name, ScheduledRun)
        if was_paused:
            said = "Goes on from now. What was due in the pause does not fire."
            messages.success(request, said)
        else:
            messages.warning(request, "Was not paused.")
        return _to("one", name)

    def _require(self, request: HttpRequest, permission: str = "") -> None:
        may_see = self.has_view_permission(request)
        if not may_see or (permission and not request.user.has_perm(permission)):
            raise PermissionDenied


def _name(data: Any) -> str:
    """The schedule that is meant. Raises Http404 where there is none and was none."""
    name = str(data.get("name", ""))
    if not 1 <= len(name) <= NAME_LIMIT or not name.isprintable() or not schedule_rows.exists(name):
        raise Http404
    return name


def _declared(data: Any) -> Schedule:
    """The schedule that is meant. Raises Http404 where it is none of this build."""
    found = [one for one in declared() if one.name == data.get("name")]
    if not found:
        raise Http404
    return found[0]


def _before(request: HttpRequest) -> datetime | None:
    """Where the page of the history begins; None: with the newest."""
    try:
        moment = parse_datetime(request.GET.get("before", ""))
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


def _means(schedule: Schedule) -> str:
    return "".join(means(kind) for kind in all_kinds() if kind.name == schedule.kind)


def _prognosis(schedule: Schedule) -> Prognosis | None:
    """What its job would do now; None where the kind does not say."""
    found = foresee([Asked(0, schedule.kind, dict(schedule.args))])[0]
    known = found.effect is Effect.IMPOSSIBLE or kind_named(schedule.kind).foresee is not None
    return found if known else None


def _job(request: HttpRequest, slot: ScheduledRun) -> str:
    told, url = f"outbox row {slot.outbox_id}", schedule_rows.job_url(slot.outbox_id, request.user)
    return format_html('<a href="{}">{}</a>', url, told) if url else told


def _to(what: str, name: str) -> HttpResponse:
    address = reverse(f"admin:jobs_scheduledrun_{what}")
    return HttpResponseRedirect(f"{address}?{urlencode({'name': name})}")
