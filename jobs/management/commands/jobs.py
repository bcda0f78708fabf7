"""`manage.py jobs`: the queue as it is, what is in flight, and whether the servers will do."""

import dataclasses
import json
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.core.serializers.json import DjangoJSONEncoder

from jobs.doctor import examine, exit_code
from jobs.errors import error_line
from jobs.status import in_flight, look, pending_screen, status_screen


class Command(BaseCommand):
    help = "Look at the queue. Changes nothing and may run beside everything else."

    # They would end the doctor before it could say what is wrong with the settings, and more.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        looks = parser.add_subparsers(dest="look", required=True)
        status = looks.add_parser(
            "status",
            help="rows, ages, workers, dead letters; exit code 1: something is wrong, in words",
        )
        status.add_argument("--json", action="store_true", help="one JSON object, for scripts")
        looks.add_parser(
            "pending", help="what workers were given and is not done; exit code 2: could not look"
        )
        looks.add_parser(
            "doctor",
            help="check servers and settings; exit code 1: something is wrong, 2: could not look",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        looks = {"status": self._status, "pending": self._pending, "doctor": self._doctor}
        sys.exit(looks[options["look"]](options))

    def _status(self, options: dict[str, Any]) -> int:
        status = look(settings.REDIS_URL)
        as_json = json.dumps(dataclasses.asdict(status), cls=DjangoJSONEncoder)
        self.stdout.write(as_json if options["json"] else status_screen(status))
        return status.exit_code

    def _pending(self, options: dict[str, Any]) -> int:
        try:
            self.stdout.write(pending_screen(in_flight(settings.REDIS_URL)))
        # Whatever it was: a look that ended half way must not pass for one that saw nothing.
        except Exception as error:
            self.stderr.write(f"could not look: {error_line(error)}")
            return 2
        return 0

    def _doctor(self, options: dict[str, Any]) -> int:
        findings = []
        for finding in examine(settings.REDIS_URL):
            self.stdout.write(str(finding))
            findings.append(finding)
        return exit_code(findings)
