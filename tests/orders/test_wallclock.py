"""Wall clocks: the poster's time and its instant; nights that have none, nights that have two."""

from datetime import UTC, datetime

import pytest
from django.core.exceptions import ValidationError

from orders.wallclock import (
    NoSuchTime,
    TwiceThatDay,
    WallClockField,
    WallClockFormField,
    instant,
    valid_zone,
)

SPRING = datetime.fromisoformat("2026-03-29T02:30")
AUTUMN = datetime.fromisoformat("2026-10-25T02:30")


@pytest.mark.parametrize(
    ("local", "zone", "utc"),
    [
        (
            datetime.fromisoformat("2026-12-05T20:00"),
            "Europe/Berlin",
            datetime(2026, 12, 5, 19, tzinfo=UTC),
        ),
        (
            datetime.fromisoformat("2026-07-05T20:00"),
            "Europe/Berlin",
            datetime(2026, 7, 5, 18, tzinfo=UTC),
        ),
        (
            datetime.fromisoformat("2026-07-05T20:00"),
            "Asia/Kathmandu",
            datetime(2026, 7, 5, 14, 15, tzinfo=UTC),
        ),
        (datetime.fromisoformat("2026-07-05T20:00"), "UTC", datetime(2026, 7, 5, 20, tzinfo=UTC)),
        (
            datetime.fromisoformat("2026-03-29T03:00"),
            "Europe/Berlin",
            datetime(2026, 3, 29, 1, tzinfo=UTC),
        ),
    ],
)
def test_a_plain_time_means_one_instant(local: datetime, zone: str, utc: datetime) -> None:
    assert instant(local, zone) == utc
    assert instant(local, zone, 0) == instant(local, zone, 1) == utc


@pytest.mark.parametrize("fold", [None, 0, 1])
def test_a_time_that_the_clocks_skip_in_spring_is_refused(fold: int | None) -> None:
    with pytest.raises(NoSuchTime, match=r"29 March 2026 02:30 does not exist in Europe/Berlin"):
        instant(SPRING, "Europe/Berlin", fold)


def test_a_day_that_a_zone_skipped_is_refused() -> None:
    with pytest.raises(NoSuchTime):
        instant(datetime.fromisoformat("2011-12-30T12:00"), "Pacific/Apia")


def test_a_time_that_comes_twice_in_autumn_needs_a_choice() -> None:
    with pytest.raises(TwiceThatDay, match="choose which one"):
        instant(AUTUMN, "Europe/Berlin")
    assert instant(AUTUMN, "Europe/Berlin", 0) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert instant(AUTUMN, "Europe/Berlin", 1) == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize("year", [1, 26, 1969, 9999])
def test_a_year_out_of_reach_is_refused_and_not_a_fault(year: int) -> None:
    with pytest.raises(NoSuchTime, match="too far away"):
        instant(SPRING.replace(year=year), "Asia/Tokyo")


@pytest.mark.parametrize("zone", ["", "Berlin", "../etc/passwd", "Europe/Berlin\x00", "+02:00"])
def test_only_zones_that_exist_are_valid(zone: str) -> None:
    with pytest.raises(ValidationError):
        valid_zone(zone)


@pytest.mark.parametrize(
    "text",
    ["nonsense", "2026-13-01T20:00", "2026-12-05T25:00", "2026-12-05T20:00Z", "2026-02-30T10:00"],
)
def test_what_is_no_wall_clock_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        WallClockFormField().clean(text)


@pytest.mark.parametrize("text", ["2026-12-05T20:00", " 2026-12-05 20:00 ", "2026-12-05T20:00:00"])
def test_a_wall_clock_is_read_without_a_zone(text: str) -> None:
    assert WallClockFormField().clean(text) == datetime.fromisoformat("2026-12-05T20:00")


def test_the_column_keeps_the_wall_clock_as_it_is() -> None:
    assert WallClockField().get_prep_value("2026-12-05T20:00") == datetime.fromisoformat(
        "2026-12-05T20:00"
    )
    assert WallClockField().get_prep_value(None) is None
