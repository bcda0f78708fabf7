"""The job that pays a refund back, through `orders.payments`."""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.job import Job
from jobs.policy import GiveUp, Policy, TryLater
from jobs.prognosis import Prognosis
from jobs.registry import Lane, handler
from orders import payments, refunds
from orders.models import Refund
from orders.payments import Owed, Paid, PaymentAway, PaymentRefused

from . import refund_foresight

PAY = Policy(attempts=8, base=10, cap=600, timeout=30)
PAUSE = 30.0
"""Seconds until a payment provider that does not serve is asked again."""


@dataclass(frozen=True)
class RefundArgs:
    """Which order, and which of its refunds."""

    order_id: int
    number: int


def _foresee(args: Sequence[RefundArgs]) -> list[Prognosis]:
    return refund_foresight.of_payments([(one.order_id, one.number) for one in args])


# Those of a cancelled event are many, and nobody waits for money as for a ticket: behind tickets.
@handler(
    "pay_refund", policy=PAY, subject="order:{order_id}", lane=Lane.BULK, outside="payments",
    foresee=_foresee,
)  # fmt: skip
def pay_refund(job: Job[RefundArgs]) -> None:
    """State: the refund is paid back, once; or a person knows that it is to be paid by hand."""
    refund = known_refund(job.args)
    answer = _ask(refund) if refunds.note_try(refund) else None
    with job.effects():
        if answer is None or not refunds.settle(refund, answer):
            job.nothing_to_do()


def known_refund(args: RefundArgs) -> Refund:
    """The refund that is meant. Raises GiveUp where there is none: anybody may type a number."""
    refund = refunds.numbered(args.order_id, args.number)
    if refund is None:
        newest = refunds.newest_numbers([args.order_id])
        raise GiveUp(refund_foresight.no_refund(args.order_id, args.number, newest))
    return refund


def _ask(refund: Refund) -> Paid | Owed | PaymentRefused:
    try:
        return payments.pay_back(refund)
    except PaymentRefused as refusal:
        return refusal
    except PaymentAway as away:
        raise TryLater(PAUSE, f"the payment provider does not serve: {away}") from away
