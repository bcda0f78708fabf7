"""When cron expressions are due: as the library says, and on the days that change the clock."""

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from jobs.due_times import DueTime, due_times, in_words

FORMS = [
    "* * * * *", "*/7 * * * *", "5/20 * * * *", "0-10/3 * * * *", "1,2,30-32,58 * * * *",
    "0 * * * *", "17 */5 * * *", "30 9-17/2 * * *", "0 0,12 * * *", "0 8-10,20 * * *",
    "0 0 1 * *", "0 12 1,15 * *", "0 0 L * *", "0 0 LW * *", "0 0 */10 * *", "0 0 31 * *",
    "0 0 29 2 *", "0 0 1 1 *", "0 0 1 JAN,jul *", "0 0 1 */4 *", "0 0 1 6-8 *",
    "0 0 * * 0", "0 0 * * 7", "0 0 * * MON-FRI", "0 0 * * sun", "0 0 * * 5L", "0 0 * * MON#2",
    "0 0 * * 1#5", "0 0 13 * FRI", "0 0 */13 * 5", "0 0 1-7 * */7",
]  # fmt: skip
"""Each way to write a field: any, lists, ranges, steps, names, last days, numbered weekdays, and
the two ways in which day and weekday go together."""
SOME = 60


@pytest.mark.parametrize("cron", FORMS)
def test_each_form_is_due_when_the_library_says(cron: str) -> None:
    start = datetime(2026, 1, 30, 23, 59, 30, tzinfo=UTC)
    found = [due.at for due in itertools.islice(due_times(cron, "UTC", start), SOME)]
    assert found == list(itertools.islice(CronSim(cron, start), len(found)))
    assert len(found) == SOME


ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("cron", ["30 2 * * *", "0 9-17 * * MON-FRI", "45 1 * * *", "15 2 L * *"])
def test_times_of_day_are_the_librarys_all_through_a_year(cron: str, tz: str) -> None:
    start = datetime(2026, 1, 1, tzinfo=ZoneInfo(tz))
    end = start + timedelta(days=366)
    ours = itertools.takewhile(lambda due: due.at < end, due_times(cron, tz, start))
    theirs = itertools.takewhile(lambda at: at < end, CronSim(cron, start))
    # In UTC: Python calls a repeated time unequal to any other zone's.
    assert [due.at for due in ours if not due.suppressed] == [at.astimezone(UTC) for at in theirs]


def on_day(cron: str, tz: str, day: str) -> list[str]:
    """The due times of one date on the zone's clock: `02:30 +02:00`, `!` before a suppressed."""
    zone = ZoneInfo(tz)
    start = datetime.fromisoformat(day).replace(tzinfo=zone)
    end = (datetime.fromisoformat(day) + timedelta(days=1)).replace(tzinfo=zone).astimezone(UTC)
    dues = due_times(cron, tz, start - timedelta(seconds=1))
    return [shown(due, zone) for due in itertools.takewhile(lambda due: due.at < end, dues)]


def shown(due: DueTime, zone: ZoneInfo) -> str:
    local = due.at.astimezone(zone).isoformat()
    return f"{'!' if due.suppressed else ''}{local[11:16]} {local[19:]}"


SKIPPED_TIME = [
    ("Europe/Berlin", "2026-03-29", "30 2 * * *", ["03:00 +02:00"]),
    ("America/New_York", "2026-03-08", "30 2 * * *", ["03:00 -04:00"]),
    ("Australia/Lord_Howe", "2026-10-04", "10 2 * * *", ["02:30 +11:00"]),
    ("Europe/Berlin", "2026-03-29", "0 2,3 * * *", ["03:00 +02:00"]),
    ("Europe/Berlin", "2026-03-29", "*/30 2 * * *", ["03:00 +02:00"]),
    ("Europe/Berlin", "2026-03-29", "0 0-4 * * *",
     ["00:00 +01:00", "01:00 +01:00", "03:00 +02:00", "04:00 +02:00"]),
    ("Australia/Lord_Howe", "2026-10-04", "*/20 1-2 * * *",
     ["01:00 +10:30", "01:20 +10:30", "01:40 +10:30", "02:30 +11:00", "02:40 +11:00"]),
    ("America/New_York", "2026-03-08", "0 3 * * *", ["03:00 -04:00"]),
]  # fmt: skip
REPEATED_TIME = [
    ("Europe/Berlin", "2026-10-25", "30 2 * * *", ["02:30 +02:00", "!02:30 +01:00"]),
    ("America/New_York", "2026-11-01", "30 1 * * *", ["01:30 -04:00", "!01:30 -05:00"]),
    ("Australia/Lord_Howe", "2026-04-05", "45 1 * * *", ["01:45 +11:00", "!01:45 +10:30"]),
    ("Australia/Lord_Howe", "2026-04-05", "15 1 * * *", ["01:15 +11:00"]),
    ("Europe/Berlin", "2026-10-25", "0,30 2 * * *",
     ["02:00 +02:00", "02:30 +02:00", "!02:00 +01:00", "!02:30 +01:00"]),
    ("Europe/Berlin", "2026-10-25", "0 3 * * *", ["03:00 +01:00"]),
]  # fmt: skip


