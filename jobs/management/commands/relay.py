"""`manage.py relay`: moves due outbox rows to the stream until it is stopped."""

import signal
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import DatabaseError
from psycopg import Error as PostgresError

from jobs.errors import error_line
from jobs.relay import Relay
from jobs.stream import RelayStream, StreamRefused


class Command(BaseCommand):
    help = "Move due outbox rows to the stream. Any number of relays may run."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--name", default="", help="shown to staff; default: host and process id"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        relay = Relay(RelayStream(settings.REDIS_URL), options["name"])
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: relay.stop())
        try:
            relay.run()
        except (StreamRefused, DatabaseError, PostgresError) as error:
            self.stderr.write(f"relay: refused by a server: {error_line(error)}")
            sys.exit(7)
