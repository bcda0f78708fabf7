"""What a worker holds: suspects one at a time, outages cut nobody short, the lost are given up."""

import time
from dataclasses import dataclass, replace

import pytest

from jobs import shares
from jobs.capacity import share_of
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


def slot(number: int, *, suspect: bool = False, starts: int = 0, outside: str = "") -> Slot:
    job = Job(kind="example", args=Args(), outbox_id=number, request_id="", trace="")
    kind = replace(KIND, outside=outside)
    return Slot(Entry(f"{number}-0", []), job, kind, suspect=suspect, starts=starts)


class Launches(list[int]):
    """The outbox ids of the slots that were given to threads, in order."""

    def __call__(self, one: Slot) -> None:
        self.append(one.outbox_id)


@pytest.fixture
def launched() -> Launches:
    return Launches()


@pytest.fixture
def held(launched: Launches) -> Held:
    return Held(launched, slots=8)


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


def test_one_outside_service_has_a_share_of_the_slots_and_the_next_in_line_follows(
    held: Held, launched: Launches
) -> None:
    mails = [slot(n, outside="mail") for n in range(1, 7)]
    for one in mails:
        held.admit(one)
    held.admit(slot(10, outside="payments"))
    held.admit(slot(11))
    assert launched == [1, 2, 3, 10, 11]
    assert held.settle(mails[1], Outcome.PROCESSED)
    assert launched == [1, 2, 3, 10, 11, 4]
    held.closed = True
    held.settle(mails[0], Outcome.PROCESSED)
    assert launched[-1] == 4
    assert mails[5] in held.left()


def test_who_waits_for_a_service_that_is_slow_gives_its_slot_away(
    held: Held, launched: Launches, monkeypatch: pytest.MonkeyPatch
) -> None:
    mails = [slot(n, outside="mail") for n in range(1, 6)]
    payments = [slot(n, outside="payments") for n in range(11, 15)]
    for one in (*mails, *payments):
        held.admit(one)
    for one in (*mails[:3], *payments[:3]):
        one.begin()
    assert not held.crowded()
    assert held.waits_for_room
    monkeypatch.setattr(mails[2], "began", time.monotonic() - 2 * shares.SLOW)
    assert held.crowded() == mails[3:]
    held.settle(mails[0], Outcome.PROCESSED)
    assert launched[-1] == 4
    assert held.let_go(mails[3:]) == ["5-0"], "the other one runs by now"
    assert len(held) == 7
    assert not held.crowded()


def test_a_waiting_one_that_others_took_over_is_not_launched(
    held: Held, launched: Launches
) -> None:
    mails = [slot(n, outside="mail") for n in range(1, 5)]
    for one in mails:
        held.admit(one)
    assert held.give_up(["4-0"]) == 1
    held.settle(mails[0], Outcome.PROCESSED)
    assert launched == [1, 2, 3]
    assert not held.waits_for_room


@pytest.mark.parametrize(("slots", "share"), [(1, 1), (2, 1), (4, 1), (8, 3), (16, 6)])
def test_two_services_that_hang_leave_slots_for_others(slots: int, share: int) -> None:
    assert share_of(slots) == share
    assert slots <= 2 or 2 * share < slots
