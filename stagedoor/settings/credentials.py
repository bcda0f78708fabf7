"""Secrets that the service manager hands over as files of one folder (`$CREDENTIALS_DIRECTORY`)."""

import re
from collections import ChainMap
from collections.abc import MutableMapping
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

PREFIX = "stagedoor_"
"""systemd puts the id of a folder of credentials before the name of each of its files."""


def with_credentials(environment: MutableMapping[str, str]) -> MutableMapping[str, str]:
    """`environment`, and over it the files of the folder: `SECRET_KEY` or `stagedoor_SECRET_KEY`.

    A file wins over a variable of the same name. A newline at the end is no part of the value.
    Other names are left alone. What a file says is not put into the process's own environment,
    where every child would find it. Raises ImproperlyConfigured for a file that cannot be read.
    """
    folder = environment.get("CREDENTIALS_DIRECTORY")
    found = _read(Path(folder)) if folder else {}
    return ChainMap(found, environment)


def _read(folder: Path) -> dict[str, str]:
    try:
        files = {path.name.removeprefix(PREFIX): path for path in folder.iterdir()}
        return {
            name: path.read_text().removesuffix("\n")
            for name, path in files.items()
            if re.fullmatch("[A-Z][A-Z0-9_]*", name)
        }
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"CREDENTIALS_DIRECTORY={folder}: {error}") from error
