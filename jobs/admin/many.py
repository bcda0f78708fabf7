"""Replay and discard of many at once: counted and confirmed first, then one transaction."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from jobs import dead_letters, foresight, replay
from jobs.foresight import Asked
from jobs.models import ArgsDecoder, DeadJob, OutboxRow, ReplayBatch
from jobs.prognosis import Effect, Prognosis

from . import deeds
from .pages import page
from .story_page import held_in_words

TEXTS_SHOWN = 12
"""Different prognoses on the page that asks; times in them make many of one."""


@dataclass(frozen=True)
class Plan:
    """What a replay of the chosen jobs would do. `left_out`: what cannot be replayed at
    all. `held`: what keeps them back all the same."""

    safe: list[int]
    twice: list[int]
    left_out: int
    words: Sequence[tuple[str, int]]
    held: str

    def chosen(self, *, twice: bool) -> list[int]:
        """The outbox ids to replay; with those that may happen twice only if that is fine."""
        return [*self.safe, *self.twice] if twice else self.safe


def _plan(chosen: QuerySet[DeadJob]) -> Plan:
    found = foresight.foresee(asked := _asked(chosen))
    words = Counter(_without_times(prognosis) for prognosis in found.values())
    refused = chosen.filter(pk__lt=0).count()
    if refused:
        words["no outbox row stands behind it: look at it alone"] = refused
    impossible = sum(one.effect is Effect.IMPOSSIBLE for one in found.values())
    return Plan(
        safe=[pk for pk, one in found.items() if one.effect in (Effect.SAFE, Effect.NOTHING)],
        twice=[pk for pk, one in found.items() if one.effect is Effect.MAY_REPEAT],
        left_out=impossible + refused,
        words=words.most_common(TEXTS_SHOWN),
        held=held_in_words({one.kind for one in asked}),
    )


def _asked(chosen: QuerySet[DeadJob]) -> list[Asked]:
    # Thousands at once: their keys do not go to and fro, and one decoder reads them all.
    decode = ArgsDecoder().decode
    rows = OutboxRow.objects.dead().filter(pk__in=chosen.filter(pk__gt=0).values("pk"))
    found = rows.values_list("pk", "kind", Cast("args", TextField()), "created_at")
    return [Asked(pk, kind, decode(args), created_at) for pk, kind, args, created_at in found]


def _without_times(prognosis: Prognosis) -> str:
    """All that is done already in one line: each was done at another time."""
    done = prognosis.effect is Effect.NOTHING
    return "done already, nothing will happen" if done else prognosis.text


def replay_view(
    admin: ModelAdmin[DeadJob], request: HttpRequest, jobs: QuerySet[DeadJob]
) -> HttpResponse:
    """Asks, with the numbers; confirmed: makes all of them due under one batch."""
    seen = deeds.seen(request.POST)
    if "confirmed" not in request.POST or seen is None:
        return _ask(admin, request, jobs, "replay_many.html", "Replay dead jobs?", plan=True)
    plan = _plan(_chosen(jobs, seen))
    chosen = plan.chosen(twice="twice" in request.POST)
    deed = deeds.deed(request, "Replayed", None, "dead jobs", DeadJob)
    taken = replay.replay(
        chosen, seen, deed, together=True, twice_is_fine="twice" in request.POST
    )  # fmt: skip
    if taken.batch is None:
        messages.warning(request, f"Nothing was replayed: {_why_nothing(chosen)}.")
        return _to_list()
    dead_letters.take_away(taken.letters)
    messages.success(request, f"{len(taken.keys)} jobs are due again, one after the other.")
    return HttpResponseRedirect(reverse("admin:jobs_deadjob_batch", args=[taken.batch]))


def _why_nothing(chosen: Sequence[int]) -> str:
    if OutboxRow.objects.dead().filter(pk__in=chosen).exists():
        return "somebody is replaying these at this moment, look again"
    return "no such job is dead any more"


def discard_view(
    admin: ModelAdmin[DeadJob], request: HttpRequest, jobs: QuerySet[DeadJob]
) -> HttpResponse:
    """Asks, with the number, for the reason; confirmed: discards all of them."""
    seen, reason = deeds.seen(request.POST), deeds.reason(request.POST)
    if "confirmed" not in request.POST or seen is None or not reason:
        if "confirmed" in request.POST:
            messages.error(request, deeds.REASON_WANTED)
        return _ask(admin, request, jobs, "discard_many.html", "Discard dead jobs?", plan=False)
    deed = deeds.deed(request, f"Discarded: {reason}", None, "dead jobs", DeadJob)
    keys = list(_chosen(jobs, seen).values_list("pk", flat=True))
    taken = replay.discard(keys, seen, deed, reason)
    dead_letters.take_away(taken.letters)
    messages.success(request, f"{len(taken.keys)} were discarded.")
    return _to_list()


def _chosen(jobs: QuerySet[DeadJob], seen: datetime) -> QuerySet[DeadJob]:
    # What died after the page that asked was made was not in its count.
    return jobs.filter(dead_at__lte=seen).order_by()


def _ask(
    admin: ModelAdmin[DeadJob], request: HttpRequest, jobs: QuerySet[DeadJob],
    template: str, title: str, *, plan: bool,
) -> HttpResponse:  # fmt: skip
    seen = deeds.now()
    chosen = _chosen(jobs, seen)
    return page(
        admin, request, template, title,
        seen=seen, number=chosen.count(), plan=_plan(chosen) if plan else None,
        across=request.POST.get("select_across") == "1", reason_limit=deeds.REASON_LIMIT,
        selected=request.POST.getlist(ACTION_CHECKBOX_NAME), box=ACTION_CHECKBOX_NAME,
    )  # fmt: skip


def _to_list() -> HttpResponse:
    return HttpResponseRedirect(reverse("admin:jobs_deadjob_changelist"))


def batch_view(admin: ModelAdmin[DeadJob], request: HttpRequest, batch_id: int) -> HttpResponse:
    """How far a replay of many is; the page loads itself again while jobs are open."""
    batch = ReplayBatch.objects.filter(pk=batch_id).first()
    if batch is None:
        raise Http404
    progress = replay.progress(batch_id)
    noun = "dead job" if batch.number == 1 else "dead jobs"
    return page(
        admin, request, "batch.html", f"Replay of {batch.number} {noun}",
        batch=batch, progress=progress, over=progress.open == 0,
        settled=batch.number - progress.open,
    )  # fmt: skip