@pytest.mark.parametrize(("tz", "day", "cron", "found"), SKIPPED_TIME)
def test_a_time_of_day_that_the_clock_skips_is_due_at_the_next_minute_there_is(
    tz: str, day: str, cron: str, found: Sequence[str]
) -> None:
    assert on_day(cron, tz, day) == found


@pytest.mark.parametrize(("tz", "day", "cron", "found"), REPEATED_TIME)
def test_a_time_of_day_that_the_clock_shows_twice_is_due_once(
    tz: str, day: str, cron: str, found: Sequence[str]
) -> None:
    assert on_day(cron, tz, day) == found


@pytest.mark.parametrize(
    ("tz", "skipping", "repeating"),
    [
        ("Europe/Berlin", "2026-03-29", "2026-10-25"),
        ("America/New_York", "2026-03-08", "2026-11-01"),
    ],
)
def test_an_hourly_schedule_follows_elapsed_time(tz: str, skipping: str, repeating: str) -> None:
    assert [len(on_day("0 * * * *", tz, day)) for day in (skipping, repeating)] == [23, 25]
    for day in (skipping, repeating):
        assert gaps("0 * * * *", tz, day) == {timedelta(hours=1)}
        assert gaps("0 0-23 * * *", tz, day) == {timedelta(hours=1)}


@pytest.mark.parametrize("tz", ZONES)
def test_a_minute_schedule_follows_elapsed_time_on_every_day_of_a_year(tz: str) -> None:
    assert gaps("*/15 * * * *", tz, "2026-01-01", days=366) == {timedelta(minutes=15)}


def gaps(cron: str, tz: str, day: str, days: int = 2) -> set[timedelta]:
    """The times between due times; every one fires."""
    start = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(tz))
    found = itertools.takewhile(
        lambda due: due.at < start + timedelta(days=days), due_times(cron, tz, start)
    )
    dues = list(found)
    assert not any(due.suppressed for due in dues)
    return {later.at - earlier.at for earlier, later in itertools.pairwise(dues)}


def test_where_the_clock_changes_by_half_an_hour_each_minute_counts_for_itself() -> None:
    tz = "Australia/Lord_Howe"
    assert on_day("30 * * * *", tz, "2026-04-05")[1:4] == [
        "01:30 +11:00", "01:30 +10:30", "02:30 +10:30",
    ]  # fmt: skip
    assert on_day("0 * * * *", tz, "2026-10-04")[1:3] == ["01:00 +10:30", "03:00 +11:00"]
    assert on_day("0 */2 * * *", tz, "2026-04-05")[:3] == [
        "00:00 +11:00", "02:00 +10:30", "04:00 +10:30",
    ]  # fmt: skip


def test_every_other_hour_follows_elapsed_time_too() -> None:
    assert on_day("30 */2 * * *", "Europe/Berlin", "2026-10-25")[:4] == [
        "00:30 +02:00", "02:30 +02:00", "02:30 +01:00", "04:30 +01:00",
    ]  # fmt: skip
    assert on_day("30 */2 * * *", "Europe/Berlin", "2026-03-29")[:2] == [
        "00:30 +01:00", "04:30 +02:00",
    ]  # fmt: skip


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("cron", ["30 2 * * *", "*/20 1-2 * * *", "45 1 * * *", "*/10 * * * *"])
def test_from_wherever_one_looks_the_due_times_are_the_same(cron: str, tz: str) -> None:
    """Also from within a repeated hour: no time is forgotten, none comes again."""
    days = ("2026-03-07", "2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24", "2026-10-31")
    for start in (datetime.fromisoformat(day).replace(tzinfo=UTC) for day in days):
        whole = two_days(cron, tz, start, start)
        for minutes in range(0, 48 * 60, 37):
            after = start + timedelta(minutes=minutes)
            assert two_days(cron, tz, after, start) == [due for due in whole if due.at > after]


def two_days(cron: str, tz: str, after: datetime, start: datetime) -> list[DueTime]:
    """The due times after `after` up to two days after `start`."""
    end = start + timedelta(days=2)
    return list(itertools.takewhile(lambda due: due.at <= end, due_times(cron, tz, after)))


def test_an_expression_is_told_in_words_and_one_without_words_as_it_is() -> None:
    assert in_words("15 4 * * *") == "At 04:15 every day"
    assert in_words("often") == "often"
    assert [form for form in FORMS if in_words(form) == form] == []
