"""What email providers post: an accepted email came back, or arrived after all."""

from datetime import datetime, timedelta
from importlib import import_module
from typing import Any

from anymail.signals import EventType, tracking
from django.conf import settings
from django.dispatch import receiver
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from stagedoor.settings.mail import PROVIDERS
from tickets import deliveries
from tickets.models import Bounce

LOST = (EventType.BOUNCED, EventType.REJECTED, EventType.FAILED)
SOON = timedelta(hours=1)
"""For how long an email that nobody knows may be one whose sending is not committed yet."""


class NotYetKnown(Exception):
    """An email came back that no delivery goes by, so far: to be posted again."""


@csrf_exempt
def mail_hook(request: HttpRequest, provider: str) -> HttpResponse:
    """`/hooks/mail/<provider>/`: 404 for any but the one in use, 400 for what it did not sign."""
    in_use = provider == settings.MAIL_PROVIDER and provider in PROVIDERS
    if not in_use or not settings.MAIL_WEBHOOK_SECRET:
        raise Http404
    # Slow to load, `requests` with it, and a shop whose provider posts nothing needs none.
    from anymail.exceptions import AnymailAPIError, AnymailWebhookValidationFailure

    hook = import_module(f"stagedoor.providers.{provider}").hook(settings.MAIL_WEBHOOK_SECRET)
    try:
        answer: HttpResponse = hook(request)
    except (AnymailWebhookValidationFailure, AnymailAPIError):
        return HttpResponse(status=400)
    except NotYetKnown:
        return HttpResponse(status=503)
    return answer


@receiver(tracking)
def take_back(sender: Any, event: Any, **about: Any) -> None:
    """Note that an email came back or arrived; other events are none of ours.

    Raises NotYetKnown.
    """
    if event.event_type not in (*LOST, EventType.DELIVERED) or not event.message_id:
        return
    now = timezone.now()
    at = _moment(event.timestamp, now)
    if event.event_type == EventType.DELIVERED:
        deliveries.note_arrival(event.message_id, at)
    elif not _is_known(event, at) and now - at < SOON:
        raise NotYetKnown


def _is_known(event: Any, at: datetime) -> bool:
    reason = event.reject_reason
    reason = Bounce(reason) if reason in Bounce.values else Bounce.OTHER
    return deliveries.note_bounce(event.message_id, at, reason) is not None


def _moment(told: datetime | None, now: datetime) -> datetime:
    """When it came back, by a clock that is not ours."""
    if told is None:
        return now
    return min(now, told if told.tzinfo else timezone.make_aware(told))
