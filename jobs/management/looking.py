"""The looks of `manage.py jobs`: status, pending, doctor, policies. They change nothing."""

import dataclasses
import json
from argparse import _SubParsersAction
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.core.serializers.json import DjangoJSONEncoder

from jobs.doctor import examine, exit_code
from jobs.errors import error_line
from jobs.policy_table import policies, policies_screen
from jobs.status import in_flight, look, pending_screen, status_screen


def add_to(subcommands: "_SubParsersAction[CommandParser]") -> None:
    """Each says in `run` what is to be called; that returns the exit code."""
    status = subcommands.add_parser(
        "status",
        help="rows, holds, ages, workers, dead letters; exit code 1: something is wrong, in words",
    )
    pending = subcommands.add_parser(
        "pending", help="what workers were given and is not done; exit code 2: could not look"
    )
    doctor = subcommands.add_parser(
        "doctor",
        help="check servers and settings; exit code 1: something is wrong, 2: could not look",
    )
    table = subcommands.add_parser(
        "policies",
        help="when a failing job of each kind is tried again, dead, its kind held; asks no server",
    )
    for parser, what in ((status, "object"), (table, "list")):
        parser.add_argument("--json", action="store_true", help=f"one JSON {what}, for scripts")
    status.set_defaults(run=_status)
    pending.set_defaults(run=_pending)
    doctor.set_defaults(run=_doctor)
    table.set_defaults(run=_policies)


def _status(command: BaseCommand, options: dict[str, Any]) -> int:
    status = look(settings.REDIS_URL)
    as_json = json.dumps(dataclasses.asdict(status), cls=DjangoJSONEncoder)
    command.stdout.write(as_json if options["json"] else status_screen(status))
    return status.exit_code


def _pending(command: BaseCommand, options: dict[str, Any]) -> int:
    try:
        command.stdout.write(pending_screen(in_flight(settings.REDIS_URL)))
    # Whatever it was: a look that ended half way must not pass for one that saw nothing.
    except Exception as error:
        command.stderr.write(f"could not look: {error_line(error)}")
        return 2
    return 0


def _doctor(command: BaseCommand, options: dict[str, Any]) -> int:
    findings = []
    for finding in examine(settings.REDIS_URL):
        command.stdout.write(str(finding))
        findings.append(finding)
    return exit_code(findings)


def _policies(command: BaseCommand, options: dict[str, Any]) -> int:
    rows = policies()
    as_json = json.dumps([dataclasses.asdict(row) for row in rows])
    command.stdout.write(as_json if options["json"] else policies_screen(rows))
    return 0
