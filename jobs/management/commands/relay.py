"""`manage.py relay`: moves due outbox rows to the stream until it is stopped."""

import os
import signal
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from psycopg import Error as PostgresError

from jobs import outage, outbox, publishing
from jobs.errors import error_line
from jobs.management.options import add_metrics_options, add_name_option, serve_metrics
from jobs.notify import Notifier
from jobs.relay import Pressure, Relay
from jobs.stream import Letters, RelayStream, StreamAway, StreamRefused

BAR = 30
"""Characters of the progress bar."""


class Command(BaseCommand):
    help = "Move due outbox rows to the stream. Any number of relays may run."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_name_option(parser)
        parser.add_argument(
            "--rebuild",
            action="store_true",
            help="publish everything that is relayed and not done again, show how far it is, and "
            "leave; harmless at any time: a job that comes twice has its effects once",
        )
        add_metrics_options(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            stream = RelayStream(settings.REDIS_URL)
        except ValueError as error:
            raise CommandError(f"REDIS_URL: {error}", returncode=2) from error
        try:
            if options["rebuild"]:
                self._rebuild(stream)
            else:
                self._relay(stream, options)
        except StreamAway as error:
            raise CommandError(f"Redis does not answer: {error_line(error)}") from error
        except (StreamRefused, DatabaseError, PostgresError) as error:
            if outage.is_outage(error) and not outage.is_refusal(error):
                raise CommandError(f"PostgreSQL does not answer: {error_line(error)}") from error
            self.stderr.write(f"relay: refused by a server: {error_line(error)}")
            sys.exit(7)

    def _relay(self, stream: RelayStream, options: dict[str, Any]) -> None:
        letters, notifier = Letters(settings.REDIS_URL), Notifier.of(os.environ)
        relay = Relay(stream, letters, options["name"] or "", notifier)
        serve_metrics("relay", options, relay.pulse)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: relay.stop())
        relay.run()

    def _rebuild(self, stream: RelayStream) -> None:
        number = publishing.rebuild(stream, by_hand=True)
        total = left = outbox.count_unpublished()
        self.stdout.write(f"{number} rows are published again, {total} are due in all.")
        pressure = Pressure()
        batch = settings.JOBS["RELAY_BATCH"]
        while left > 0 and (room := pressure.room()):
            moved = publishing.step(stream, min(batch, room), "rebuild")
            if not moved:
                break
            pressure.add(moved)
            left -= moved
            self._show(total - left, total)
        waiting = outbox.count_unpublished()
        if waiting:
            self.stdout.write(
                f"{waiting} wait until workers have done others; relays publish them."
            )
        else:
            self.stdout.write("Everything that is due is on the stream.")

    def _show(self, done: int, total: int) -> None:
        done = max(0, min(done, total))
        bar = "#" * (BAR * done // total)
        end = "\r" if self.stdout.isatty() and done < total else "\n"
        self.stdout.write(f"[{bar:<{BAR}}] {done} of {total}", ending=end)
        self.stdout.flush()
