"""What replays of the job that answers a lost link would do."""

from collections.abc import Iterable, Sequence

from django.db.models import Exists, OuterRef
from django.db.models.functions import Lower
from django.utils import timezone

from jobs.prognosis import Effect, Prognosis

from . import foresight
from .lost_links import to_come
from .models import LinkDelivery, LostLinkRequest

GONE = Prognosis(Effect.NOTHING, "the request is not kept any more: nothing will happen")
NO_ORDER = Prognosis(Effect.NOTHING, "the address has no order to come: nothing will happen")


def of_links(asked_ids: Sequence[int]) -> list[Prognosis]:
    """Whether a replay of each would send an email, and whether that is the first."""
    kept = set(LostLinkRequest.objects.filter(pk__in=asked_ids).values_list("pk", flat=True))
    begun = _begun(asked_ids)
    with_orders = _with_orders(asked_ids)
    now = timezone.now()

    def one(asked_id: int) -> Prognosis:
        delivery = begun.get(asked_id)
        if asked_id not in kept:
            return GONE
        if delivery:
            return foresight.of_begun(delivery, now)
        return foresight.SAFE if asked_id in with_orders else NO_ORDER

    return [one(asked_id) for asked_id in asked_ids]


def _begun(asked_ids: Iterable[int]) -> dict[int, LinkDelivery]:
    found = LinkDelivery.objects.filter(asked_id__in=list(asked_ids))
    return {one.asked_id: one for one in found.defer("text", "html")}


def _with_orders(asked_ids: Iterable[int]) -> set[int]:
    asked = LostLinkRequest.objects.filter(pk__in=list(asked_ids))
    return set(asked.filter(Exists(to_come(Lower(OuterRef("email"))))).values_list("pk", flat=True))
