"""The arithmetic of a night, against figures that can be worked out by hand."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.capacity import Chain, Cost, Fleet, Step, need
from jobs.night import Load, Point, forecast, passes

RENDERS = [Step("render", Cost(4.0))]
"""The second on-sale night: every render takes 4 s."""
NIGHT = Load(per_second=5, seconds=600)


def night(chain: Chain, fleet: Fleet, load: Load = NIGHT) -> list[Point]:
    return list(forecast(chain, load, fleet))


def at(points: list[Point], seconds: float) -> Point:
    return next(point for point in points if point.at == seconds)


def test_renders_of_4_s_at_5_a_second_on_8_slots_need_3_workers() -> None:
    found = need(RENDERS, per_second=5, slots=8)
    assert found.workers == pytest.approx(2.5)
    assert found.whole_workers == 3
    assert found.jobs == 5


def test_the_rounding_of_a_sum_asks_for_no_worker_more() -> None:
    assert need([Step("third", Cost(0.1))] * 3, per_second=80, slots=8).whole_workers == 3


def test_cores_are_needed_for_the_part_of_a_job_that_computes() -> None:
    chain = [Step("render", Cost(4.0, core=1.0)), Step("email", Cost(0.5), number=2)]
    found = need(chain, per_second=5, slots=8)
    assert (found.jobs, found.cores) == (15, 5)
    assert found.workers == pytest.approx(3.125)
    assert (found.whole_workers, found.whole_cores) == (4, 5)


def test_one_worker_falls_behind_by_what_it_cannot_do() -> None:
    points = night(RENDERS, Fleet(slots=8))
    # 2 renders a second of 5: after 300 s 600 of 1,500 are begun, and those of the first 120 s.
    assert at(points, 300).depth == pytest.approx(1500 - 600 + 8, abs=10)
    assert at(points, 300).age == pytest.approx(300 - 120, abs=5)
    assert passes(points, 240) == pytest.approx(400, rel=0.02)
    assert points[-1].at == pytest.approx(3000 / 2, abs=5)
    assert points[-1].depth == 0


def test_three_workers_keep_pace() -> None:
    points = night(RENDERS, Fleet(slots=24))
    assert passes(points, 10) is None
    assert max(point.depth for point in points) == pytest.approx(5 * 4, abs=1)
    assert points[-1].at == pytest.approx(604, abs=2)


def test_where_cores_are_the_limit_more_workers_do_not_help() -> None:
    chain = [Step("render", Cost(0.5, core=0.5))]
    two, ten = (night(chain, Fleet(slots=8 * workers, cores=1)) for workers in (2, 10))
    assert two == ten
    assert two[-1].at == pytest.approx(3000 * 0.5, abs=3)


def test_what_a_job_enqueues_waits_behind_what_is_there() -> None:
    chain = [Step("render", Cost(1.0)), Step("email", Cost(1.0))]
    points = night(chain, Fleet(slots=100), Load(per_second=1000, seconds=1))
    assert points[-1].at == pytest.approx(2000 / 100, abs=2)
    assert at(points, 5).depth == pytest.approx(1000, abs=101)


MAIL = Step("email", Cost(2.0, service="mail"))


def test_calls_to_one_service_need_the_workers_whose_shares_are_enough_for_them() -> None:
    chain = [Step("render", Cost(0.05)), MAIL]
    found = need(chain, per_second=5, slots=8)
    # 10 calls at once, 3 of each worker's slots.
    assert found.workers == pytest.approx(10 / 3)
    assert found.whole_workers == 4
    assert found.service == "mail"
    assert need([*RENDERS, MAIL], per_second=1, slots=8).service == ""


def test_slow_calls_are_late_and_what_makes_none_passes_them() -> None:
    points = night([MAIL], Fleet.of([8] * 3))
    assert points[-1].at == pytest.approx(3000 * 2 / 9, rel=0.02)
    # The oldest runs its 2 s behind a line that is a tenth of the time long.
    assert passes(points, 60) == pytest.approx((60 - 2) / 0.1, abs=12)
    assert passes(night([MAIL], Fleet.of([8] * 4)), 10) is None
    both = [Step("call", Cost(2.0, service="pay")), Step("render", Cost(0.5))]
    first = night(both, Fleet.of([8]), Load(per_second=30, seconds=1))
    assert first[-1].at == pytest.approx(30 * 2 / 3, abs=3), "renders are done beside the calls"


def test_a_fleet_is_the_sum_of_the_workers_that_read() -> None:
    fleet = Fleet.of([8, 0, 2])
    assert (fleet.slots, fleet.calls) == (10, 3 + 1)
    assert fleet.busy(MAIL.cost, 20) == 4
    assert fleet.seconds(MAIL.cost, 20) == 10


def test_without_a_worker_nothing_is_ever_done() -> None:
    points = list(forecast(RENDERS, NIGHT, Fleet(slots=0), limit=900))
    assert (points[-1].age, round(points[-1].depth)) == (900, 3000)
    assert Fleet(slots=0).seconds(Cost(1.0)) == math.inf


COSTS = st.builds(Cost, slot=st.floats(0.01, 20), core=st.floats(0, 5))


@settings(deadline=None, max_examples=50)
@given(
    first=COSTS,
    second=COSTS,
    sales=st.integers(1, 60),
    fleet=st.builds(Fleet, slots=st.integers(1, 64), cores=st.integers(1, 32)),
)
def test_the_forecast_ends_when_the_fleet_has_done_the_sum(
    first: Cost, second: Cost, sales: int, fleet: Fleet
) -> None:
    chain = [Step("first", first), Step("second", second)]
    total = sum(fleet.seconds(step.cost, sales) for step in chain)
    points = night(chain, fleet, Load(per_second=sales, seconds=1))
    assert all(point.depth >= 0 and point.age >= 0 for point in points)
    # Nothing is begun before the second in which it came; the last jobs still take their time.
    assert total - 1 <= points[-1].at <= total + first.slot + second.slot + 4
