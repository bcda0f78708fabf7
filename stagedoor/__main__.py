"""The door for operators: Django's management commands, as `stagedoor` once installed."""

import os
import sys


def main() -> None:
    """Run one command; with production settings unless the environment says otherwise."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "stagedoor.settings.production")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
