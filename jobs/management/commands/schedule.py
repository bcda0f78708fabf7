"""`manage.py schedule`: fires schedules until it is stopped, or says when they are due."""

import itertools
import os
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from jobs import outage
from jobs.checks import check_schedules, durations
from jobs.due_times import due_times
from jobs.errors import error_line
from jobs.management.options import (
    add_metrics_options,
    add_name_option,
    serve_metrics,
    whole_number,
)
from jobs.notify import Notifier
from jobs.schedule import Schedule, declared
from jobs.scheduler import Scheduler, step


class Command(BaseCommand):
    help = "Fire schedules, each due time once. Any number of schedulers may run."

    # They would end it with code 1; those that matter to a scheduler are made here.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_name_option(parser)
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--once", action="store_true", help="decide what is due now, and leave")
        what.add_argument("--list", action="store_true", help="the schedules; asks no server")
        what.add_argument(
            "--check", action="store_true",
            help="the next due times of each schedule, in its zone and in UTC; asks no server",
        )  # fmt: skip
        parser.add_argument(
            "--next", type=whole_number(1, 1000), help="how many --check prints; default: 10"
        )
        add_metrics_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        for problem in [*durations(), *check_schedules(None)]:
            raise CommandError(f"{problem.msg} {problem.hint}", returncode=2)
        if options["next"] and not options["check"]:
            # Or who forgot a word would have started a scheduler.
            raise CommandError("--next goes with --check", returncode=2)
        schedules = declared()
        if options["list"]:
            self._list(schedules)
        elif options["check"]:
            self._check(schedules, options["next"] or 10)
        else:
            self._schedule(schedules, options)

    def _list(self, schedules: Sequence[Schedule]) -> None:
        for schedule in schedules:
            self.stdout.write(
                f"{schedule.name}: {schedule.cron} {schedule.tz}, {schedule.kind}, catches up "
                f"{schedule.catch_up}, on time within {schedule.grace:g} s. {schedule.words}"
            )

    def _check(self, schedules: Sequence[Schedule], number: int) -> None:
        now = datetime.now().astimezone()
        for schedule in schedules:
            self.stdout.write(f"{schedule.name}: {schedule.cron} {schedule.tz}")
            for due in itertools.islice(due_times(schedule.cron, schedule.tz, now), number):
                local = due.at.astimezone(ZoneInfo(schedule.tz))
                word = "  suppressed: the clock shows it a second time" if due.suppressed else ""
                self.stdout.write(
                    f"  {local:%a %Y-%m-%d %H:%M %Z}  {due.at:%Y-%m-%d %H:%M} UTC{word}"
                )

    def _schedule(self, schedules: Sequence[Schedule], options: dict[str, Any]) -> None:
        scheduler = Scheduler(schedules, options["name"] or "", Notifier.of(os.environ))
        try:
            if options["once"]:
                self._once(schedules, options["name"] or "once")
                return
            serve_metrics("scheduler", options, scheduler.pulse)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: scheduler.stop())
            scheduler.run()
        except DatabaseError as error:
            if outage.is_outage(error) and not outage.is_refusal(error):
                raise CommandError(f"PostgreSQL does not answer: {error_line(error)}") from error
            self.stderr.write(f"schedule: refused by a server: {error_line(error)}")
            sys.exit(7)

    def _once(self, schedules: Sequence[Schedule], name: str) -> None:
        done = step(schedules, name)
        for schedule, slot in done.written:
            times = f"{slot.count} due at" if slot.count > 1 else "due at"
            self.stdout.write(
                f"{schedule.name}: {times} {slot.due_at:%Y-%m-%d %H:%M} UTC {slot.result}, "
                f"{slot.seconds_late:.1f} s late"
            )
        if done.failed:
            raise CommandError(f"cannot be decided: {', '.join(done.failed)}; see the log")
