"""`manage.py jobs pause` and `jobs resume`: a person holds a kind, and lets it go (T10)."""

import getpass
import os
import re
import socket
from argparse import ArgumentTypeError, _SubParsersAction
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from jobs import holds
from jobs.errors import error_line
from jobs.registry import all_kinds
from jobs.status import HoldSeen, clock, hold_line, holds_seen

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
LONGEST = 7 * UNITS["d"]
"""Seconds: a pause that somebody forgot ends by itself."""
REASON_LIMIT = 200
BY_LIMIT = 200
"""Characters of each that are kept and shown."""
EXIT_CODES = "Exit code 1: the database did not do it, 2: no such kind or a bad option."


def add_to(subcommands: "_SubParsersAction[CommandParser]") -> None:
    """Each says in `run` what is to be called; that returns the exit code."""
    pause = subcommands.add_parser(
        "pause",
        help="hold a kind: its jobs wait in the outbox",
        description="Hold a kind: its jobs wait in the outbox, what runs ends as it would. In "
        f"place of any other hold of it. {EXIT_CODES}",
    )
    pause.add_argument(
        "--for", dest="seconds", type=_duration, required=True, metavar="TIME",
        help="30s, 10m, 2h, 1d; 7d at most",
    )  # fmt: skip
    pause.add_argument("--reason", type=_reason, required=True, help="shown to staff")
    resume = subcommands.add_parser(
        "resume",
        help="let a kind go, whoever holds it",
        description=f"Let a kind go, held by a person or by the breaker. {EXIT_CODES}",
    )
    for parser, run in ((pause, _pause), (resume, _resume)):
        parser.add_argument("kind", help="e.g. email_tickets; `jobs policies` lists them")
        parser.set_defaults(run=run)


def _duration(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    seconds = int(found[1]) * UNITS[found[2]] if found else 0
    if not 0 < seconds <= LONGEST:
        raise ArgumentTypeError(f"takes a time like 30s, 10m, 2h or 1d, 7d at most, not {text!r}")
    return seconds


def _reason(text: str) -> str:
    text = text.strip()
    if not text.isprintable() or not 1 <= len(text) <= REASON_LIMIT:
        raise ArgumentTypeError(f"takes 1 to {REASON_LIMIT} printable characters on one line")
    return text


def _pause(command: BaseCommand, options: dict[str, Any]) -> int:
    kind, seconds = options["kind"], options["seconds"]
    if kind not in _known():
        return _no_such(command, kind)
    try:
        before = _held(kind)
        until = holds.pause(kind, seconds, options["reason"], _operator())
    except Exception as error:
        return _failed(command, f"could not hold {kind}", error)
    _say_before(command, before)
    command.stdout.write(
        f"{kind} is held until {clock(until)}; its jobs wait in the outbox, what runs ends as it "
        f"would; `jobs resume {kind}` lets them go"
    )
    return 0


def _resume(command: BaseCommand, options: dict[str, Any]) -> int:
    kind = options["kind"]
    try:
        before = _held(kind)
        # A kind that this build does not know may be held all the same: a deploy took it away.
        if not before and kind not in _known():
            return _no_such(command, kind)
        let_go = holds.resume(kind)
    except Exception as error:
        return _failed(command, f"could not let {kind} go", error)
    _say_before(command, before)
    command.stdout.write(
        f"{kind} is not held any more: relays publish its jobs from now on"
        if let_go
        else f"{kind} is not held: there is nothing to let go"
    )
    return 0


def _held(kind: str) -> list[HoldSeen]:
    return [hold for hold in holds_seen() if hold.kind == kind]


def _say_before(command: BaseCommand, before: Sequence[HoldSeen]) -> None:
    for hold in before:
        command.stdout.write(f"before: {hold_line(hold)}")


def _failed(command: BaseCommand, what: str, error: Exception) -> int:
    # Its answer may be what was lost: the hold is perhaps changed all the same.
    command.stderr.write(f"{what}: {error_line(error)}; `jobs status` tells what is held")
    return 1


def _known() -> list[str]:
    return [kind.name for kind in all_kinds()]


def _no_such(command: BaseCommand, kind: str) -> int:
    command.stderr.write(f"no kind {kind!r}; there are: {', '.join(_known())}")
    return 2


def _operator() -> str:
    try:
        login = getpass.getuser()
    # Where the user has no name: in a container whose uid is in no passwd.
    except (OSError, KeyError, ImportError):
        login = f"uid {os.getuid()}"
    return f"{login}@{socket.gethostname()}"[:BY_LIMIT]
