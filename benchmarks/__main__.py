"""`python -m benchmarks`: measure, print ratios first, keep JSON under `results/`."""

import argparse
import contextlib
import importlib
import os
import signal
import sys
from typing import Any

import django
import psycopg
import redis

from .place import NotReady, Place, private_place
from .report import Result, keep, show, versions

PARTS = ("orders", "renders", "jobs")


def main() -> int:
    """Run the chosen parts on servers of their own; returns the exit code."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with private_place() as place:
            _set_up(place)
            show(
                [
                    one
                    for part in PARTS
                    if part in options.only
                    for one in _run(part, place, options)
                ]
            )
    except NotReady as late:
        print(late, file=sys.stderr)
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="may be repeated")
    parser.add_argument("--rounds", type=int, default=5, help="of each part; default 5")
    parser.add_argument(
        "--seconds", type=float, default=6, help="about, a side and round; default 6"
    )
    options = parser.parse_args()
    options.only = options.only or PARTS
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("rounds and seconds must be positive")
    return options


def _set_up(place: Place) -> None:
    os.environ |= place.environment()
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def _run(part: str, place: Place, options: argparse.Namespace) -> list[Result]:
    print(f"{part} …", flush=True)
    # Only now: its models need Django's set-up, and that needs the servers.
    module: Any = importlib.import_module(f"benchmarks.{part}")
    results: list[Result] = module.measure(place, options.rounds, options.seconds)
    for result in results:
        keep(result, {"rounds": options.rounds, "seconds": options.seconds}, _versions(place))
    return results


def _versions(place: Place) -> dict[str, Any]:
    with psycopg.connect(place.postgres.url()) as connection:
        fsync = connection.execute("SHOW fsync").fetchone()
        number = connection.execute("SHOW server_version").fetchone()
    assert fsync == ("on",)
    assert number is not None
    with contextlib.closing(redis.Redis.from_url(place.redis.url())) as client:
        about: Any = client.info("server")
    return versions(f"{number[0]}, fsync on", f"{about['server_name']} {about['valkey_version']}")


if __name__ == "__main__":
    sys.exit(main())
