"""The order form: what a buyer types, checked and cleaned, with a message at the field."""

import secrets
from collections.abc import Sequence
from typing import Any

from django import forms
from django.core import signing
from django.core.exceptions import ValidationError

from .models import Event, TicketType
from .names import NameRefused, clean_name
from .services import Wish

KEY_SALT = "orders.order_key"
PREFIX = "quantity-"
FOREIGN_KEY = (
    "This form was not made for this browser, or its cookie is gone. Please check the form and "
    "send it once more."
)


def new_order_key(buyer: str) -> str:
    """A key for one form, of use only together with the cookie of `buyer`."""
    return signing.Signer(salt=f"{KEY_SALT}:{buyer}").sign(secrets.token_urlsafe(24))


class OrderForm(forms.Form):
    """The form of one event. `buyer` is the value of the signed cookie, or of a new one."""

    order_key = forms.CharField(widget=forms.HiddenInput)
    name = forms.CharField(
        label="Your name",
        max_length=4000,
        strip=True,
        widget=forms.TextInput(attrs={"autocomplete": "name"}),
        help_text="It is printed on the tickets.",
    )
    email = forms.EmailField(
        label="Email",
        max_length=254,
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
        help_text="Your tickets are sent there.",
    )

    def __init__(
        self, event: Event, types: Sequence[TicketType], buyer: str, data: Any = None
    ) -> None:
        super().__init__(data, initial={"order_key": new_order_key(buyer)})
        self.event = event
        self.types = types
        self.buyer = buyer
        for kind in types:
            self.fields[f"{PREFIX}{kind.pk}"] = _quantity(kind)

    def quantity_fields(self) -> list[tuple[TicketType, forms.BoundField]]:
        """Each ticket type with its field, for the template."""
        return [(kind, self[f"{PREFIX}{kind.pk}"]) for kind in self.types]

    def marked(self) -> bool:
        """Whether a field that the buyer sees has a message, for the template."""
        return any(self[name].errors for name in self.fields if name != "order_key")

    def contact_fields(self) -> list[forms.BoundField]:
        """Who orders, for the template."""
        return [self["name"], self["email"]]

    def clean_name(self) -> str:
        """The name as it will be printed."""
        try:
            return clean_name(self.cleaned_data["name"])
        except NameRefused as refusal:
            raise ValidationError(str(refusal)) from refusal

    def clean_order_key(self) -> str:
        """The random part of the key; refused where it was not made for this browser."""
        try:
            return signing.Signer(salt=f"{KEY_SALT}:{self.buyer}").unsign(
                self.cleaned_data["order_key"]
            )
        except signing.BadSignature as error:
            raise ValidationError(FOREIGN_KEY) from error

    def clean(self) -> dict[str, Any]:
        """All together: known ticket types, at least one ticket."""
        cleaned = super().clean() or self.cleaned_data
        if "order_key" in self.errors:
            self._renew_key()
        unknown = {name for name in self.data if name.startswith(PREFIX)} - self.fields.keys()
        if unknown:
            raise ValidationError("This event has no such ticket type. Please choose again.")
        broken = any(name.startswith(PREFIX) for name in self.errors)
        if not broken and not self._quantities():
            raise ValidationError("Choose at least one ticket.")
        return cleaned

    def _renew_key(self) -> None:
        # The page that shows the message would be refused again with the old one.
        self.errors["order_key"] = self.error_class([FOREIGN_KEY])
        self.data = {**dict(self.data.items()), "order_key": new_order_key(self.buyer)}

    def _quantities(self) -> dict[int, int]:
        found = {kind.pk: self.cleaned_data.get(f"{PREFIX}{kind.pk}") for kind in self.types}
        return {pk: number for pk, number in found.items() if number}

    def wish(self) -> Wish:
        """What the valid form asks for."""
        return Wish(
            event=self.event,
            quantities=self._quantities(),
            email=self.cleaned_data["email"],
            buyer_name=self.cleaned_data["name"],
            order_key=self.cleaned_data["order_key"],
            types={kind.pk: kind for kind in self.types},
        )


def _quantity(kind: TicketType) -> forms.IntegerField:
    most = kind.max_per_order
    return forms.IntegerField(
        label=kind.name,
        min_value=0,
        max_value=most,
        required=False,
        widget=forms.NumberInput(attrs={"inputmode": "numeric", "placeholder": "0"}),
        error_messages={
            "min_value": "Choose 0 or more.",
            "max_value": f"At most {most} in one order.",
            "invalid": "Choose a whole number.",
        },
    )
