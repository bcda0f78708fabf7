"""The door for operators: Django's management commands, as `stagedoor` once installed."""

import gc
import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import ManagementUtility
from django.core.management.base import BaseCommand

BAD_SETTING = 2
"""The exit code, as that of a bad option: nothing starts again before a person has mended it."""


class Commands(ManagementUtility):
    """Django's; garbage is collected once the apps are loaded."""

    def fetch_command(self, subcommand: str) -> BaseCommand:
        """The command to run."""
        gc.enable()
        return super().fetch_command(subcommand)


def main() -> None:
    """Run one command; with production settings unless the environment says otherwise.

    A setting that is missing or wrong is said in a line; `--traceback` has the stack.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "stagedoor.settings.production")
    # What a start makes stays: to look through it again and again is an eighth of the start.
    gc.disable()
    try:
        Commands(sys.argv).execute()
    except ImproperlyConfigured as error:
        if "--traceback" in sys.argv:
            raise
        print(error, file=sys.stderr)
        sys.exit(BAD_SETTING)


if __name__ == "__main__":
    main()
