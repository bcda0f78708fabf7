"""The door for operators: Django's management commands, as `stagedoor` once installed."""

import os
import sys

BAD_SETTING = 2
"""The exit code, as that of a bad option: nothing starts again before a person has mended it."""


def main() -> None:
    """Run one command; with production settings unless the environment says otherwise.

    A setting that is missing or wrong is said in a line; `--traceback` has the stack.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "stagedoor.settings.production")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        if "--traceback" in sys.argv:
            raise
        print(error, file=sys.stderr)
        sys.exit(BAD_SETTING)


if __name__ == "__main__":
    main()
