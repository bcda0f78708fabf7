"""A plan of a night as an operator reads it: the answer first, then the night minute by minute."""

from collections.abc import Iterator, Sequence

from jobs.capacity import Step, share_of
from jobs.history import Night
from jobs.status import span, table

from .capacity_plan import BYTES_PER_ENTRY, Outcome, Plan, minutes_shown
from .yardstick import EMAIL, FIRST

NIGHTS = 5


def capacity_screen(
    plan: Plan, sources: dict[str, str], nights: Sequence[Night], maxlen: int, mark: int
) -> str:
    """All of it. `sources`: how each kind's cost is known; `maxlen`, `mark`: entries, rows."""
    outcomes = plan.outcomes()
    parts = (
        _answer(plan), _costs(plan.chain, sources), _minutes(outcomes),
        _stream(plan, outcomes, maxlen, mark), _past(nights),
    )  # fmt: skip
    return "\n\n".join("\n".join(part) for part in parts)


def _answer(plan: Plan) -> Iterator[str]:
    need, load = plan.need, plan.load
    yield (
        f"{plan.orders} orders in {plan.minutes:g} minutes: {load.per_second:.2f} orders, "
        f"{need.jobs:.1f} jobs a second"
    )
    yield (
        f"workers needed   {need.whole_workers}   ({need.workers:.2f} of {plan.slots} slots each "
        f"keep pace{_calls(plan)})"
    )
    yield f"cores needed     {need.whole_cores}   ({need.cores:.2f}; there are {plan.cores})"
    if plan.cores_are_the_limit:
        yield (
            f"CORES ARE THE LIMIT: {plan.cores} do {plan.cores / need.cores:.0%} of it, and more "
            "workers do not help; add machines"
        )
    yield f"emails           {_emails(plan):.1f} a second, to be allowed by the provider"


def _calls(plan: Plan) -> str:
    if not plan.need.service:
        return ""
    return f": {share_of(plan.slots)} of them may wait for {plan.need.service} at once"


def _emails(plan: Plan) -> float:
    email = sum(step.number for step in plan.chain if "email" in step.kind or step.kind == EMAIL)
    return plan.load.per_second * email


def _costs(chain: Sequence[Step], sources: dict[str, str]) -> Iterator[str]:
    rows = [
        (step.kind, f"{step.number:.3g}", _seconds(step.cost.slot), _seconds(step.cost.core),
         sources.get(step.kind, "past nights"))
        for step in chain
    ]  # fmt: skip
    total = (
        "one order",
        f"{sum(step.number for step in chain):.3g}",
        _seconds(sum(step.number * step.cost.slot for step in chain)),
        _seconds(sum(step.number * step.cost.core for step in chain)),
        "",
    )
    yield from table(
        [("an order makes", "jobs", "in a slot", "of a core", "known from"), *rows, total]
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


def _minutes(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield "age of the oldest job, and jobs not done, at the end of each minute"
    heads = ("minute", *(_name(outcome) for outcome in outcomes))
    rows = [
        (str(minute), *(_state(outcome, minute) for outcome in outcomes))
        for minute in minutes_shown(outcomes)
    ]
    yield from table(
        [
            heads,
            *rows,
            ("highest", *(f"{span(one.oldest)}, {one.peak.depth:.0f}" for one in outcomes)),
            ("alerts", *(_alert(one) for one in outcomes)),
            ("all done", *(_end(one) for one in outcomes)),
        ]
    )


def _name(outcome: Outcome) -> str:
    workers = "worker" if outcome.workers == 1 else "workers"
    cores = "core" if outcome.cores == 1 else "cores"
    return f"{outcome.workers} {workers}, {outcome.cores} {cores}"


def _state(outcome: Outcome, minute: int) -> str:
    point = outcome.minute(minute)
    if point is None:
        return "-" if outcome.ends is not None else "?"
    return f"{span(point.age)}, {point.depth:.0f}"


def _alert(outcome: Outcome) -> str:
    return ", ".join(f"{word} at {span(at)}" for word, at in outcome.alerts.items()) or "none"


def _end(outcome: Outcome) -> str:
    return f"after {span(outcome.ends)}" if outcome.ends is not None else "not within 6 h"


def _stream(plan: Plan, outcomes: Sequence[Outcome], maxlen: int, mark: int) -> Iterator[str]:
    entries = plan.orders * sum(step.number for step in plan.chain)
    kept = min(entries, maxlen)
    yield (
        f"stream           {entries:.0f} entries, {maxlen} are kept: "
        f"{kept * BYTES_PER_ENTRY / 1e6:.1f} MB of Redis"
    )
    most = max(outcome.peak.depth for outcome in outcomes)
    held = "" if most < mark else ": THEY WILL HOLD, rows wait in the outbox"
    yield f"not done at once {most:.0f} at most; relays hold at {mark}{held}"


def _past(nights: Sequence[Night]) -> Iterator[str]:
    if not nights:
        yield "no past night: no processed row of an order is younger than what was asked for"
        return
    heads = ("past night", "orders", "a minute", "jobs each", "render", "email", "95 % made within")
    yield from table([heads, *(_night(night) for night in nights[:NIGHTS])])


def _night(night: Night) -> tuple[str, ...]:
    render, email = night.of(FIRST), night.of(EMAIL)
    orders = render.number if render else 0
    jobs = sum(one.number for one in night.kinds)
    return (
        f"{night.date}", str(orders), f"{night.busiest} at most", f"{jobs / max(1, orders):.2f}",
        _seconds(render.seconds) if render else "-", _seconds(email.seconds) if email else "-",
        span(render.within) if render else "-",
    )  # fmt: skip
