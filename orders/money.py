"""Money: whole minor units and an ISO code inside, words only at the edge."""

from decimal import Decimal

from babel.core import UnknownLocaleError
from babel.numbers import format_currency, get_currency_precision, list_currencies
from django.core.exceptions import ValidationError


def exponent(currency: str) -> int:
    """Decimals of the currency: JPY 0, most 2, KWD 3 (CLDR, by Babel)."""
    return get_currency_precision(currency)


def in_words(minor: int, currency: str, locale: str = "en") -> str:
    """`minor` units as people write them, e.g. 4250 EUR → €42.50."""
    amount = Decimal(minor).scaleb(-exponent(currency))
    try:
        return format_currency(amount, currency, locale=locale.replace("-", "_"))
    except (UnknownLocaleError, ValueError):
        return format_currency(amount, currency, locale="en")


def valid_currency(currency: str) -> None:
    """Validator: raises ValidationError unless `currency` is an ISO 4217 code."""
    if currency not in list_currencies():
        raise ValidationError(f"“{currency}” is no currency; write its ISO code, e.g. EUR.")
