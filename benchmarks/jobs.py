"""Jobs a second of relay and worker beside the same commits by bare psycopg on 8 connections.

Once with a handler that writes one row, once with one that does nothing: the processed row alone.
"""

from functools import partial

import psycopg

from .abba import alternate
from .backlog import by_product, by_psycopg
from .loop import SLOTS
from .machinery import machinery
from .options import Options
from .place import Place
from .report import Result, Series, quotients
from .tables import NOTHING, ROW

JOBS_PER_SECOND = 700
"""Jobs run for each second asked for, of each side in each round."""
WARM = 200
PRODUCT, BARE = "relay and worker", "bare psycopg"
KINDS = {ROW: "one row", NOTHING: "no-op"}
LEAST = {ROW: 0.3}


def measure(place: Place, options: Options) -> list[Result]:
    """A relay and one worker stand ready all the time; each side starts from empty tables."""
    number = max(100, int(options.seconds * JOBS_PER_SECOND))
    with machinery(place) as at_work:
        sides = {}
        for kind, name in KINDS.items():
            by_product(at_work.connection, kind, WARM)
            product = partial(by_product, at_work.connection, kind, number)
            bare = partial(by_psycopg, at_work.url, at_work.connection, kind, number)
            sides[f"{name}: {PRODUCT}"] = partial(_from_empty, at_work.connection, product)
            sides[f"{name}: {BARE}"] = partial(_from_empty, at_work.connection, bare)
        found = alternate(sides, options.rounds)
    return [_result(found, number)]


def _from_empty(connection: psycopg.Connection, side: partial[float]) -> float:
    connection.execute("TRUNCATE jobs_processed")
    return side()


def _result(found: dict[str, list[float]], number: int) -> Result:
    how = (
        f"{number} jobs that write one row each, and as many that write none, {SLOTS} slots or "
        "connections, one process"
    )
    ratios = [
        Series(
            name=f"{name}: {PRODUCT} / {BARE}",
            rounds=quotients(found[f"{name}: {PRODUCT}"], found[f"{name}: {BARE}"]),
            least=LEAST.get(kind),
        )
        for kind, name in KINDS.items()
    ]
    figures = [Series(name=name, rounds=rounds, unit="/s") for name, rounds in found.items()]
    return Result(name="jobs", how=how, ratios=ratios, figures=figures)
