"""What buyers type on the pages of their order."""

from django import forms
from django.core.exceptions import ValidationError

from orders.names import NameRefused, clean_name


class SeenForm(forms.Form):
    """What the page showed: the same form twice does it once."""

    seen = forms.IntegerField(min_value=1, widget=forms.HiddenInput)


class HolderForm(SeenForm):
    """Who is to go in with a ticket. `seen`: the ticket's version on the page."""

    name = forms.CharField(
        label="Name on the ticket",
        max_length=4000,
        strip=True,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )

    def clean_name(self) -> str:
        """The name as it will be printed."""
        try:
            return clean_name(self.cleaned_data["name"])
        except NameRefused as refusal:
            raise ValidationError(str(refusal)) from refusal


class LostLinkForm(forms.Form):
    """Whose links."""

    email = forms.EmailField(
        label="Email",
        max_length=254,
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
        help_text="The one that you ordered with.",
    )
