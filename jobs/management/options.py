"""Options that several commands have."""

from argparse import ArgumentTypeError
from collections.abc import Callable

from django.core.management.base import CommandError
from prometheus_client import start_http_server


def serve_metrics(port: int) -> None:
    """Serve this process's series on loopback. Raises CommandError where the port is taken."""
    try:
        start_http_server(port, addr="127.0.0.1")
    except OSError as error:
        raise CommandError(f"--metrics-port {port}: {error}", returncode=2) from error


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """The type of an option that takes a whole number within these bounds."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or not least <= int(text) <= most:
            raise ArgumentTypeError(f"takes a whole number from {least} to {most}, not {text!r}")
        return int(text)

    return parse
