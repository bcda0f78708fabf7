"""Whether a worker grows: resident memory after 1,000 and after 50,000 jobs, beside a bare loop.

Once, whatever the rounds: a process has one life.
"""

import shutil
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg

from .backlog import by_product, fill, start_over, wait_done
from .machinery import machinery
from .options import Options
from .place import Place
from .report import Result, Series
from .tables import ROW

FIRST = 1000
"""Jobs after which memory is read first: every thread, statement and buffer has been used."""
SETTLING = 1.0
"""Seconds from the last job to the reading: acknowledgements are out."""
PRODUCT, BARE = "worker", "bare psycopg"


def measure(place: Place, options: Options) -> list[Result]:
    """Both processes are new, and do the same jobs."""
    number = max(2 * FIRST, options.memory_jobs)
    with machinery(place) as at_work:
        product = partial(by_product, at_work.connection, ROW)
        found = {PRODUCT: _sizes(at_work.worker, product, number)}
        with place.module("loop") as loop:
            found[BARE] = _sizes(loop, partial(_by_loop, at_work.connection), number)
    return [_result(found, number)]


def _by_loop(connection: psycopg.Connection, number: int) -> None:
    last = start_over(connection)
    fill(connection, ROW, number, relayed=True)
    wait_done(connection, last, number)


def _sizes(process: int, run: Callable[[int], object], number: int) -> tuple[float, float]:
    """MB after FIRST jobs, and after `number`."""
    run(FIRST)
    first = _resident(process)
    run(number - FIRST)
    return first, _resident(process)


def _resident(process: int) -> float:
    time.sleep(SETTLING)
    status = Path(f"/proc/{process}/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmRSS"].split()[0]) / 1024
    ps = [shutil.which("ps") or "ps", "-o", "rss=", "-p", str(process)]
    return int(subprocess.run(ps, capture_output=True, check=True).stdout) / 1024


def _result(found: dict[str, tuple[float, float]], number: int) -> Result:
    how = (
        f"resident memory of a process after {FIRST} and after {number} jobs that write one row "
        "each; once"
    )
    ratios = [
        Series(
            name=f"{name}: after {number} jobs / after {FIRST}",
            rounds=[last / first],
            most=1.05 if name == PRODUCT else None,
        )
        for name, (first, last) in found.items()
    ]
    ratios.append(Series(name=f"{PRODUCT} / {BARE}", rounds=[found[PRODUCT][1] / found[BARE][1]]))
    figures = [
        Series(name=f"{name}: after {jobs} jobs", rounds=[size], unit="MB")
        for name, sizes in found.items()
        for jobs, size in zip((FIRST, number), sizes, strict=True)
    ]
    return Result(name="memory", how=how, ratios=ratios, figures=figures)
