"""A payment provider for the tests: it remembers what it paid, by key, and fails as asked."""

import dataclasses

from orders.models import Refund
from orders.payments import Owed, Paid, PaymentAway, PaymentRefused


@dataclasses.dataclass
class Ledger:
    """What the provider was asked for and what it paid; `failures` come first, one a call.

    `after`: it has paid by then, only its answer is lost.
    """

    calls: list[str] = dataclasses.field(default_factory=list)
    paid: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    failures: list[Exception] = dataclasses.field(default_factory=list)
    after: bool = False


LEDGER = Ledger()


def reset() -> Ledger:
    """Forget everything."""
    LEDGER.__init__()  # type: ignore[misc]
    return LEDGER


class Provider:
    """The implementation that `PAYMENTS` names."""

    def pay_back(self, refund: Refund) -> Paid | Owed:
        """Pay once a key."""
        LEDGER.calls.append(refund.provider_key)
        failure = LEDGER.failures.pop(0) if LEDGER.failures else None
        if failure is None or LEDGER.after:
            money = (refund.amount, refund.order.currency)
            assert LEDGER.paid.setdefault(refund.provider_key, money) == money
        if failure is not None:
            raise failure
        return Paid(f"re_{refund.provider_key}")


AWAY = PaymentAway("timed out")
REFUSED = PaymentRefused("the card has expired")
