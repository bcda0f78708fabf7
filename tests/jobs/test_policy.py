"""What a policy says of a failed run: tables of attempts, chance and errors; no clock."""

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.policy import Bury, GiveUp, Policy, Retry, TryLater, Verdict, Wait

HOUR = 3600.0
TOO_LATE = Bury("still not possible 100 s after it was due", counts=0)


class Refused(Exception):
    """A provider's final word."""


class RefusedForNow(Refused):
    """A kind of it."""


class Asks(Exception):
    """An answer that says when to come again, if it does."""

    def __init__(self, seconds: float | None) -> None:
        super().__init__(seconds)
        self.seconds = seconds


def after(policy: Policy, error: BaseException, **about: float) -> Verdict:
    """The verdict on a first failure in the middle of chance, unless told otherwise."""
    told: dict[str, Any] = {"attempts": 0, "age": 0.0, "chance": 0.5, **about}
    return policy.after_failure(error, **told)


@pytest.mark.parametrize(
    ("attempts", "chance", "delay"),
    [
        (0, 0.0, 0), (0, 0.5, 5), (0, 1.0, 10),
        (1, 0.0, 0), (1, 0.5, 10), (1, 1.0, 20),
        (2, 0.5, 20), (2, 1.0, 40),
        (5, 1.0, 320),
        (6, 0.0, 0), (6, 0.5, 300), (6, 1.0, 600),
        (7, 1.0, 600), (5000, 1.0, 600),
    ],
)  # fmt: skip
def test_each_delay_is_twice_the_last_up_to_the_cap_and_all_of_it_is_chance(
    attempts: int, chance: float, delay: float
) -> None:
    policy = Policy(attempts=10_000, base=10, cap=600)
    assert after(policy, ValueError(), attempts=attempts, chance=chance) == Retry(delay)


@pytest.mark.parametrize(
    ("jitter", "chance", "delay"),
    [(0, 0.0, 40), (0, 1.0, 40), (0.5, 0.0, 20), (0.5, 0.5, 30), (0.5, 1.0, 40), (1, 0.0, 0)],
)
def test_jitter_is_the_share_that_is_left_to_chance(
    jitter: float, chance: float, delay: float
) -> None:
    policy = Policy(base=10, jitter=jitter)
    assert after(policy, ValueError(), attempts=2, chance=chance) == Retry(delay)


@pytest.mark.parametrize(
    ("attempts", "verdict"), [(0, Retry(5)), (1, Retry(10)), (2, Bury("failed 3 times"))]
)
def test_so_many_runs_in_all_and_then_it_is_dead(attempts: int, verdict: Verdict) -> None:
    assert after(Policy(attempts=3), ValueError(), attempts=attempts) == verdict


def test_a_policy_of_one_attempt_tries_nothing_again() -> None:
    policy = Policy(attempts=1)
    assert after(policy, ValueError()) == Bury("failed 1 times")
    assert list(policy.delays()) == []
    assert after(policy, TryLater(5, "busy"), chance=0) == Wait(5), "what is not counted"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (GiveUp("no such order"), "given up: no such order"),
        (Refused("no"), "final error"),
        (RefusedForNow("a subclass"), "final error"),
    ],
)
def test_a_final_error_is_dead_at_once_whatever_attempts_are_left(
    error: BaseException, reason: str
) -> None:
    policy = Policy(attempts=8, final=(Refused,))
    assert policy.gives_up(error)
    assert after(policy, error) == Bury(reason)


def test_an_error_is_not_final_for_the_types_above_it() -> None:
    policy = Policy(final=(RefusedForNow,))
    assert not policy.gives_up(Refused("no"))
    assert after(policy, Refused("no")) == Retry(5)


def test_the_last_word_of_a_job_is_text_that_can_be_stored_and_shown() -> None:
    """It is written into a row: what raises there would decide nothing, run after run."""

    class Unspeakable(GiveUp):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    for error in (GiveUp("a\0b \ud800"), GiveUp("x" * 5_000_000), Unspeakable("x")):
        verdict = after(Policy(), error)
        assert isinstance(verdict, Bury)
        assert verdict.reason.startswith("given up: ")
        assert "\0" not in verdict.reason
        verdict.reason.encode()
        assert len(verdict.reason) < 3000
    assert after(Policy(), GiveUp("refused: ada@example.org")) == Bury("given up: refused: …@…")


def test_final_beats_what_asks_to_wait() -> None:
    policy = Policy(final=(Asks,), retry_after=lambda error: 5.0)
    assert after(policy, Asks(5)) == Bury("final error")


@pytest.mark.parametrize(
    ("age", "delay", "chance", "verdict"),
    [
        (0, 30, 0, Wait(30)), (0, 30, 0.5, Wait(37.5)), (0, 30, 1, Wait(45)),
        (70, 30, 0, Wait(30)), (60, 30, 1, Wait(40)), (70, 30, 1, Wait(30)),
        (99, -30, 0, Wait(1)), (0, 0, 0, Wait(1)), (0, math.nan, 0, Wait(1)),
        (70.5, 30, 0, TOO_LATE), (0, 100.5, 0, TOO_LATE), (0, math.inf, 0, TOO_LATE),
        (101, 0, 0, TOO_LATE),
    ],
)  # fmt: skip
def test_a_wait_is_never_shorter_than_asked_counts_no_attempt_and_ends_with_the_deadline(
    age: float, delay: float, chance: float, verdict: Verdict
) -> None:
    policy = Policy(deadline=100, retry_after=lambda error: getattr(error, "seconds", None))
    for attempts in (0, 4, 400):
        about = {"attempts": attempts, "age": age, "chance": chance}
        assert after(policy, TryLater(delay, "busy"), **about) == verdict
        assert after(policy, Asks(delay), **about) == verdict
    assert verdict.counts == 0


