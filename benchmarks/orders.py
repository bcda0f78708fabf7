"""`POST /orders/` at a fixed rate beside a bare view with the same SQL, in the same processes."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from jobs import processes
from jobs.pool import default_processes
from orders.models import Order, TicketType
from tickets.models import TicketFile

from .abba import alternate
from .buyers import event_on_sale, filled_form
from .load import Answer, post_all
from .options import Options
from .place import Place, wait_until
from .report import PERCENTILES, Result, Series, percentile_of, quotients
from .timing import ALONE

RATE = 50
"""Orders a second."""
SHOP, BARE, STRICT = "the shop", "bare view", "bare view without middleware"
PATHS = {SHOP: "/orders/", BARE: "/bench/bare/", STRICT: ALONE}
MOST_P95_MS = 90.0


@dataclass(frozen=True)
class Round:
    """What one side did in one round; `rendered` files a second were made meanwhile."""

    answers: Sequence[Answer]
    rendered: float

    def handler(self, percentile: int) -> float:
        """Percentile of the time in the server's handler, in ms."""
        return percentile_of([answer.handler for answer in self.answers], percentile)

    def wall(self, percentile: int) -> float:
        """Percentile of the time from the planned moment to the answer, in ms."""
        return percentile_of([answer.wall for answer in self.answers], percentile)


def measure(place: Place, options: Options) -> list[Result]:
    """Quiet, then with relay and worker rendering the backlog of the quiet part and what comes."""
    kind = event_on_sale()
    with place.web() as port:
        _one_side(port, kind, PATHS[SHOP], 2)  # warm
        _one_side(port, kind, PATHS[BARE], 2)
        quiet = _all_sides(port, kind, options.rounds, options.seconds)
        with _rendering(place):
            busy = _all_sides(port, kind, options.rounds, options.seconds)
    return [_result("orders", "quiet", quiet), _result("orders-while-rendering", "busy", busy)]


def _all_sides(port: int, kind: TicketType, rounds: int, seconds: float) -> dict[str, list[Round]]:
    sides = {name: partial(_one_side, port, kind, path, seconds) for name, path in PATHS.items()}
    return alternate(sides, rounds)


def _one_side(port: int, kind: TicketType, path: str, seconds: float) -> Round:
    forms = [filled_form(kind) for _ in range(max(10, int(seconds * RATE)))]
    orders, files = Order.objects.count(), TicketFile.objects.count()
    answers = post_all(port, path, forms, RATE)
    bad = [answer.status for answer in answers if answer.status != 303]
    made = Order.objects.count() - orders
    if bad or made != len(forms):
        raise RuntimeError(f"{path}: {made} of {len(forms)} orders, answers {bad[:10]}")
    return Round(answers, (TicketFile.objects.count() - files) / (len(forms) / RATE))


@contextlib.contextmanager
def _rendering(place: Place) -> Iterator[None]:
    """A relay and a worker whose render processes never run out of orders."""
    worker = ("runworker", "--name", "bench", "--render-processes", str(default_processes()))
    with place.command("relay"), place.command(*worker):
        wait_until(lambda: processes.alive("worker") > 0, "worker")
        before = TicketFile.objects.count()
        wait_until(lambda: TicketFile.objects.count() >= before + 20, "renders")
        yield


def _result(name: str, when: str, found: dict[str, list[Round]]) -> Result:
    while_what = "while renders take every core" if when == "busy" else "with nothing else running"
    how = (
        f"POST /orders/ at {RATE} a second, {while_what}; handler time around all middleware, "
        "by the server's clock"
    )
    ratios = [_ratio(found, side, cut) for side in (BARE, STRICT) for cut in PERCENTILES]
    return Result(name=name, how=how, ratios=ratios, figures=_figures(found, when))


def _ratio(found: dict[str, list[Round]], side: str, cut: int) -> Series:
    rounds = quotients(
        [one.handler(cut) for one in found[SHOP]], [one.handler(cut) for one in found[side]]
    )
    return Series(
        name=f"handler p{cut}, shop / {side}", rounds=rounds, most=2.0 if side == BARE else None
    )


def _figures(found: dict[str, list[Round]], when: str) -> list[Series]:
    figures = []
    for side, rounds in found.items():
        for cut in PERCENTILES:
            most = MOST_P95_MS if (side, cut) == (SHOP, 95) else None
            numbers = [one.handler(cut) for one in rounds]
            figures.append(
                Series(name=f"{side}: handler p{cut}", rounds=numbers, unit="ms", most=most)
            )
        for cut in PERCENTILES:
            numbers = [one.wall(cut) for one in rounds]
            figures.append(
                Series(name=f"{side}: client's wall time p{cut}", rounds=numbers, unit="ms")
            )
        if when == "busy":
            numbers = [one.rendered for one in rounds]
            figures.append(
                Series(name=f"{side}: files rendered meanwhile", rounds=numbers, unit="/s")
            )
    return figures
