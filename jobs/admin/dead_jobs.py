"""The list "Dead jobs", and the addresses under it."""

import re
from typing import Any, cast

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.html import format_html

from jobs import subjects
from jobs.job import BIGINT_MAX
from jobs.models import DeadJob
from jobs.status.screen import span
from jobs.subjects import About

from . import correcting, many, one
from .filters import ErrorClassFilter, KindFilter, SameErrorFilter, SinceFilter
from .to_be_read import ToBeRead

ERROR_SHOWN = 140


class DeadJobList(ChangeList):
    """A page of the list, with what its jobs are about: one look for all."""

    _filters: tuple[Any, ...] | None = None

    def get_filters(self, request: HttpRequest) -> Any:
        """Made once: an action asks for them twice, and each time every dead job is counted."""
        if self._filters is None:
            self._filters = super().get_filters(request)
        return self._filters

    def get_results(self, request: HttpRequest) -> None:
        """The page, each job knowing its subject."""
        super().get_results(request)
        page = list(cast("QuerySet[DeadJob]", self.result_list))
        about = subjects.describe([job.subject for job in page])
        for job in page:
            found = about.get(job.subject)
            job.about = found.seen_by(request.user) if found else None
        self.result_list = page


class DeadJobAdmin(ToBeRead):
    list_display = (
        "what", "order", "when", "age", "error_line", "attempts", "deliveries_told",
    )  # fmt: skip
    list_display_links = ("what",)
    list_filter = (KindFilter, ErrorClassFilter, SinceFilter, SameErrorFilter)
    list_per_page = 50
    ordering = ("-dead_at",)
    search_fields = ("request_id",)
    search_help_text = "An order's code, an outbox id, or a request id."
    show_facets = admin.ShowFacets.NEVER
    actions = ("replay_many", "discard_many")
    change_list_template = "admin/jobs/dead_jobs.html"

    @admin.display(description="kind", ordering="kind")
    def what(self, job: DeadJob) -> str:
        """The kind, or that it is not even a job."""
        return job.kind or "(no job)"

    @admin.display(description="order", ordering="subject")
    def order(self, job: DeadJob) -> str:
        """What it is about, with its own page."""
        about: About | None = job.about
        if about is None:
            return job.subject or "–"
        if not about.url:
            return about.name
        return format_html('<a href="{}">{}</a>', about.url, about.name)

    @admin.display(description="error", ordering="error")
    def error_line(self, job: DeadJob) -> str:
        """In one line."""
        return job.error if len(job.error) <= ERROR_SHOWN else f"{job.error[:ERROR_SHOWN]}…"

    @admin.display(description="deliveries", ordering="deliveries")
    def deliveries_told(self, job: DeadJob) -> str:
        """How often its last entry was given to a worker, where Redis said."""
        return str(job.deliveries or "–")

    @admin.display(description="when (UTC)", ordering="dead_at")
    def when(self, job: DeadJob) -> str:
        """When it died."""
        return f"{job.dead_at:%d %b %H:%M:%S}"

    @admin.display(description="age", ordering="due_at")
    def age(self, job: DeadJob) -> str:
        """Since it was due."""
        return span((timezone.now() - job.due_at).total_seconds())

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[DeadJob], search_term: str
    ) -> tuple[QuerySet[DeadJob], bool]:
        """Exactly: an order's code, an outbox id, a request id."""
        term = search_term.strip()
        if not term:
            return queryset, False
        wanted = Q(request_id=term) | Q(subject__in=subjects.find(term))
        if re.fullmatch(r"[0-9]{1,19}", term) and int(term) <= BIGINT_MAX:
            wanted |= Q(pk=int(term))
        return queryset.filter(wanted), False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The list, or what an action on it answers."""
        # Seven columns and the filters need the room of the navigation.
        own = {"title": "Dead jobs", "is_nav_sidebar_enabled": False}
        return super().changelist_view(request, {**own, **(extra_context or {})})

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """With the subjects of its jobs."""
        return DeadJobList

    @admin.action(description="Replay the selected dead jobs", permissions=["replay"])
    def replay_many(self, request: HttpRequest, jobs: QuerySet[DeadJob]) -> HttpResponse:
        """Asks first, with the count; then all of them, staggered, under one batch."""
        return many.replay_view(self, request, jobs)

    @admin.action(description="Discard the selected dead jobs", permissions=["discard"])
    def discard_many(self, request: HttpRequest, jobs: QuerySet[DeadJob]) -> HttpResponse:
        """Asks first, with the count, for the reason."""
        return many.discard_view(self, request, jobs)

    def get_urls(self) -> list[URLPattern]:
        """The list, and the pages of one job; nothing that edits a row."""
        wrap = self.admin_site.admin_view
        pages = (
            ("<str:key>/change/", self.change_page, "change"),
            ("<str:key>/replay/", self.replay_page, "replay"),
            ("<str:key>/discard/", self.discard_page, "discard"),
            ("<str:key>/correct/", self.correct_page, "correct"),
            ("batch/<int:batch_id>/", self.batch_page, "batch"),
        )
        return [
            path("", wrap(self.changelist_view), name="jobs_deadjob_changelist"),
            *(path(route, wrap(view), name=f"jobs_deadjob_{name}") for route, view, name in pages),
        ]

    def change_page(self, request: HttpRequest, key: str) -> HttpResponse:
        """One dead job, with what a replay would do."""
        self._require(self.has_view_permission(request))
        return one.show(self, request, one.parse_key(key))

    def replay_page(self, request: HttpRequest, key: str) -> HttpResponse:
        """POST: replay it."""
        self._require(self.has_replay_permission(request))
        return one.replay_view(self, request, one.parse_key(key))

    def discard_page(self, request: HttpRequest, key: str) -> HttpResponse:
        """POST: discard it, with a reason."""
        self._require(self.has_discard_permission(request))
        return one.discard_view(self, request, one.parse_key(key))

    def correct_page(self, request: HttpRequest, key: str) -> HttpResponse:
        """A form for its arguments."""
        self._require(self.has_view_permission(request) and self.has_replay_permission(request))
        return correcting.view(self, request, one.parse_key(key))

    def batch_page(self, request: HttpRequest, batch_id: int) -> HttpResponse:
        """How far a replay of many is."""
        self._require(self.has_view_permission(request))
        return many.batch_view(self, request, batch_id)

    @staticmethod
    def _require(allowed: bool) -> None:
        if not allowed:
            raise PermissionDenied

    def has_replay_permission(self, request: HttpRequest) -> bool:
        """Apart from seeing them."""
        return request.user.has_perm("jobs.replay")

    def has_discard_permission(self, request: HttpRequest) -> bool:
        """Apart from seeing and replaying them."""
        return request.user.has_perm("jobs.discard")
