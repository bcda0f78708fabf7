"""What a run found: ratios and figures by round, printed and kept as JSON."""

import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PERCENTILES = (50, 95, 99)
PACKAGES = ("django", "psycopg", "redis", "gunicorn", "weasyprint")


@dataclass(frozen=True, kw_only=True)
class Series:
    """One number for each round. `least` and `most`: what is expected of the median."""

    name: str
    rounds: Sequence[float]
    unit: str = ""
    least: float | None = None
    most: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def verdict(self) -> str:
        """What was expected, and whether it is so; empty where nothing was."""
        if self.least is not None:
            return f">= {self.least:g} {'ok' if self.median >= self.least else 'FALLS SHORT'}"
        if self.most is not None:
            return f"<= {self.most:g} {'ok' if self.median <= self.most else 'FALLS SHORT'}"
        return ""

    def line(self) -> str:
        """Name, median, spread over the rounds, verdict."""
        spread = f"{min(self.rounds):.2f} .. {max(self.rounds):.2f}"
        return f"  {self.name:<66} {self.median:>8.2f} {self.unit:<5} {spread:>18}  {self.verdict}"

    def as_json(self) -> dict[str, Any]:
        """Everything that `line()` shows, and the rounds."""
        rounds = [round(number, 3) for number in self.rounds]
        spread = {"median": round(self.median, 3), "min": min(rounds), "max": max(rounds)}
        expected = {"unit": self.unit, "expected": self.verdict}
        return {"name": self.name, **spread, **expected, "rounds": rounds}


@dataclass(frozen=True, kw_only=True)
class Result:
    """One benchmark: `how` says what was compared, in one sentence."""

    name: str
    how: str
    ratios: list[Series] = field(default_factory=list)
    figures: list[Series] = field(default_factory=list)


def percentile_of(numbers: Sequence[float], percentile: int) -> float:
    """The `percentile`-th of 99 cuts."""
    return statistics.quantiles(numbers, n=100, method="inclusive")[percentile - 1]


def quotients(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """The ratio in each round: noise of the machine that lasts longer than a round cancels out."""
    return [a / b for a, b in zip(above, below, strict=True)]


def versions(postgres: str, redis: str) -> dict[str, Any]:
    """Of everything that decides a figure. The two are what the servers say of themselves."""
    return {
        "python": platform.python_version(),
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "postgres": postgres,
        "redis server": redis,
        **{f"{name}{'-py' if name == 'redis' else ''}": version(name) for name in PACKAGES},
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
    }


def show(results: Sequence[Result]) -> None:
    """Print the ratios of all, then the figures: median, and spread over the rounds."""
    for title, kind in (("Ratios", "ratios"), ("Figures", "figures")):
        print(f"\n{title} (median, least .. most of the rounds)")
        for result in results:
            print(f"\n {result.name}: {result.how}")
            for series in getattr(result, kind):
                print(series.line())


def keep(result: Result, options: dict[str, Any], of: dict[str, Any]) -> None:
    """Write `results/<name>.json`."""
    RESULTS.mkdir(exist_ok=True)
    content = {
        "name": result.name,
        "how": result.how,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "options": options,
        "versions": of,
        "load average, 1 5 15 min": [round(load, 2) for load in os.getloadavg()],
        "ratios": [series.as_json() for series in result.ratios],
        "figures": [series.as_json() for series in result.figures],
    }
    path = RESULTS / f"{result.name}.json"
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
