"""`manage.py audit`: whether every job is where it should be, and every effect has its job."""

import dataclasses
import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.utils.module_loading import autodiscover_modules

from jobs.audit import audit


class Command(BaseCommand):
    help = (
        "Prove the books: no job is lost or in two places, every effect has its job, tickets and "
        "stock match what was sold. Changes nothing and may run beside everything else. "
        "Exit code 0: in order. 1: not in order, the ids are named. 2: could not look."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--json", action="store_true", help="one JSON object, with every id, for scripts"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        autodiscover_modules("audit")
        report = audit(
            settings.REDIS_URL,
            after=settings.JOBS["AUDIT_AFTER"],
            pause=settings.JOBS["AUDIT_PAUSE"],
        )
        shown = json.dumps(dataclasses.asdict(report)) if options["json"] else str(report)
        self.stdout.write(shown)
        sys.exit(report.exit_code)
