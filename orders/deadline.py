"""Until when buyers may give tickets back. Pure: the clock is handed in."""

from datetime import datetime


def refund_deadline(until: datetime | None, starts_at: datetime) -> datetime | None:
    """The moment from which on they may not; None where they never may.

    Never after the start: an event may be moved to an earlier day than its deadline.
    """
    return min(until, starts_at) if until else None


def may_refund(until: datetime | None, starts_at: datetime, now: datetime) -> bool:
    """Whether a buyer may give tickets back at this moment. (Staff always may.)"""
    deadline = refund_deadline(until, starts_at)
    return deadline is not None and now < deadline
