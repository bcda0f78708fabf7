"""Money: whole minor units inside, words at the edge."""

import pytest
from django.core.exceptions import ValidationError

from orders.money import exponent, in_words, valid_currency


@pytest.mark.parametrize(("currency", "digits"), [("EUR", 2), ("USD", 2), ("JPY", 0), ("KWD", 3)])
def test_each_currency_has_its_own_minor_unit(currency: str, digits: int) -> None:
    assert exponent(currency) == digits


@pytest.mark.parametrize(
    ("minor", "currency", "locale", "words"),
    [
        (4250, "EUR", "en", "€42.50"),
        (4250, "JPY", "en", "¥4,250"),
        (4250, "KWD", "en", "KWD4.250"),
        (0, "EUR", "en", "€0.00"),
        (5, "GBP", "en-GB", "£0.05"),
        (4250, "EUR", "de", "42,50 €"),
        (9_007_199_254_740_993, "EUR", "en", "€90,071,992,547,409.93"),
        (4250, "EUR", "tlh-no-such", "€42.50"),
        (4250, "EUR", "", "€ 42.50"),
    ],
)
def test_amounts_are_written_as_people_write_them(
    minor: int, currency: str, locale: str, words: str
) -> None:
    assert in_words(minor, currency, locale).replace("\xa0", " ") == words


@pytest.mark.parametrize("currency", ["EURO", "eur", "XX", "", "€"])
def test_only_iso_codes_are_currencies(currency: str) -> None:
    with pytest.raises(ValidationError):
        valid_currency(currency)
