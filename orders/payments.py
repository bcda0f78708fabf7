"""Money back to the buyer: the interface to whoever moves it, and the way without anybody.

The setting PAYMENTS names the implementation. `Recorded` is the only one here: nothing moves, the
ledger says what is owed, the box office pays and marks it as paid out.
"""

from dataclasses import dataclass
from functools import cache
from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string

from .models import Refund


@dataclass(frozen=True, slots=True)
class Paid:
    """The money is on its way; `provider_id` is what the provider calls it."""

    provider_id: str


@dataclass(frozen=True, slots=True)
class Owed:
    """Nothing was moved: a person pays it back."""


class PaymentRefused(Exception):
    """The provider will not pay it, now or later; the text says why, for staff. Nothing moved."""


class PaymentAway(Exception):
    """The provider does not serve, or its answer was lost: it may have paid. Try again."""


class Payments(Protocol):
    """Whoever pays refunds back."""

    def pay_back(self, refund: Refund) -> Paid | Owed:
        """Pay `refund.amount` of the order's currency back; called outside of a transaction.

        Called again with the same `refund.provider_key` it pays nothing more and answers as the
        first time, however much later: where a provider forgets its keys, the implementation looks
        the refund up by it first. Raises PaymentRefused and PaymentAway.
        """
        ...


class Recorded:
    """Nobody moves money: the rows of refunds are the list of what is to be paid by hand."""

    def pay_back(self, refund: Refund) -> Paid | Owed:
        """Owed, always."""
        return Owed()


def pay_back(refund: Refund) -> Paid | Owed:
    """Pay it back by the implementation that the settings name; see `Payments`."""
    return _implementation(settings.PAYMENTS).pay_back(refund)


@cache
def _implementation(path: str) -> Payments:
    made: Payments = import_string(path)()
    return made
