"""Everything that is known of one dead job, or of what it has become."""

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import Http404

from jobs import foresight, story, subjects
from jobs.foresight import Asked
from jobs.models import OutboxRow, ProcessedJob, RefusedEntry
from jobs.prognosis import Effect, Prognosis
from jobs.registry import UnknownKind, kind_named
from jobs.status.books import holds_seen
from jobs.status.holds import hold_line
from jobs.story import Happening
from jobs.stream import printable
from jobs.subjects import About, Allowed

NO_ROW = Prognosis(
    Effect.IMPOSSIBLE, "cannot be replayed: no outbox row stands behind it; "
    "a new job can be made of its arguments",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Story:
    """One job for its page. `key` is that of `DeadJob`; `dead_at` None: it is not dead (any more).

    `state`: where it is now. `fields`: what it carries, name and value, made printable. `held`:
    what keeps its kind back now, in words.
    """

    key: int
    kind: str
    state: str
    dead_at: datetime | None
    due_at: datetime
    reason: str
    error: str
    traceback: str
    worker: str
    attempts: int
    deliveries: int
    request_id: str
    fields: Sequence[tuple[str, str]]
    about: About | None
    prognosis: Prognosis | None
    held: str
    happenings: Sequence[Happening]

    @property
    def correctable(self) -> bool:
        """Whether other arguments could make it run."""
        impossible = self.prognosis is not None and self.prognosis.effect is Effect.IMPOSSIBLE
        return impossible and (self.key < 0 or _known(self.kind))

    @property
    def may_repeat(self) -> bool:
        """Whether a replay asks once more."""
        return self.prognosis is not None and self.prognosis.effect is Effect.MAY_REPEAT

    @property
    def replayable(self) -> bool:
        """Whether a worker could run it."""
        return self.prognosis is not None and self.prognosis.effect is not Effect.IMPOSSIBLE


def _known(kind: str) -> bool:
    try:
        kind_named(kind)
    except UnknownKind:
        return False
    return True


def story_of(key: int, user: Allowed) -> Story:
    """The story under that key of `DeadJob`, for that person. Raises Http404."""
    story = _of_refused(-key) if key < 0 else _of_job(key)
    about = story.about and story.about.seen_by(user)
    return dataclasses.replace(story, about=about)


def _of_job(outbox_id: int) -> Story:
    row = OutboxRow.objects.filter(pk=outbox_id).first()
    if row is not None:
        return _of_row(row)
    done = ProcessedJob.objects.filter(pk=outbox_id).first()
    if done is None:
        raise Http404
    return Story(
        key=outbox_id, kind=done.kind, state="done", dead_at=None, due_at=done.due_at,
        reason="", error="", traceback="", worker=done.worker, attempts=done.attempts,
        deliveries=0, request_id=done.request_id, fields=_shown(done.args),
        about=_about(done.subject), prognosis=None, held="",
        happenings=story.story_of_job(outbox_id),
    )  # fmt: skip


def _of_row(row: OutboxRow) -> Story:
    happenings = story.story_of_job(row.pk)
    dead = row.dead_at is not None and row.discarded_at is None
    asked = Asked(row.pk, row.kind, row.args, row.created_at)
    return Story(
        key=row.pk, kind=row.kind, state=happenings[-1].what if happenings else "",
        dead_at=row.dead_at if dead else None, due_at=row.due_at, reason=row.dead_reason,
        error=row.last_error, traceback=row.traceback, worker=row.dead_by,
        attempts=row.attempts, deliveries=row.deliveries, request_id=row.request_id,
        fields=_shown(row.args), about=_about(row.subject),
        prognosis=foresight.foresee([asked])[row.pk] if dead else None,
        held=held_in_words([row.kind]), happenings=happenings,
    )  # fmt: skip


def _of_refused(pk: int) -> Story:
    entry = RefusedEntry.objects.filter(pk=pk).first()
    if entry is None:
        raise Http404
    raw = [printable(bytes(part)) for part in entry.raw]
    settled = f"made into outbox row {entry.outbox_id}" if entry.outbox_id else "discarded"
    settled = f"{settled} by {entry.settled_by}: {entry.settled_reason}".removesuffix(": ")
    return Story(
        key=-pk, kind=entry.kind, state=settled if entry.settled_at else "dead",
        dead_at=None if entry.settled_at else entry.refused_at, due_at=entry.refused_at,
        reason=entry.reason, error=entry.reason, traceback="", worker=entry.worker,
        attempts=0, deliveries=entry.deliveries, request_id="",
        fields=list(zip(raw[::2], raw[1::2], strict=True)), about=None,
        prognosis=None if entry.settled_at else NO_ROW, held=held_in_words([entry.kind]),
        happenings=story.story_of_job(entry.outbox_id) if entry.outbox_id else [],
    )  # fmt: skip


def held_in_words(kinds: Collection[str]) -> str:
    """What keeps jobs of these kinds back: said before somebody replays them; empty: nothing."""
    return "; ".join(hold_line(seen) for seen in holds_seen() if seen.kind in kinds)


def _shown(args: Any) -> list[tuple[str, str]]:
    if not isinstance(args, dict):
        return [("args", printable(repr(args).encode(errors="replace")))]
    return [
        (str(name), printable(str(value).encode(errors="replace"))) for name, value in args.items()
    ]


def _about(subject: str) -> About | None:
    return subjects.describe([subject]).get(subject)
