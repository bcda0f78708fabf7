"""The forms by which an event is moved or cancelled."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone

from . import announcements
from .announcements import When
from .models import Event
from .names import NameRefused, printable
from .wallclock import NoSuchTime, TwiceThatDay, WallClockFormField, instant

WORDS_LIMIT = 1000
DOORS_LIMIT = 24 * 60


def _area(rows: int) -> forms.Textarea:
    return forms.Textarea(attrs={"rows": rows})


class AnnouncementForm(forms.Form):
    """What buyers read, and the newest announcement that the page showed."""

    seen = forms.IntegerField(min_value=0, widget=forms.HiddenInput)
    words = forms.CharField(
        label="Words to the buyers",
        max_length=WORDS_LIMIT,
        required=False,
        widget=_area(4),
        help_text="Stands in the email, below what has changed.",
    )

    def __init__(self, event: Event, data: Any = None) -> None:
        super().__init__(data, initial={"seen": announcements.newest_number(event)})
        self.event = event

    def clean_words(self) -> str:
        """The words, of which every line can stand in an email."""
        words = self.cleaned_data["words"].replace("\r\n", "\n").replace("\r", "\n").strip()
        return "\n".join(_printable(line) if line.strip() else "" for line in words.split("\n"))


def _printable(text: str) -> str:
    try:
        return printable(text)
    except NameRefused as refusal:
        raise ValidationError(str(refusal)) from refusal


class MoveForm(AnnouncementForm):
    """When the event starts instead, on the clock of its zone."""

    starts_local = WallClockFormField(label="Starts")
    starts_fold = forms.TypedChoiceField(
        label="Which, if twice",
        required=False,
        coerce=int,
        empty_value=None,
        choices=[
            ("", "—"),
            (0, "the first (before the clocks go back)"),
            (1, "the second"),
        ],
        help_text="Only for a time that comes twice on the night when the clocks go back.",
    )
    doors_minutes = forms.IntegerField(
        label="Doors open",
        min_value=0,
        max_value=DOORS_LIMIT,
        help_text="Minutes before the start.",
    )
    field_order = ("starts_local", "starts_fold", "doors_minutes", "words")

    def __init__(self, event: Event, data: Any = None) -> None:
        super().__init__(event, data)
        self.fields["starts_local"].help_text = f"In the event's time zone, {event.tz}."
        self.initial.update(starts_local=event.starts_local, doors_minutes=event.doors_minutes)

    def clean(self) -> dict[str, Any]:
        """With the instant of the new start; it must be ahead, and another one than now."""
        cleaned = super().clean() or self.cleaned_data
        if not self.errors:
            self._work_out(cleaned)
        return cleaned

    def _work_out(self, cleaned: dict[str, Any]) -> None:
        try:
            at = instant(cleaned["starts_local"], self.event.tz, cleaned["starts_fold"])
        except TwiceThatDay as error:
            self.add_error("starts_fold", str(error))
            return
        except NoSuchTime as error:
            self.add_error("starts_local", str(error))
            return
        there = (self.event.starts_at, self.event.doors_minutes)
        if at <= timezone.now():
            self.add_error("starts_local", "That is over: an event can only move to a time ahead.")
        elif (at, cleaned["doors_minutes"]) == there:
            self.add_error("starts_local", "It starts then already.")
        cleaned["starts_at"] = at

    def to(self) -> When:
        """The new start; of a valid form."""
        names = ("starts_local", "starts_fold", "starts_at", "doors_minutes")
        return When(**{name: self.cleaned_data[name] for name in names})


class CancelForm(AnnouncementForm):
    """Why the event does not take place."""

    reason = forms.CharField(
        max_length=400,
        widget=_area(2),
        help_text="For colleagues, at every refund: buyers do not read it.",
    )
    field_order = ("reason", "words")
