"""`manage.py capacity`: what a night needs, before it comes. Sends nothing, changes nothing."""

import dataclasses
import json
import math
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from jobs.capacity import Cost, Step
from jobs.errors import error_line
from jobs.history import Night, nights
from jobs.management.options import whole_number
from jobs.pool import cores
from tickets import yardstick
from tickets.capacity_plan import Plan
from tickets.capacity_screen import capacity_screen
from tickets.sending import MAIL
from tickets.yardstick import EMAIL, FIRST

LONGEST = 3_600.0


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= LONGEST:
        raise ArgumentTypeError(f"takes seconds above 0, {LONGEST:g} at most, not {text!r}")
    return seconds


class Command(BaseCommand):
    help = (
        "Say what a night of so many orders needs: workers, cores, the age and depth of the queue "
        "minute by minute, Redis, the email provider. Measures a render and an email on this "
        "machine unless told; sends no email. Exit code 2: a bad option, or could not measure."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("--orders", type=whole_number(1, 1_000_000), required=True, help="of the night")
        add("--minutes", type=whole_number(1, 1440), required=True, help="in which they come")
        add("--tickets", type=whole_number(1, 20), default=2, help="of an order, for the render")
        add("--render-seconds", type=_seconds, help="of one core; default: measured here")
        add("--email-seconds", type=_seconds, help="of one email; default: as in past nights")
        add("--threads", type=whole_number(1, 100), default=8, help="slots of a worker")
        add("--workers", type=whole_number(1, 1000), help="also show the night with so many")
        add(
            "--cores", type=whole_number(1, 10_000), default=cores(),
            help="of all machines that workers run on; default: this one's",
        )  # fmt: skip
        add("--days", type=whole_number(1, 365), default=30, help="of past nights that are read")
        add("--json", action="store_true", help="one JSON object, for scripts")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            past = nights(FIRST, options["days"])
            plan, sources = _plan(options, past)
        except DatabaseError as error:
            raise CommandError(
                f"PostgreSQL does not answer: {error_line(error)}", returncode=2
            ) from error
        jobs = settings.JOBS
        if options["json"]:
            self.stdout.write(_json(plan, sources, past))
        else:
            self.stdout.write(capacity_screen(plan, sources, past, jobs["MAXLEN"], jobs["MARK"]))


def _plan(options: dict[str, Any], past: Sequence[Night]) -> tuple[Plan, dict[str, str]]:
    render, render_from = _render(options)
    email, email_from = _email(options, past)
    costs = {FIRST: render, EMAIL: dataclasses.replace(email, service=MAIL)}
    own = [Step(kind, costs[kind]) for kind in yardstick.kinds()]
    plan = Plan(
        orders=options["orders"], minutes=options["minutes"],
        chain=(*own, *yardstick.others(past)), slots=options["threads"], cores=options["cores"],
        workers=options["workers"],
    )  # fmt: skip
    return plan, {FIRST: render_from, EMAIL: email_from}


def _render(options: dict[str, Any]) -> tuple[Cost, str]:
    if seconds := options["render_seconds"]:
        return Cost(seconds, seconds), "--render-seconds"
    return yardstick.measured_render(options["tickets"]), "measured here"


def _email(options: dict[str, Any], past: Sequence[Night]) -> tuple[Cost, str]:
    if seconds := options["email_seconds"]:
        return Cost(seconds), "--email-seconds"
    if seconds := yardstick.past_seconds(EMAIL, past):
        return Cost(seconds), "the newest night"
    return yardstick.measured_email(), "measured here, without the provider: --email-seconds"


def _json(plan: Plan, sources: dict[str, str], past: Sequence[Night]) -> str:
    need = plan.need
    return json.dumps(
        {
            "orders": plan.orders,
            "minutes": plan.minutes,
            "orders_per_second": plan.load.per_second,
            "jobs_per_second": need.jobs,
            "workers": need.whole_workers,
            "workers_exact": need.workers,
            "workers_for": need.service or "slots",
            "cores": need.whole_cores,
            "cores_there": plan.cores,
            "cores_are_the_limit": plan.cores_are_the_limit,
            "chain": [dataclasses.asdict(step) for step in plan.chain],
            "known_from": sources,
            "outcomes": [
                {
                    "workers": one.workers,
                    "cores": one.cores,
                    "oldest": one.oldest,
                    "peak": one.peak.depth,
                    "alerts": one.alerts,
                    "all_done": one.ends,
                }
                for one in plan.outcomes()
            ],
            "nights": [dataclasses.asdict(night) for night in past],
        },
        default=str,
    )
