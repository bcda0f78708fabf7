"""Tickets a second: the product's pool beside bare WeasyPrint on as many processes."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial

from django.conf import settings

from jobs.pool import Pool, default_processes
from tickets.page import Admission, Paper, ticket_html
from tickets.rendering import render_pdf
from tickets.tokens import new_token

from . import weasy
from .abba import alternate
from .options import Options
from .place import Place
from .report import Result, Series, quotients

SLOTS = 8
PAGES_PER_SECOND = 20
"""Pages rendered for each second asked for, of each side in each round."""
PRODUCT = "the product's pool"
BEST = "bare WeasyPrint at its best"
BOOK = "bare WeasyPrint by the book"


def measure(_: Place, options: Options) -> list[Result]:
    """Every side renders the same pages in each round; every process has rendered before."""
    pages = [_page(number) for number in range(max(16, int(options.seconds * PAGES_PER_SECOND)))]
    number = default_processes() or 1
    product = Pool(
        number, warm_up=settings.JOBS["WARM_UP"], renders=settings.JOBS["RENDERS_PER_PROCESS"]
    )
    with weasy.pool(number) as bare:
        sides = {
            PRODUCT: partial(_rate, partial(_by_product, product), pages),
            BEST: partial(_rate, partial(weasy.render_all, bare, weasy.at_its_best), pages),
            BOOK: partial(_rate, partial(weasy.render_all, bare, weasy.by_the_book), pages),
        }
        alternate(
            {name: partial(side.func, side.args[0], pages[:16]) for name, side in sides.items()}, 1
        )
        found = alternate(sides, options.rounds)
    product.close()
    return [_result(found, number)]


def _page(number: int) -> str:
    holder = f"Ada Lovelace {number}"
    admission = Admission(
        seq=1, token=new_token(), holder=holder, type_name="Parkett", price="€42.50"
    )
    return ticket_html(
        Paper(
            event_title="Nachtkonzert", venue="Kammersaal", starts="Tuesday, 1 June 2027, 20:00",
            doors="19:00", zone="Europe/Berlin", order_code=f"BENCH{number:03}"[:8],
            seller="Stagedoor", language="en", issued_at=datetime(2027, 1, 1, tzinfo=UTC),
            admissions=(admission,),
        )
    )  # fmt: skip


def _by_product(pool: Pool, pages: Sequence[str]) -> list[bytes]:
    """As a worker does: a thread for each slot, all waiting for the pool's processes."""
    with ThreadPoolExecutor(SLOTS) as slots:
        return list(slots.map(lambda page: pool.compute(60, _begun, render_pdf, page).pdf, pages))


def _begun() -> None:
    """A worker's clock would start here."""


def _rate(render: Callable[[Sequence[str]], list[bytes]], pages: Sequence[str]) -> float:
    started = time.perf_counter()
    files = render(pages)
    seconds = time.perf_counter() - started
    if not all(file.startswith(b"%PDF-") for file in files):
        raise RuntimeError("not every page became a PDF")
    return len(files) / seconds


def _result(found: dict[str, list[float]], processes: int) -> Result:
    how = f"one-ticket files a second on {processes} processes, same HTML, fonts and stylesheet"
    ratios = [
        Series(
            name=f"{PRODUCT} / {BEST}", rounds=quotients(found[PRODUCT], found[BEST]), least=0.9
        ),
        Series(name=f"{PRODUCT} / {BOOK}", rounds=quotients(found[PRODUCT], found[BOOK])),
    ]
    figures = [Series(name=name, rounds=rounds, unit="/s") for name, rounds in found.items()]
    return Result(name="renders", how=how, ratios=ratios, figures=figures)