@pytest.mark.parametrize(
    ("error", "burdens"),
    [
        (ValueError(), True), (Asks(5), True), (TryLater(5, "rate limit"), True),
        (TryLater(5, "this one is busy", of_provider=False), False),
        (GiveUp("no such order"), False), (Refused("no"), False), (RefusedForNow("no"), False),
    ],
)  # fmt: skip
def test_which_errors_say_that_other_jobs_would_fail_too(
    error: BaseException, burdens: bool
) -> None:
    policy = Policy(final=(Refused,), retry_after=lambda error: 5.0)
    assert policy.burdens_kind(error) is burdens


def test_an_error_that_asks_for_nothing_is_a_failure() -> None:
    policy = Policy(retry_after=lambda error: getattr(error, "seconds", None))
    assert after(policy, Asks(None)) == Retry(5)
    assert after(policy, ValueError()) == Retry(5)
    assert after(Policy(), Asks(30)) == Retry(5), "nobody asked it"


def test_what_cannot_be_read_from_an_error_asks_for_nothing() -> None:
    """`Retry-After: Wed, 21 Oct` is a failure like any other, and not one that decides nothing."""

    def read(error: BaseException) -> float:
        return float(str(error))

    policy = Policy(attempts=2, retry_after=read)
    assert after(policy, ValueError("7"), chance=0) == Wait(7)
    assert after(policy, ValueError("Wed, 21 Oct")) == Retry(5)
    assert after(policy, ValueError("Wed, 21 Oct"), attempts=1) == Bury("failed 2 times")


def test_what_each_verdict_counts() -> None:
    assert (Retry(1).counts, Wait(1).counts, Bury("x").counts) == (1, 0, 1)


def test_all_delays_and_the_horizon_of_a_job_that_fails_in_every_way() -> None:
    policy = Policy(attempts=4, base=10, cap=30, jitter=0.5, deadline=HOUR)
    assert list(policy.delays()) == [(5, 10), (10, 20), (15, 30)]
    assert policy.horizon() == HOUR + 10 + 20 + 30
    assert Policy(attempts=1, deadline=0).horizon() == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0}, {"attempts": -1},
        {"base": -1}, {"base": 700}, {"base": 10, "cap": 5}, {"base": math.nan},
        {"cap": math.inf}, {"cap": math.nan},
        {"jitter": -0.1}, {"jitter": 1.1}, {"jitter": math.nan},
        {"timeout": 0}, {"timeout": -1}, {"timeout": math.nan},
        {"deadline": -1}, {"deadline": math.inf}, {"deadline": math.nan},
        {"hold_after": -1},
    ],
    ids=str,
)  # fmt: skip
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a policy needs"):
        Policy(**wrong)


@pytest.mark.parametrize(
    "edge", [{"base": 0, "cap": 0}, {"jitter": 0}, {"deadline": 0}, {"hold_after": 0}], ids=str
)
def test_the_edges_of_what_makes_sense_are_allowed(edge: dict[str, Any]) -> None:
    Policy(**edge)


policies = st.builds(
    lambda attempts, base, more, jitter: Policy(
        attempts=attempts, base=base, cap=base + more, jitter=jitter
    ),
    st.integers(1, 50), st.floats(0, 1e4), st.floats(0, 1e6), st.floats(0, 1),
)  # fmt: skip


@given(policies, st.integers(0, 5000), st.floats(0, 1))
def test_every_delay_is_between_its_bounds_and_never_beyond_the_cap(
    policy: Policy, attempts: int, chance: float
) -> None:
    verdict = policy.after_failure(ValueError(), attempts=attempts, age=0, chance=chance)
    shortest, longest = policy.delay(attempts)
    assert 0 <= shortest <= longest <= policy.cap
    if attempts + 1 >= policy.attempts:
        assert verdict == Bury(f"failed {attempts + 1} times")
    else:
        assert isinstance(verdict, Retry)
        assert shortest <= verdict.delay <= longest or math.isclose(verdict.delay, longest)


@given(policies)
def test_the_longest_delays_never_shrink(policy: Policy) -> None:
    longest = [bound for _, bound in policy.delays()]
    assert all(before <= later for before, later in pairwise(longest))


@given(st.floats(0, 1e5), st.floats(0, 1e5), st.floats(0, 1), st.floats(1, 1e5))
def test_no_wait_is_shorter_than_asked_or_ends_past_the_deadline(
    age: float, delay: float, chance: float, deadline: float
) -> None:
    verdict = after(Policy(deadline=deadline), TryLater(delay, "x"), age=age, chance=chance)
    if isinstance(verdict, Wait):
        assert verdict.delay >= delay or math.isclose(verdict.delay, delay, abs_tol=1e-9)
        assert age + verdict.delay <= deadline or math.isclose(age + verdict.delay, deadline)


@given(policies, st.floats(0, 1), st.floats(0, 1))
def test_more_chance_never_means_an_earlier_try(
    policy: Policy, chance: float, other: float
) -> None:
    low, high = sorted((chance, other))
    delays = [after(policy, ValueError(), attempts=0, chance=each) for each in (low, high)]
    if policy.attempts > 1:
        assert delays[0].delay <= delays[1].delay  # type: ignore[union-attr]
