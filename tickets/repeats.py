"""Whether another try of an email may be a second one, and a person who accepts that."""

from collections.abc import Callable, Sequence
from datetime import datetime

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from .deliveries import KNOWN, Message, message_of
from .models import ACCEPTED, Delivery, DeliveryState, Email

MARGIN = 3600
"""Seconds before the provider forgets a key in which no second try is made (design §5), or a
quarter of its window where that is less: else a short one would allow none at all."""
CALLS = 2
"""With a mail server that knows no keys: calls that it may have taken, before a person decides."""


def begin_again(messages: Sequence[Message]) -> None:
    """In the replay of their jobs: a person accepts that these may come twice.

    Of what another try would not send twice nothing is changed: its date and window stay.
    """
    wanted = set(messages)
    found = Delivery.objects.filter(order_id__in={one.order_id for one in wanted})
    allow_again(found.only(*KNOWN), lambda one: message_of(one) in wanted)


def allow_again[E: Email](
    found: QuerySet[E], wanted: Callable[[E], bool] = lambda email: True
) -> None:
    """In the caller's transaction: those of these emails that may come twice may be tried again."""
    # In one order everywhere: two replays of many that share some must not wait in a circle.
    locked = found.exclude(state__in=ACCEPTED).order_by("pk").select_for_update(no_key=True)
    now = timezone.now()
    again = [one.pk for one in locked if wanted(one) and may_repeat(one, now)]
    chosen = found.model._default_manager.filter(pk__in=again)
    if settings.MAIL_KEY_WINDOW:
        chosen.update(state=DeliveryState.QUEUED, called_at=now)
    else:
        chosen.update(tries=CALLS - 1)


def may_repeat(email: Email, now: datetime) -> bool:
    """Whether another try may be a second email: of one that may have been taken already."""
    return email.tries > 0 and not repeats_are_dropped(email.called_at or email.first_try_at, now)


def repeats_are_dropped(called_at: datetime, now: datetime) -> bool:
    """Whether the provider, asked now, still knows the key of a call that began then."""
    window: int = settings.MAIL_KEY_WINDOW
    margin = min(MARGIN, window / 4)
    return window > 0 and (now - called_at).total_seconds() <= window - margin
