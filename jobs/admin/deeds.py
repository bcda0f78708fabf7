"""What a person does, with its line in Django's log, written in the same transaction."""

from datetime import datetime, timedelta
from typing import Any, cast

from django import forms
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.models import Model
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from jobs.correlation import request_id
from jobs.replay import Deed

NAME_LIMIT = 200
REASON_LIMIT = 500
REASON_WANTED = f"Write down why, in {REASON_LIMIT} letters at most."
LONGEST_SEEN = timedelta(days=365)
"""A page that was open for longer has not seen what it talks of."""


def name_of(user: AbstractBaseUser | AnonymousUser) -> str:
    """The person as events and holds name them."""
    return user.get_username()[:NAME_LIMIT]


def deed(request: HttpRequest, what: str, key: int | None, label: str, model: type[Model]) -> Deed:
    """A deed of this request's user: `what` is logged, of the thing `key` or of many."""

    def note(number: int, batch: int | None) -> None:
        about = what if key is not None else f"{what}: {number} jobs"
        log(request, about if batch is None else f"{about}, batch {batch}", key, label, model)

    return Deed(by=name_of(request.user), note=note)


def log(request: HttpRequest, what: str, key: int | None, label: str, model: type[Model]) -> None:
    """One line of Django's log: who, what, and the request id."""
    LogEntry.objects.create(
        user_id=cast(int, request.user.pk),
        content_type=ContentType.objects.get_for_model(model),
        object_id=None if key is None else str(key),
        object_repr=label[:200],
        action_flag=CHANGE,
        change_message=f"{what} (request {request_id()})",
    )


def now() -> datetime:
    """PostgreSQL's time: what is dead by now is what this page shows."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        moment: datetime = cursor.fetchone()[0]
    return moment


def seen(data: Any) -> datetime | None:
    """When the page that sends this form was made; None where it says no such time."""
    try:
        moment = parse_datetime(data.get("seen", ""))
        if moment is None or abs(timezone.now() - moment) > LONGEST_SEEN:
            return None
    except (ValueError, TypeError, OverflowError):
        return None
    return moment


def reason(data: Any) -> str:
    """The reason that a person gives; empty where it is none that can be kept."""
    form = ReasonForm(data)
    return str(form.cleaned_data["reason"]) if form.is_valid() else ""


class ReasonForm(forms.Form):
    """Why something is discarded."""

    reason = forms.CharField(max_length=REASON_LIMIT)
