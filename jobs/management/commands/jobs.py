"""`manage.py jobs`: the queue as it is, and the kinds that a person holds."""

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from jobs.management import holding, looking


class Command(BaseCommand):
    help = (
        "Look at the queue, hold a kind of job, let it go. May run beside everything else; only "
        "pause and resume change anything."
    )

    # They would end the doctor before it could say what is wrong with the settings, and more.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        subcommands = parser.add_subparsers(dest="subcommand", required=True)
        looking.add_to(subcommands)
        holding.add_to(subcommands)

    def handle(self, *args: Any, **options: Any) -> None:
        sys.exit(options["run"](self, options))
