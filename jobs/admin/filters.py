"""How the list of dead jobs is narrowed down."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.db.models import Count, QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest

from jobs.models import DeadJob

GROUPS_SHOWN = 15
"""Of the same error; the largest first."""
LABEL_LENGTH = 90


class _Counted(SimpleListFilter):
    """Values of one column with how often each stands there, the most frequent first."""

    column: str

    def lookups(
        self, request: HttpRequest, model_admin: ModelAdmin[Any]
    ) -> Sequence[tuple[str, str]]:
        """The largest groups; one that is chosen already is shown however small it is."""
        found = DeadJob.objects.values_list(self.column).annotate(number=Count("id"))
        groups = list(found.order_by("-number", self.column)[:GROUPS_SHOWN])
        chosen = self.value()
        if chosen is not None and "\0" not in chosen and chosen not in dict(groups):
            groups += list(found.filter(**{self.column: chosen}))
        return [
            (value, f"{value[:LABEL_LENGTH] or '(none)'} ({number})") for value, number in groups
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[DeadJob]) -> QuerySet[DeadJob]:
        """Only that group."""
        value = self.value()
        # No text in PostgreSQL has one, and asking for it is an error.
        if value is not None and "\0" in value:
            return queryset.none()
        return queryset if value is None else queryset.filter(**{self.column: value})


class KindFilter(_Counted):
    title = "kind"
    parameter_name = column = "kind"


class ErrorClassFilter(_Counted):
    title = "kind of error"
    parameter_name = column = "error_class"


class SameErrorFilter(_Counted):
    title = "same error"
    parameter_name = column = "same_error"


class SinceFilter(SimpleListFilter):
    title = "dead since"
    parameter_name = "since"
    SPANS = (("10m", "10 minutes", 600), ("1h", "an hour", 3600), ("1d", "a day", 86_400),
             ("7d", "a week", 604_800))  # fmt: skip

    def lookups(
        self, request: HttpRequest, model_admin: ModelAdmin[Any]
    ) -> Sequence[tuple[str, str]]:
        """Four spans of time."""
        return [(key, f"less than {label}") for key, label, _ in self.SPANS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[DeadJob]) -> QuerySet[DeadJob]:
        """What died within the span, by PostgreSQL's clock."""
        seconds = next((span for key, _, span in self.SPANS if key == self.value()), None)
        if seconds is None:
            return queryset
        return queryset.filter(dead_at__gt=Now() - timedelta(seconds=seconds))
