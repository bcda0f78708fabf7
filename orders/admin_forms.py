"""Forms of the box office: an event with its wall clocks, its ticket types, its capacity."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from . import services
from .models import Event, TicketType
from .names import NameRefused, printable
from .wallclock import NoSuchTime, TwiceThatDay, WallClockFormField, instant, valid_zone

CAPACITY_LIMIT = 1_000_000
PRICE_LIMIT = 10**12
"""Minor units. A total of many still fits its column."""
MOST_PER_ORDER = 100
"""Tickets of one type: an order is one PDF with a page for each."""
MOMENTS = {
    "sale_opens": "sale_opens_at",
    "sale_closes": "sale_closes_at",
    "refunds_end": "refunds_until",
}
"""What is typed on a wall clock, and the column of the instant that it means."""


def _printable(text: str) -> str:
    """`text` as tickets and subjects can carry it; raises ValidationError."""
    try:
        return printable(text)
    except NameRefused as refusal:
        raise ValidationError(str(refusal)) from refusal


WHEN = ("tz", "starts_local", "starts_fold", "doors_minutes")
MOVE = "It has orders: use “Move the event”, which tells its buyers."


class EventForm(forms.ModelForm[Event]):
    """An event; all times are typed on the wall clock of its zone.

    When it starts is not changed here once somebody knows it.
    """

    sale_opens = WallClockFormField(
        help_text="In the event's time zone. It opens by itself once the event is published."
    )
    sale_closes = WallClockFormField(help_text="In the event's time zone. It closes by itself.")
    refunds_end = WallClockFormField(
        required=False,
        label="Refunds until",
        help_text="In the event's time zone. Until then buyers may give tickets back by "
        "themselves; empty: never. Staff always may.",
    )

    class Meta:
        model = Event
        fields = (
            "title", "slug", "venue", "tz", "starts_local", "starts_fold", "doors_minutes",
            "currency",
        )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            for name, column in MOMENTS.items():
                moment: datetime | None = getattr(self.instance, column)
                if moment:
                    self.initial[name] = moment.astimezone(self.instance.zone).replace(tzinfo=None)
            if services.is_known(self.instance):
                self._freeze()

    def _freeze(self) -> None:
        # Whoever may only look at the event has a form without fields.
        for name in {*WHEN} & {*self.fields}:
            self.fields[name].disabled = True
            if name == "starts_local":
                self.fields[name].help_text = MOVE

    def clean_title(self) -> str:
        """The title as it will be printed."""
        return _printable(self.cleaned_data["title"])

    def clean_venue(self) -> str:
        """The venue as it will be printed."""
        return _printable(self.cleaned_data["venue"])

    def clean_tz(self) -> str:
        """A zone that exists: the model would look only after the instants were worked out."""
        zone: str = self.cleaned_data["tz"]
        valid_zone(zone)
        return zone

    def clean(self) -> dict[str, Any]:
        """Work the instants out of the wall clocks; refuses times that a zone skips or repeats."""
        cleaned = super().clean() or self.cleaned_data
        if "tz" in cleaned:
            self._derive("starts_local", "starts_at", cleaned.get("starts_fold"))
            # Nobody needs to choose for a sale: the earlier opening, the later closing.
            self._derive("sale_opens", MOMENTS["sale_opens"], 0)
            self._derive("sale_closes", MOMENTS["sale_closes"], 1)
            self.instance.refunds_until = None
            self._derive("refunds_end", MOMENTS["refunds_end"], 1)
        opens, closes = self.instance.sale_opens_at, self.instance.sale_closes_at
        if not self.errors and opens >= closes:
            self.add_error("sale_closes", "The sale must close after it opens.")
        until = self.instance.refunds_until
        if not self.errors and until and until > self.instance.starts_at:
            self.add_error("refunds_end", "Refunds by buyers must end before the event starts.")
        return cleaned

    def _derive(self, local: str, target: str, fold: int | None) -> None:
        if not self.cleaned_data.get(local):
            return
        try:
            moment = instant(self.cleaned_data[local], self.cleaned_data["tz"], fold)
        except TwiceThatDay as error:
            self.add_error("starts_fold", ValidationError(str(error)))
        except NoSuchTime as error:
            self.add_error(local, ValidationError(str(error)))
        else:
            setattr(self.instance, target, moment)


class TicketTypeForm(forms.ModelForm[TicketType]):
    """A ticket type; its capacity is asked for once, when it is made."""

    capacity = forms.IntegerField(
        min_value=0,
        max_value=CAPACITY_LIMIT,
        required=False,
        help_text="Of a new type; later it is set on the page “Change capacity”.",
    )

    price = forms.IntegerField(
        min_value=0,
        max_value=PRICE_LIMIT,
        help_text="In minor units: 4250 is 42.50 EUR.",
    )
    max_per_order = forms.IntegerField(
        label="Most in one order", min_value=1, max_value=MOST_PER_ORDER, initial=8
    )

    class Meta:
        model = TicketType
        fields = ("name", "price", "max_per_order", "sort")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["capacity"].disabled = True
            self.initial["capacity"] = self.instance.stock.capacity

    def clean_name(self) -> str:
        """The name as it will be printed."""
        return _printable(self.cleaned_data["name"])

    def clean_capacity(self) -> int | None:
        """A new type needs one."""
        capacity: int | None = self.cleaned_data["capacity"]
        if not self.instance.pk and capacity is None:
            raise ValidationError("How many places are there?")
        return capacity

    def _save_m2m(self) -> None:
        super()._save_m2m()  # type: ignore[misc]
        services.open_stock(self.instance, self.cleaned_data["capacity"] or 0)


class TicketTypeFormSet(forms.BaseInlineFormSet[TicketType, Event, forms.ModelForm[TicketType]]):
    """The ticket types of one event."""

    def clean(self) -> None:
        """Each name once: the constraint alone would speak up only when it is too late."""
        super().clean()
        seen: set[str] = set()
        for form in self.forms:
            kept = not form.cleaned_data.get("DELETE")
            name = form.cleaned_data.get("name") if kept else None
            if name in seen:
                form.add_error("name", f"There is another ticket type “{name}” already.")
            elif name:
                seen.add(name)


class CapacityForm(forms.Form):
    """One number for each ticket type of an event."""

    def __init__(self, event: Event, data: Any = None) -> None:
        super().__init__(data)
        self.event = event
        self.types = list(event.ticket_types.select_related("stock"))
        for kind in self.types:
            self.fields[f"capacity-{kind.pk}"] = forms.IntegerField(
                label=kind.name,
                min_value=0,
                max_value=CAPACITY_LIMIT,
                initial=kind.stock.capacity,
                show_hidden_initial=True,
                help_text=f"Places in all; {kind.stock.taken} are taken.",
            )

    def changes(self) -> Iterator[tuple[TicketType, int]]:
        """The types whose number is another than it was when the form was read."""
        for kind in self.types:
            name = f"capacity-{kind.pk}"
            # Compared with what the page showed: a colleague may have changed another one since.
            if name in self.changed_data:
                yield kind, self.cleaned_data[name]
