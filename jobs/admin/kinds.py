"""The page "Kinds": what each one's policy is, which are held, and the buttons for it."""

import inspect
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_POST

from jobs import holds, registry
from jobs.models import KindHold
from jobs.registry import Kind
from jobs.status.books import holds_seen
from jobs.status.holds import clock, hold_line

from . import deeds
from .pages import page

MINUTES_LIMIT = 7 * 24 * 60
"""A week: a kind that is forgotten for longer is a kind that loses its buyers' mail."""


def _known(kind: str) -> None:
    if kind not in {known.name for known in registry.all_kinds()}:
        raise forms.ValidationError(f"There is no kind “{kind}”.")


class PauseForm(forms.Form):
    """Which kind, for how long, and why."""

    kind = forms.CharField(validators=[_known])
    minutes = forms.IntegerField(min_value=1, max_value=MINUTES_LIMIT)
    reason = forms.CharField(max_length=500)


class ResumeForm(forms.Form):
    """Which kind; one that no build knows any more may still be held."""

    kind = forms.CharField(max_length=100)


def means(kind: Kind[Any]) -> str:
    """The state that its jobs bring about, as its handler says it; empty where it does not."""
    said = inspect.getdoc(kind.handle) or ""
    return " ".join(said.partition("State:")[2].split())


@dataclass(frozen=True, slots=True)
class Row:
    """One kind on the page; `kind` None: unknown to this build. `hold` in words, empty: none."""

    name: str
    kind: Kind[Any] | None
    hold: str

    @property
    def means(self) -> str:
        """The state that its jobs bring about, as its handler says it; empty where none does."""
        return means(self.kind) if self.kind else ""


class KindHoldAdmin(admin.ModelAdmin[KindHold]):
    def get_urls(self) -> list[URLPattern]:
        """The page, and what its buttons send."""
        wrap = self.admin_site.admin_view
        return [
            path("", wrap(self.kinds_page), name="jobs_kindhold_changelist"),
            path("pause/", wrap(require_POST(self.pause)), name="jobs_kindhold_pause"),
            path("resume/", wrap(require_POST(self.resume)), name="jobs_kindhold_resume"),
        ]

    def kinds_page(self, request: HttpRequest) -> HttpResponse:
        """Every kind, and every hold."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        return page(
            self, request, "kinds.html", "Kinds of jobs",
            rows=_rows(), may_change=self.has_change_permission(request),
            minutes_limit=MINUTES_LIMIT,
        )  # fmt: skip

    def pause(self, request: HttpRequest) -> HttpResponse:
        """POST: hold a kind."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        form = PauseForm(request.POST)
        if form.is_valid():
            self._pause(request, **form.cleaned_data)
        else:
            self._complain(request, form)
        return _back()

    def resume(self, request: HttpRequest) -> HttpResponse:
        """POST: let a kind go."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        form = ResumeForm(request.POST)
        if form.is_valid():
            self._resume(request, form.cleaned_data["kind"])
        else:
            self._complain(request, form)
        return _back()

    def _pause(self, request: HttpRequest, kind: str, minutes: int, reason: str) -> None:
        with transaction.atomic(durable=True):
            until = holds.pause(kind, minutes * 60, reason, deeds.name_of(request.user))
            what = f"Paused for {minutes} minutes: {reason}"
            deeds.log(request, what, None, kind, KindHold)
        messages.success(request, f"Held until {clock(until)}: {kind}.")

    def _resume(self, request: HttpRequest, kind: str) -> None:
        with transaction.atomic(durable=True):
            was_held = holds.resume(kind)
            if was_held:
                deeds.log(request, "Resumed", None, kind, KindHold)
        messages.success(request, f"Goes on: {kind}." if was_held else f"Was not held: {kind}.")

    @staticmethod
    def _complain(request: HttpRequest, form: forms.Form) -> None:
        for name, errors in form.errors.items():
            messages.error(request, f"{name}: {' '.join(map(str, errors))}")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """A hold is set by its button."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: KindHold | None = None) -> bool:
        """A hold is lifted by its button."""
        return False


def _rows() -> list[Row]:
    held = {seen.kind: hold_line(seen) for seen in holds_seen()}
    known = {kind.name: kind for kind in registry.all_kinds()}
    return [Row(name, known.get(name), held.get(name, "")) for name in sorted(known.keys() | held)]


def _back() -> HttpResponse:
    return HttpResponseRedirect(reverse("admin:jobs_kindhold_changelist"))
