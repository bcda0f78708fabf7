"""`python -m benchmarks`: measure, print ratios first, keep JSON under `results/`."""

import contextlib
import importlib
import os
import signal
import sys
import time
from typing import Any

import django
import psycopg
import redis

from .options import PARTS, Options, parse
from .place import NotReady, Place, private_place
from .report import Result, keep, show, versions


def main() -> int:
    """Run the chosen parts on servers of their own; returns the exit code."""
    options = parse(__doc__)
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


def _set_up(place: Place) -> None:
    os.environ |= place.environment()
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def _run(part: str, place: Place, options: Options) -> list[Result]:
    print(f"{part} … ", end="", flush=True)
    started = time.monotonic()
    # Only now: its models need Django's set-up, and that needs the servers.
    module: Any = importlib.import_module(f"benchmarks.{part}")
    results: list[Result] = module.measure(place, options)
    print(f"{time.monotonic() - started:.0f} s", flush=True)
    for result in results:
        keep(result, options.as_json(), _versions(place))
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
