"""Until when buyers may give tickets back: the rule, and the box office's field."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from orders.deadline import may_refund, refund_deadline

START = datetime(2027, 5, 1, 18, tzinfo=UTC)
MOMENTS = st.integers(-300, 300).map(lambda hours: START + timedelta(hours=hours))


def test_without_a_deadline_no_buyer_gives_anything_back() -> None:
    assert refund_deadline(None, START) is None
    assert not may_refund(None, START, START - timedelta(days=100))


def test_the_deadline_itself_is_too_late() -> None:
    until = START - timedelta(days=2)
    assert may_refund(until, START, until - timedelta(microseconds=1))
    assert not may_refund(until, START, until)


def test_an_event_that_was_moved_before_its_deadline_takes_nothing_back_after_its_start() -> None:
    until = START + timedelta(days=3)
    assert refund_deadline(until, START) == START
    assert may_refund(until, START, START - timedelta(seconds=1))
    assert not may_refund(until, START, START)


@given(until=st.none() | MOMENTS, starts=MOMENTS, now=MOMENTS, later=st.timedeltas(timedelta(0)))
def test_what_is_too_late_stays_too_late(
    until: datetime | None, starts: datetime, now: datetime, later: timedelta
) -> None:
    if may_refund(until, starts, now):
        assert until is not None
        assert now < min(until, starts)
    elif later < timedelta(days=300):
        assert not may_refund(until, starts, now + later)
