"""What becomes of due times: on time, made up for as the schedule says, or a row that says why."""

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs import due_slots
from jobs.due_slots import Pause, decide, next_due
from jobs.schedule import ONCE, SKIP, Schedule, all_

HOURLY = Schedule(name="hourly", cron="0 * * * *", kind="example")
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def at(clock: str, day: int = 30) -> datetime:
    """A time of that day in November 2026, UTC."""
    return datetime.fromisoformat(f"2026-11-{day:02}T{clock}+00:00")


def decided(
    after: datetime, now: datetime, pauses: tuple[Pause, ...] = (), **changes: Any
) -> list[str]:
    """In words: `12:00 on time 0`, `9:00-11:00 3 skipped 3600`."""
    slots = decide(dataclasses.replace(HOURLY, **changes), after, now, pauses)
    return [
        f"{slot.due_at:%H:%M}{f'-{slot.last_due_at:%H:%M} {slot.count}' if slot.count > 1 else ''} "
        f"{slot.result} {slot.seconds_late:g}"
        for slot in slots
    ]


def test_nothing_is_due_between_due_times() -> None:
    assert decided(at("12:00"), at("12:59:59")) == []


def test_a_due_time_fires_on_time_and_never_again() -> None:
    assert decided(at("11:59:59"), at("12:00")) == ["12:00 on time 0"]
    assert decided(at("12:00"), at("12:00:01")) == []


def test_stopped_at_one_second_to_four_and_started_16_s_after_it_is_on_time_within_the_grace() -> (
    None
):
    assert decided(at("15:59:59"), at("16:00:16")) == ["16:00 on time 16"]
    assert decided(at("15:59:59"), at("16:00:16"), grace=16.0) == ["16:00 on time 16"]
    assert decided(at("15:59:59"), at("16:00:16"), grace=15.0) == ["16:00 skipped 16"]
    assert decided(at("15:59:59"), at("16:00:16"), grace=15.0, catch_up=ONCE) == [
        "16:00 caught up 16"
    ]


TWO_LATE = ["10:00 caught up 7205", "11:00 caught up 3605", "12:00 on time 5"]


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        (SKIP, ["09:00-11:00 3 skipped 3605", "12:00 on time 5"]),
        (ONCE, ["09:00-10:00 2 skipped 7205", "11:00 caught up 3605", "12:00 on time 5"]),
        (all_(2), ["09:00 skipped 10805", *TWO_LATE]),
        (all_(9), ["09:00 caught up 10805", *TWO_LATE]),
    ],
)  # fmt: skip
def test_what_was_missed_is_made_up_for_as_the_schedule_says(policy: Any, found: list[str]) -> None:
    assert decided(at("08:30"), at("12:00:05"), catch_up=policy) == found


@pytest.mark.parametrize(("policy", "fired"), [(SKIP, 0), (ONCE, 1), (all_(10), 10)])
def test_four_days_down_is_no_flood(policy: Any, fired: int) -> None:
    schedule = dataclasses.replace(HOURLY, cron="* * * * *", catch_up=policy)
    slots = decide(schedule, NOON - timedelta(days=4), NOON + timedelta(seconds=90))
    late = [slot for slot in slots if slot.result == "caught up"]
    assert len(late) == fired
    assert sum(slot.count for slot in slots) == 4 * 24 * 60 + 1
    assert [slot.count for slot in slots if slot.result == "skipped"] == [4 * 24 * 60 - fired]


@pytest.mark.parametrize(("policy", "caught_up"), [(SKIP, 0), (all_(3), 3)])
def test_a_long_grace_is_no_flood_either(policy: Any, caught_up: int) -> None:
    schedule = dataclasses.replace(HOURLY, cron="* * * * *", grace=86400.0, catch_up=policy)
    slots = decide(schedule, NOON, NOON + timedelta(hours=12))
    assert [slot.result for slot in slots] == [
        "skipped", *["caught up"] * caught_up, *["on time"] * 100,
    ]  # fmt: skip
    assert slots[-1].due_at == NOON + timedelta(hours=12)
    assert sum(slot.count for slot in slots) == 12 * 60


def test_a_clock_that_went_back_makes_nothing_due() -> None:
    assert decided(at("12:00:03"), at("11:59:59")) == []
    assert decided(at("16:00"), at("12:00")) == []


def test_a_clock_that_jumps_forward_is_a_time_without_a_scheduler() -> None:
    assert decided(at("12:00"), at("18:30")) == ["13:00-18:00 6 skipped 1800"]
    assert decided(at("12:00"), at("18:30"), catch_up=ONCE) == [
        "13:00-17:00 5 skipped 5400", "18:00 caught up 1800",
    ]  # fmt: skip


def test_due_times_in_a_pause_are_no_missed_ones_and_are_not_made_up_for() -> None:
    over = Pause(at("10:00"), at("11:00"))
    assert decided(at("08:30"), at("12:00:05"), (over,), catch_up=all_(9)) == [
        "09:00 caught up 10805", "10:00 paused 7205", "11:00 caught up 3605", "12:00 on time 5",
    ]  # fmt: skip
    still = Pause(at("09:30"), None)
    assert decided(at("08:30"), at("12:00:05"), (still,)) == [
        "09:00 skipped 10805", "10:00-12:00 3 paused 5",
    ]  # fmt: skip


def test_the_second_showing_of_a_time_of_day_is_suppressed_and_neither_missed_nor_made_up_for() -> (
    None
):
    night = {"cron": "30 2 * * *", "tz": "Europe/Berlin", "catch_up": ONCE}
    schedule = dataclasses.replace(HOURLY, **night)  # type: ignore[arg-type]
    start = datetime(2026, 10, 24, 12, tzinfo=UTC)
    slots = decide(schedule, start, start + timedelta(days=1))
    assert [(f"{slot.due_at:%H:%M}", slot.result) for slot in slots] == [
        ("00:30", "caught up"), ("01:30", "suppressed"),
    ]  # fmt: skip
    paused = decide(schedule, start, start + timedelta(days=1), [Pause(start, None)])
    assert [slot.result for slot in paused] == ["paused", "suppressed"]
    assert next_due(schedule, datetime(2026, 10, 25, 0, 30, tzinfo=UTC)) == datetime(
        2026, 10, 26, 1, 30, tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("cron", "days", "number"),
    [
        ("* * * * *", 3650, 500), ("* 0-22 * * *", 20, 500), ("*/10 * * * *", 3, 432),
        ("0 0 * * *", 450, 450), ("*/10 * 1 1 *", 400, 144),
    ],
)  # fmt: skip
def test_of_many_due_times_the_newest_are_looked_at_however_long_ago_they_are(
    cron: str, days: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_slots, "LOOK_BACK", 500)
    schedule = dataclasses.replace(HOURLY, cron=cron, tz="Europe/Berlin", catch_up=ONCE)
    slots = decide(schedule, NOON - timedelta(days=days), NOON)
    assert sum(slot.count for slot in slots) == number
    assert [slot.count for slot in slots if slot.result == "caught up"] == [1]
