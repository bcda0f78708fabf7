"""What replays of the job that emails a notice to one of the staff would do."""

from collections.abc import Sequence

from django.utils import timezone

from jobs.prognosis import Effect, Prognosis

from . import foresight, notices
from .models import Notice

NO_SUCH = Prognosis(Effect.IMPOSSIBLE, "there is no such notice")
OLD = Prognosis(Effect.NOTHING, "the notice is so old that nobody is told: nothing will happen")
NO_READER = Prognosis(Effect.NOTHING, "this person gets no notices any more: nothing will happen")


def of_notices(asked: Sequence[tuple[int, int]]) -> list[Prognosis]:
    """Of ids of notices and users: whether a replay would send an email, and the first one."""
    known = Notice.objects.defer("text", "html").in_bulk({pk for pk, _ in asked})
    begun = notices.begun_emails(asked)
    readers = set(notices.readers().values_list("pk", flat=True))
    now = timezone.now()

    def one(notice_id: int, user_id: int) -> Prognosis:
        if notice_id not in known:
            return NO_SUCH
        if notices.is_old(known[notice_id]):
            return OLD
        if email := begun.get((notice_id, user_id)):
            return foresight.of_begun(email, now)
        return foresight.SAFE if user_id in readers else NO_READER

    return [one(*pair) for pair in asked]
