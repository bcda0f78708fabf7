"""The box office's form of a refund: which tickets of the order, and why."""

from typing import Any

from django import forms
from django.utils.functional import cached_property

from orders import admissions, refunds
from orders.admissions import Admission
from orders.models import Order
from orders.money import in_words

from .models import Ticket
from .services import was_used


class RefundForm(forms.Form):
    """`seen`: how many refunds the page knew of, so that the same form twice is one refund."""

    seq = forms.TypedMultipleChoiceField(
        label="Tickets",
        coerce=int,
        widget=forms.CheckboxSelectMultiple,
        error_messages={
            "required": "Choose at least one ticket.",
            "invalid_choice": "Ticket %(value)s is refunded already, or there is none: look again.",
        },
    )
    reason = forms.CharField(
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="For colleagues: the buyer is not told.",
    )
    seen = forms.IntegerField(min_value=0, max_value=10_000, widget=forms.HiddenInput)

    def __init__(self, order: Order, data: Any = None) -> None:
        self._left = admissions.left(order)
        super().__init__(
            data,
            initial={
                "seq": [one.seq for one in self._left],
                "seen": refunds.newest_number(order),
            },
        )
        made = {ticket.seq: ticket for ticket in order.tickets.all()}
        field = self.fields["seq"]
        assert isinstance(field, forms.TypedMultipleChoiceField)  # noqa: S101 (for the type checker)
        field.choices = [(one.seq, _label(order, one, made.get(one.seq))) for one in self._left]
        self.used = [seq for seq, ticket in made.items() if was_used(ticket)]

    @cached_property
    def amount(self) -> int:
        """What all that is left was sold for, in minor units."""
        return refunds.amount_of(self._left)

    def chosen_amount(self) -> int:
        """The same of what the valid form chose."""
        chosen = self.cleaned_data["seq"]
        return refunds.amount_of(one for one in self._left if one.seq in chosen)


def _label(order: Order, one: Admission, ticket: Ticket | None) -> str:
    price = in_words(one.line.price, order.currency)
    holder = f", {ticket.holder_name}" if ticket else ""
    used = ", used at the door" if ticket and was_used(ticket) else ""
    return f"{one.seq}: {one.line.name}, {price}{holder}{used}"
