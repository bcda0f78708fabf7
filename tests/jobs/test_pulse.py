"""The pulse of a loop: late, standing still, or well."""

import time

from jobs.pulse import Pulse
from tests.processes import wait_for


def stood_still(seconds: float) -> bool:
    began = time.monotonic()
    return wait_for(lambda: time.monotonic() - began > seconds, "some time")


def test_a_loop_that_comes_round_in_time_is_not_late_and_not_ill() -> None:
    pulse = Pulse(every=60)
    assert pulse.beat() == 0
    assert pulse.lag() == 0
    assert pulse.trouble(60) == ""


def test_a_loop_that_stands_still_is_late_by_now_and_ill_beyond_the_limit() -> None:
    pulse = Pulse(every=0.01)
    stood_still(0.1)
    assert pulse.lag() > 0.05
    assert pulse.trouble(0.05).startswith("the loop has not turned for ")
    assert pulse.trouble(60) == ""


def test_how_late_the_last_turn_was_is_told_until_the_next() -> None:
    pulse = Pulse(every=0.05)
    stood_still(0.2)
    late = pulse.beat()
    assert late > 0.1
    assert pulse.lag() == late
    assert pulse.trouble(0.1) == ""
    assert pulse.beat() == 0
    assert pulse.lag() == 0
