"""The form for what does not parse: its arguments, through the parser of entries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.contrib.admin import ModelAdmin
from django.http import HttpRequest, HttpResponse

from jobs import correction, foresight, registry
from jobs.foresight import Asked
from jobs.job import Job, MalformedJob
from jobs.models import DeadJob
from jobs.prognosis import Effect, Prognosis
from jobs.registry import UnknownKind
from jobs.replay import Taken

from . import deeds
from .one import back, done, refused, title_of
from .pages import page
from .story_page import Story, story_of


@dataclass
class Typed:
    """What stands in the form; `wrong`: a field's name to what is wrong with it."""

    kind: str
    values: Mapping[str, str]
    wrong: dict[str, str] = field(default_factory=dict)

    def rows(self) -> list[tuple[str, str, str]]:
        """Name, value and error of each field."""
        return [(name, value, self.wrong.get(name, "")) for name, value in self.values.items()]

    def other_errors(self) -> list[str]:
        """What is wrong with none of the fields alone."""
        return [text for name, text in self.wrong.items() if name not in self.values]


def view(admin: ModelAdmin[DeadJob], request: HttpRequest, key: int) -> HttpResponse:
    """GET: the form. POST: what a replay with these arguments would do; confirmed: do it."""
    seen = deeds.now()
    story = story_of(key, request.user)
    if story.dead_at is None or not story.correctable:
        return refused(request, key, "there is nothing to correct")
    typed = _typed(request, story)
    if typed is None:
        kinds = [kind.name for kind in registry.all_kinds()]
        return page(admin, request, "correct.html", "Choose a kind", story=story, kinds=kinds)
    job = _parsed(typed) if request.method == "POST" else None
    if job is None:
        return _form(admin, request, story, typed, seen)
    if "confirmed" not in request.POST:
        return _form(admin, request, story, typed, seen, _prognosis(job))
    return _correct(request, story, job)


def _typed(request: HttpRequest, story: Story) -> Typed | None:
    data = request.POST if request.method == "POST" else request.GET
    # Chosen only where the entry itself names none: nobody makes another kind of job of it.
    kind = data.get("kind", "") if story.key < 0 and not story.kind else story.kind
    try:
        names = correction.arguments(kind)
    except UnknownKind:
        return None
    present = dict(story.fields)
    return Typed(kind, {name: data.get(f"arg-{name}", present.get(name, "")) for name in names})


def _parsed(typed: Typed) -> Job[Any] | None:
    try:
        return correction.parsed(typed.kind, typed.values)
    except MalformedJob as error:
        typed.wrong[error.field] = error.reason
        return None


def _prognosis(job: Job[Any]) -> Prognosis:
    return foresight.foresee([Asked(0, job.kind, job.args_by_name())])[0]


def _form(
    admin: ModelAdmin[DeadJob], request: HttpRequest, story: Story, typed: Typed,
    seen: datetime, prognosis: Prognosis | None = None,
) -> HttpResponse:  # fmt: skip
    return page(
        admin, request, "correct.html", f"Correct {title_of(story)}",
        story=story, typed=typed, prognosis=prognosis, seen=seen,
        may_repeat=prognosis is not None and prognosis.effect is Effect.MAY_REPEAT,
    )  # fmt: skip


def _correct(request: HttpRequest, story: Story, job: Job[Any]) -> HttpResponse:
    seen = deeds.seen(request.POST)
    twice = "twice" in request.POST
    if seen is None:
        return back(story.key)
    if _prognosis(job).effect is Effect.MAY_REPEAT and not twice:
        return refused(request, story.key, "it may happen twice, and nobody said that this is fine")
    deed = deeds.deed(request, "Corrected and replayed", story.key, title_of(story), DeadJob)
    if story.key < 0:
        taken = correction.make_job(-story.key, seen, job, deed, twice_is_fine=twice)
        return _made(request, story, taken)
    taken = correction.correct(story.key, seen, job, deed, twice_is_fine=twice)
    return done(request, story.key, seen, taken, "The arguments are corrected, the job is due.")


def _made(request: HttpRequest, story: Story, taken: Taken) -> HttpResponse:
    text = f"Outbox row {taken.keys[0]} was made of it." if taken.keys else ""
    return done(request, story.key, deeds.now(), taken, text)
