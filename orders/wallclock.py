"""Wall clocks: what the poster says, and the instant it means in the event's zone."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django import forms
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.dateparse import parse_datetime

FORMAT = "%Y-%m-%dT%H:%M"
FIRST_YEAR, LAST_YEAR = 1970, 9000
"""Beyond, arithmetic with zones leaves the calendar; a year typed as 26 is 0026."""


class NoSuchTime(ValueError):
    """The clocks of that zone skip this time (spring), or no event can be then; by `instant`."""


class TwiceThatDay(ValueError):
    """The clocks of that zone show this time twice (autumn); by `instant` without a choice."""


def instant(local: datetime, zone: str, fold: int | None = None) -> datetime:
    """The UTC instant of the wall clock `local` in the IANA zone; `fold` 0 or 1 chooses in autumn.

    Raises NoSuchTime and TwiceThatDay, in words for the person who typed the time.
    """
    clock = ZoneInfo(zone)
    shown = local.strftime("%d %B %Y %H:%M")
    if not FIRST_YEAR <= local.year <= LAST_YEAR:
        raise NoSuchTime(f"{shown} is too far away: write the year with four digits.")
    first, second = (local.replace(tzinfo=clock, fold=which).astimezone(UTC) for which in (0, 1))
    if first == second:
        return first
    if first.astimezone(clock).replace(tzinfo=None) != local:
        raise NoSuchTime(f"{shown} does not exist in {zone}: the clocks go forward over it.")
    if fold is None:
        raise TwiceThatDay(f"{shown} comes twice in {zone} that night: choose which one is meant.")
    return second if fold else first


def valid_zone(zone: str) -> None:
    """Validator: raises ValidationError unless `zone` is an IANA name such as Europe/Berlin."""
    if zone not in available_timezones():
        raise ValidationError(f"“{zone}” is no time zone; write it like Europe/Berlin.")


class WallClockFormField(forms.DateTimeField):
    """A date and time without a zone."""

    def __init__(self, **options: Any) -> None:
        widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format=FORMAT)
        super().__init__(**{"widget": widget, "input_formats": [FORMAT], **options})

    def to_python(self, value: Any) -> datetime | None:
        """The naive datetime; raises ValidationError. (Django's own would attach a zone.)"""
        if value in self.empty_values:
            return None
        parsed = value if isinstance(value, datetime) else _parsed(str(value))
        if parsed is None or parsed.tzinfo is not None:
            raise ValidationError(self.error_messages["invalid"], code="invalid")
        return parsed

    def prepare_value(self, value: Any) -> Any:
        """As it was stored."""
        return value


def _parsed(text: str) -> datetime | None:
    try:
        return parse_datetime(text.strip())
    except ValueError:
        return None


class WallClockField(models.Field[datetime, datetime]):
    """A naive datetime, `timestamp without time zone`: zone rules change, the poster does not."""

    description = "Wall clock"

    def db_type(self, connection: Any) -> str:
        return "timestamp"

    def to_python(self, value: Any) -> datetime | None:
        return WallClockFormField(required=False).to_python(value)

    def get_prep_value(self, value: Any) -> datetime | None:
        return self.to_python(super().get_prep_value(value))

    def value_to_string(self, obj: models.Model) -> str:
        value: datetime | None = self.value_from_object(obj)
        return value.isoformat() if value else ""

    def formfield(self, **options: Any) -> Any:
        return super().formfield(**{"form_class": WallClockFormField, **options})
