"""The page of one dead job: its story, what a replay would do, the replay, the discard."""

import re
from datetime import datetime

from django.contrib import messages
from django.contrib.admin import ModelAdmin
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from jobs import dead_letters, replay
from jobs.job import BIGINT_MAX
from jobs.models import DeadJob
from jobs.replay import Taken

from . import deeds
from .pages import page
from .story_page import Story, story_of


def parse_key(text: str) -> int:
    """The key of a dead job out of an address. Raises Http404 for anything else."""
    if not re.fullmatch(r"-?[0-9]{1,19}", text) or not 0 < abs(int(text)) <= BIGINT_MAX:
        raise Http404
    return int(text)


def show(admin: ModelAdmin[DeadJob], request: HttpRequest, key: int) -> HttpResponse:
    """All that is known, and the buttons that this person may press."""
    # Before the look: what dies after it was not what the person saw.
    seen = deeds.now()
    story = story_of(key, request.user)
    return page(
        admin, request, "dead_job.html", title_of(story),
        story=story, seen=seen, reason_limit=deeds.REASON_LIMIT,
        may_replay=request.user.has_perm("jobs.replay"),
        may_discard=request.user.has_perm("jobs.discard"),
    )  # fmt: skip


def title_of(story: Story) -> str:
    """What the page is called, and the log calls the job."""
    if story.key < 0:
        return f"Refused entry {-story.key}"
    return f"{story.kind}, outbox row {story.key}"


def replay_view(admin: ModelAdmin[DeadJob], request: HttpRequest, key: int) -> HttpResponse:
    """POST: make the job due again, once; asks once more where something may happen twice."""
    seen = deeds.seen(request.POST)
    if request.method != "POST" or seen is None or key < 0:
        return back(key)
    story = story_of(key, request.user)
    if story.dead_at is not None and not story.replayable:
        return refused(request, key, story.prognosis.text if story.prognosis else "")
    if story.may_repeat and "twice" not in request.POST:
        return page(admin, request, "twice.html", "Replay all the same?", story=story, seen=seen)
    deed = deeds.deed(request, "Replayed", key, title_of(story), DeadJob)
    taken = replay.replay([key], seen, deed, twice_is_fine="twice" in request.POST)
    return done(request, key, seen, taken, done_words(story))


def done_words(story: Story) -> str:
    """What happens next, after a replay."""
    if story.held:
        return f"The job is due again, and waits: {story.held}."
    return "The job is due again: a worker runs it in a moment."


def discard_view(admin: ModelAdmin[DeadJob], request: HttpRequest, key: int) -> HttpResponse:
    """POST: nobody waits for it any more."""
    seen = deeds.seen(request.POST)
    if request.method != "POST" or seen is None:
        return back(key)
    reason = deeds.reason(request.POST)
    if not reason:
        return refused(request, key, deeds.REASON_WANTED)
    title = title_of(story_of(key, request.user))
    deed = deeds.deed(request, f"Discarded: {reason}", key, title, DeadJob)
    taken = replay.discard([key], seen, deed, reason)
    return done(request, key, seen, taken, "Discarded. It stays known, and is on the list no more.")


def back(key: int) -> HttpResponse:
    """To the page of the job."""
    return HttpResponseRedirect(reverse("admin:jobs_deadjob_change", args=[key]))


def refused(request: HttpRequest, key: int, why: str) -> HttpResponse:
    """To the page of the job, with the reason why nothing was done."""
    messages.error(request, f"Nothing was changed: {why}")
    return back(key)


def done(
    request: HttpRequest, key: int, seen: datetime, taken: Taken, success: str
) -> HttpResponse:
    """To the page of the job: it was changed, or was something else already."""
    if taken.keys:
        dead_letters.take_away(taken.letters)
        messages.success(request, success)
        return back(key)
    if key < 0:
        return refused(request, key, "somebody has settled this entry already")
    what, at = replay.instead(key, seen)
    when = f" (at {at:%H:%M:%S} UTC on {at:%d %B})" if at else ""
    return refused(request, key, f"{what.value}{when}")
