"""What a worker holds: suspects one at a time, outages cut nobody short, the lost are given up."""

from dataclasses import dataclass

import pytest

from jobs.held import Held
from jobs.job import Job
from jobs.policy import Policy
from jobs.registry import Kind
from jobs.runner import Outcome
from jobs.slot import Slot
from jobs.stream import Entry


@dataclass(frozen=True)
class Args:
    """None."""


KIND: Kind[Args] = Kind(
    name="example", args_type=Args, policy=Policy(timeout=1), handle=lambda _: None
)


def slot(number: int, *, suspect: bool = False, starts: int = 0) -> Slot:
    job = Job(kind="example", args=Args(), outbox_id=number, request_id="", trace="")
    return Slot(Entry(f"{number}-0", []), job, KIND, suspect=suspect, starts=starts)


class Launches(list[int]):
    """The outbox ids of the slots that were given to threads, in order."""

    def __call__(self, one: Slot) -> None:
        self.append(one.outbox_id)


@pytest.fixture
def launched() -> Launches:
    return Launches()


@pytest.fixture
def held(launched: Launches) -> Held:
    return Held(launched)


def test_suspects_run_one_at_a_time_those_with_fewest_starts_first(
    held: Held, launched: Launches
) -> None:
    slots = [slot(n, suspect=True, starts=s) for n, s in ((1, 0), (2, 1), (3, 0), (4, 1))]
    for one in slots:
        held.admit(one)
    held.admit(slot(9))
    assert launched == [1, 9]
    for one in (slots[0], slots[2], slots[1], slots[3]):
        assert held.settle(one, Outcome.PROCESSED)
    assert launched == [1, 9, 3, 2, 4]


def test_a_suspect_that_an_outage_cut_keeps_its_turn(held: Held, launched: Launches) -> None:
    first, second = slot(1, suspect=True), slot(2, suspect=True)
    held.admit(first)
    held.admit(second)
    assert not held.settle(first, Outcome.UNDECIDED)
    assert launched == [1]
    for one in held.take_interrupted():
        held.run_again(one)
    assert launched == [1, 1]
    held.settle(first, Outcome.PROCESSED)
    assert launched == [1, 1, 2]


def test_a_job_whose_process_died_is_a_suspect_from_then_on(held: Held, launched: Launches) -> None:
    one, other = slot(1), slot(2, suspect=True)
    held.admit(one)
    held.admit(other)
    one.suspect = True
    assert not held.settle(one, Outcome.CRASHED)
    assert launched == [1, 2]
    held.settle(other, Outcome.PROCESSED)
    assert launched == [1, 2, 1]


def test_what_others_took_over_is_not_acknowledged_and_not_run(
    held: Held, launched: Launches
) -> None:
    running, waiting, next_one = slot(1), slot(2, suspect=True), slot(3, suspect=True)
    for one in (running, waiting, next_one):
        held.admit(one)
    assert held.give_up(["1-0", "3-0", "7-0"]) == 2
    assert "3-0" not in held
    assert "1-0" in held, "its thread still runs"
    assert not held.settle(running, Outcome.PROCESSED)
    assert "1-0" not in held
    held.settle(waiting, Outcome.PROCESSED)
    assert launched == [1, 2]


def test_a_lost_suspect_lets_the_next_one_run(held: Held, launched: Launches) -> None:
    first, second = slot(1, suspect=True), slot(2, suspect=True)
    held.admit(first)
    held.admit(second)
    held.settle(first, Outcome.UNDECIDED)
    held.give_up(["1-0"])
    assert held.interrupted == []
    assert launched == [1, 2]
    held.run_again(first)
    assert launched == [1, 2]


def test_a_noted_start_is_taken_back_where_nobody_died_of_it(held: Held) -> None:
    done, lost, cut = (slot(n, suspect=True) for n in (1, 2, 3))
    for one in (done, lost, cut):
        held.admit(one)
        one.start_noted = True
        if one is done:
            held.settle(one, Outcome.PROCESSED)
        elif one is lost:
            held.give_up(["2-0"])
            held.settle(one, Outcome.UNDECIDED)
        else:
            held.settle(one, Outcome.UNDECIDED)
            held.give_up(["3-0"])
    assert held.uncounted == [2, 3]


def test_a_start_of_an_older_delivery_is_taken_back(held: Held) -> None:
    """It came again after its outcome was committed: nothing it comes to sets starts to 0."""
    one = slot(1, suspect=True)
    held.admit(one)
    one.start_noted = True
    assert held.settle(one, Outcome.CONCLUDED)
    assert held.uncounted == [1]


def test_a_closed_one_starts_nothing_and_names_what_is_left(held: Held, launched: Launches) -> None:
    held.admit(slot(1))
    held.closed = True
    held.admit(slot(2))
    held.admit(slot(3, suspect=True))
    held.run_again(slot(2))
    assert launched == [1]
    assert [one.outbox_id for one in held.left()] == [1, 2, 3]
    assert held.at_work() == 1


def test_a_lease_is_renewed_up_to_the_timeout_and_a_stuck_job_is_told_apart(held: Held) -> None:
    one = slot(1)
    held.admit(one)
    one.begin()
    assert one.began is not None
    assert held.renewable() == ["1-0"]
    one.began -= 1.5
    assert held.renewable() == []
    assert held.stuck() == []
    one.began -= 1.5
    assert held.stuck() == [one]
    assert held.at_work() == 0
    assert held.unfinished() == 1
    one.wait()
    assert held.renewable() == ["1-0"], "waiting for a process is not the job's time"
    assert held.stuck() == []
