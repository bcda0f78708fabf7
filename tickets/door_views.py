"""The pages of the door: a list of events, and one page for each that answers scan after scan."""

import secrets
from collections.abc import Callable
from datetime import timedelta

from django.contrib.admin.views.decorators import staff_member_required
from django.contrib.auth.decorators import permission_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from orders.models import Event, EventStatus

from . import door
from .door import Door
from .models import Scan
from .views import private_form

type View = Callable[..., HttpResponseBase]
LONG_OVER = timedelta(days=1)
TYPED_LIMIT = 200
"""Letters of a scan that are looked at: a code has 26, and spaces."""


def _for_the_door(view: View) -> View:
    allowed = permission_required("tickets.scan_ticket", raise_exception=True)(view)
    return private_form(staff_member_required(allowed, login_url="admin:login"))


@require_safe
@_for_the_door
def doors(request: HttpRequest) -> HttpResponse:
    """`/door/`: the events that somebody may come to."""
    published = Event.objects.exclude(status=EventStatus.DRAFT)
    events = published.filter(starts_at__gt=timezone.now() - LONG_OVER)
    return render(request, "tickets/doors.html", {"events": events})


@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
@_for_the_door
def door_page(request: HttpRequest, slug: str) -> HttpResponse:
    """`/door/<event>/`: POST: the answer to what was scanned, and the field for the next one."""
    published = Event.objects.exclude(status=EventStatus.DRAFT)
    event = get_object_or_404(published, slug=slug)
    # Answered at once, not after a redirect: people wait. Sent again it is the same scan.
    answer = _scan(request, event) if request.method == "POST" else None
    context = {
        "event": event,
        "scan": answer,
        "scans": door.newest_scans(event),
        "crowd": door.crowd(event),
        "key": secrets.token_hex(8),
    }
    return render(request, "tickets/door.html", context)


def _scan(request: HttpRequest, event: Event) -> Scan | None:
    typed = request.POST.get("code", "")[:TYPED_LIMIT]
    if not typed.strip():
        return None
    key = request.POST.get("key", "") or secrets.token_hex(8)
    asked = "asked" in request.POST
    return door.scan(event, typed, Door(by=request.user.get_username(), key=key, asked=asked))
