"""`python -m stagedoor.faults`: against the copy that runs in this environment's `VAR_DIR`."""

import os
import sys

import django

from stagedoor.place import Place, Refused

SERVERS = ("DATABASE_URL", "REDIS_URL", "CACHE_URL")


def main() -> int:
    """Play every fault; returns the exit code: 1 where it cannot, or must not, with the reason."""
    try:
        _play(Place.of(os.environ))
    except Refused as refusal:
        print(f"\n{refusal}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped; what was put wrong is put right.", file=sys.stderr)
        return 130
    return 0


def _play(place: Place) -> None:
    if not place.runs():
        raise Refused(
            f"No copy runs in {place.folder}. Start one in another terminal with `make run`, then "
            "call this again (with the same VAR_DIR, if you chose one)."
        )
    # Nothing but this copy's own servers: what the shell says may be anybody's.
    for name in SERVERS:
        os.environ.pop(name, None)
    os.environ |= {"VAR_DIR": str(place.folder)}
    os.environ |= {"DJANGO_SETTINGS_MODULE": "stagedoor.settings.development"}
    django.setup()
    from . import copy, scenes

    scenes.play(copy.RunningCopy(place))


if __name__ == "__main__":
    sys.exit(main())
