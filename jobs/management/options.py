"""Options that several commands have."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from jobs import exposition, metrics
from jobs.pulse import Pulse


def add_name_option(parser: ArgumentParser) -> None:
    """The name under which a process that shares its work is shown."""
    parser.add_argument(
        "--name", type=process_name, help="shown to staff; default: host and process id"
    )


def process_name(text: str) -> str:
    """The type of an option that names a process: a longer one has no room in its row."""
    if not text.isprintable() or " " in text or not 1 <= len(text) <= 100:
        raise ArgumentTypeError(f"takes 1 to 100 printable characters without spaces, not {text!r}")
    return text


def add_metrics_options(parser: ArgumentParser) -> None:
    """Options of every command that runs for long; see `serve_metrics`."""
    parser.add_argument(
        "--metrics-port", type=whole_number(1, 65535), help="serve /metrics and /healthz there"
    )
    parser.add_argument(
        "--metrics-host", default="127.0.0.1", help="the address for it; default: loopback"
    )


def serve_metrics(role: str, options: Mapping[str, Any], pulse: Pulse) -> None:
    """Serve the series and the health of this process, where a port was given.

    Raises CommandError where it is taken.
    """
    metrics.LOOP_LAG.set_function(pulse.lag)
    if port := options["metrics_port"]:
        try:
            exposition.serve(role, options["metrics_host"], port, _health(pulse))
        except OSError as error:
            raise CommandError(f"--metrics-port {port}: {error}", returncode=2) from error


def _health(pulse: Pulse) -> Callable[[], str]:
    return lambda: pulse.trouble(settings.JOBS["TURN_LIMIT"])


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """The type of an option that takes a whole number within these bounds."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or not least <= int(text) <= most:
            raise ArgumentTypeError(f"takes a whole number from {least} to {most}, not {text!r}")
        return int(text)

    return parse
