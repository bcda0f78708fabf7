"""What history costs: jobs a second on an empty stream and table, and after an on-sale season."""

from functools import partial

from .abba import alternate
from .backlog import by_product, by_psycopg
from .loop import SLOTS
from .machinery import Machinery, machinery
from .options import Options
from .past import Past
from .place import Place
from .report import Result, Series, quotients
from .tables import ROW

JOBS_PER_SECOND = 700
"""Jobs run for each second asked for, of each side in each round."""
WARM = 200
PRODUCT, BARE = "relay and worker", "bare psycopg"


def measure(place: Place, options: Options) -> list[Result]:
    """The same relay and worker do both; both sides of a round with history share one filling."""
    number = max(100, int(options.seconds * JOBS_PER_SECOND))
    with machinery(place) as at_work:
        by_product(at_work.connection, ROW, WARM)
        sides = _sides(at_work, options, number)
        found = alternate(sides, options.rounds)
    return [_result(found, options, number)]


def _sides(at_work: Machinery, options: Options, number: int) -> dict[str, partial[float]]:
    past = Past(at_work.connection, at_work.redis)
    product = partial(by_product, at_work.connection, ROW, number)
    bare = partial(by_psycopg, at_work.url, at_work.connection, ROW, number)
    full = (options.history_entries, options.history_rows)
    return {
        _name(PRODUCT, False): partial(_with, past, (0, 0), product),
        _name(BARE, False): partial(_with, past, (0, 0), bare),
        _name(BARE, True): partial(_with, past, full, bare),
        _name(PRODUCT, True): partial(_with, past, full, product),
    }


def _name(who: str, history: bool) -> str:
    return f"{who}, {'with' if history else 'no'} history"


def _with(past: Past, wanted: tuple[int, int], side: partial[float]) -> float:
    past.become(*wanted)
    return side()


def _result(found: dict[str, list[float]], options: Options, number: int) -> Result:
    how = (
        f"{number} jobs that write one row each, {SLOTS} slots or connections, with 0 and with "
        f"{options.history_entries} entries on the stream and {options.history_rows} rows of "
        "processed jobs"
    )
    ratios = [
        Series(
            name=f"cost of a job with history / without, {who}",
            rounds=quotients(found[_name(who, False)], found[_name(who, True)]),
            most=1.1 if who == PRODUCT else None,
        )
        for who in (PRODUCT, BARE)
    ]
    above, below = found[_name(PRODUCT, True)], found[_name(BARE, True)]
    ratios.append(Series(name=f"{PRODUCT} / {BARE}, with history", rounds=quotients(above, below)))
    figures = [Series(name=name, rounds=rounds, unit="/s") for name, rounds in found.items()]
    return Result(name="history", how=how, ratios=ratios, figures=figures)
