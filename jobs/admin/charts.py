"""Lines and bars over time, as numbers for an SVG of fixed size. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

WIDTH, HEIGHT = 360.0, 150.0
"""Of the drawing: as wide as a telephone, where its letters are still read."""
LEFT, BOTTOM, TOP, RIGHT = 44.0, 18.0, 8.0, 6.0
STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400)
"""Seconds between two lines of a scale of times."""
LINES = 4


@dataclass(frozen=True, slots=True)
class Mark:
    """A line across the drawing, or a word below it, at `place`."""

    place: float
    text: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; `y` is its upper end."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """`path`: the line, with a gap where nothing is known. `rows`: the same, for a table."""

    levels: Sequence[Mark]
    times: Sequence[Mark]
    path: str = ""
    bars: Sequence[Bar] = ()
    thresholds: Sequence[float] = ()
    rows: Sequence[tuple[str, str]] = ()


type Series = Sequence[tuple[datetime, float | None]]
"""At each of these times, the oldest first; None: not known, or nothing."""


@dataclass(frozen=True, slots=True)
class Frame:
    """From `begin` to `end`, and from 0 to `top`."""

    begin: datetime
    end: datetime
    top: float

    def x(self, at: datetime) -> float:
        """Where `at` is drawn."""
        share = (at - self.begin) / (self.end - self.begin)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        """Where `value` is drawn."""
        return round(HEIGHT - BOTTOM - value / self.top * (HEIGHT - BOTTOM - TOP), 1)


def line(
    series: Series, begin: datetime, end: datetime, *, thresholds: Sequence[float],
    text: Callable[[float], str],
) -> Chart:  # fmt: skip
    """A line of times in seconds, with lines across at `thresholds`."""
    known = [value for _, value in series if value is not None]
    frame = Frame(begin, end, 1.1 * max([*known, *thresholds]))
    step = next((step for step in STEPS if frame.top / step <= LINES), STEPS[-1])
    return Chart(
        path=_path(series, frame),
        levels=_levels(frame, step, text),
        times=_times(begin, end, frame),
        thresholds=[frame.y(value) for value in thresholds],
        rows=_rows(series, text),
    )


def bars(series: Series, begin: datetime, end: datetime) -> Chart:
    """A bar for each number."""
    frame = Frame(begin, end, 1.1 * max([1.0, *(value or 0 for _, value in series)]))
    tenth = max(1, 10 ** (math.floor(math.log10(frame.top)) - 1))
    step = next(
        tenth * times for times in (1, 2, 5, 10, 20, 50) if frame.top / tenth / times <= LINES
    )
    width = max(0.5, (WIDTH - LEFT - RIGHT) / max(1, len(series)) * 0.8)
    return Chart(
        bars=[
            Bar(frame.x(at), frame.y(value), round(width, 1), round(frame.y(0) - frame.y(value), 1))
            for at, value in series
            if value
        ],
        levels=_levels(frame, step, lambda value: f"{value:.0f}"),
        times=_times(begin, end, frame),
        rows=_rows(series, lambda value: f"{value:.0f}"),
    )


def _path(series: Series, frame: Frame) -> str:
    parts, pen_down = [], False
    for at, value in series:
        if value is not None:
            parts.append(f"{'L' if pen_down else 'M'}{frame.x(at)} {frame.y(value)}")
        pen_down = value is not None
    # A point between two gaps would not be seen.
    return " ".join(parts) + (" h0.1" if parts else "")


def _levels(frame: Frame, step: float, text: Callable[[float], str]) -> list[Mark]:
    return [
        Mark(frame.y(number * step), text(number * step))
        for number in range(int(frame.top / step) + 1)
    ]


def _times(begin: datetime, end: datetime, frame: Frame) -> list[Mark]:
    days = end - begin > timedelta(days=2)
    marks = [begin + (end - begin) * share for share in (0.1, 0.37, 0.64, 0.91)]
    return [
        Mark(frame.x(at), at.astimezone(UTC).strftime("%d %b" if days else "%H:%M")) for at in marks
    ]


def _rows(series: Series, text: Callable[[float], str]) -> list[tuple[str, str]]:
    rows = 30
    every = max(1, math.ceil(len(series) / rows))
    found = []
    for first in range(0, len(series), every):
        part = series[first : first + every]
        known = [value for _, value in part if value is not None]
        when = part[0][0].astimezone(UTC).strftime("%d %b %H:%M")
        found.append((when, text(max(known)) if known else "-"))
    return found[::-1]
