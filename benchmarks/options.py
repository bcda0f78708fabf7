"""What a run is to measure, and how long."""

import argparse
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PARTS = (
    "orders",
    "renders",
    "jobs",
    "latency",
    "memory",
    "history",
    "relay",
    "dead_jobs",
    "scrape",
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """`seconds`: about, a side and round. The numbers of jobs, entries and rows: see `parse()`."""

    only: Sequence[str]
    rounds: int
    seconds: float
    memory_jobs: int
    history_entries: int
    history_rows: int
    relay_rows: int

    def as_json(self) -> dict[str, Any]:
        """What decides a figure: not which other parts ran."""
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "only"}


def parse(description: str | None) -> Options:
    """The options of the command line; ends the process where they make no sense."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=description)
    parser.add_argument("--only", action="append", choices=PARTS, help="may be repeated")
    numbers = (
        ("--rounds", int, 5, "of each part"),
        ("--seconds", float, 6.0, "about, a side and round"),
        ("--memory-jobs", int, 50_000, "after which memory is read again"),
        ("--history-entries", int, 80_000, "on the stream, delivered and acknowledged"),
        ("--history-rows", int, 1_000_000, "of processed jobs"),
        ("--relay-rows", int, 100_000, "that a Redis without its memory gets again"),
    )
    for name, kind, usual, meaning in numbers:
        parser.add_argument(name, type=kind, default=usual, help=f"{meaning}; default {usual}")
    chosen = vars(parser.parse_args())
    if min(value for name, value in chosen.items() if name != "only") <= 0:
        parser.error("every number must be positive")
    return Options(**{**chosen, "only": chosen["only"] or PARTS})
