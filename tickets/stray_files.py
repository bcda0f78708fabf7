"""Files that no row names: a render was killed, or came too late, between its file and its row."""

import itertools
from collections.abc import Collection
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from .files import MOST, lock_contents, named, ticket_storage

FOLDERS = 256
"""Contents begin with two hexadecimal digits, and lie in the folder that these name."""
AGE = timedelta(days=1)
"""Since it was stored: of a render that goes on the file is younger."""
FEW = 2
"""Strays of one folder that are deleted whatever else is in it: a young shop has few files."""


class TooManyStrays(Exception):
    """More files are named by no row than by one: this is another database's storage, or an older
    database. Nothing of the folder was deleted."""


def clear(folder: int) -> int | None:
    """Delete what nobody names in this folder (T15); the next one, None behind the last. Raises
    OSError, TooManyStrays."""
    names = _old_files(f"{folder:02x}")
    strays = names - named(names)
    if len(strays) > FEW + len(names) / 2:
        raise TooManyStrays(
            f"of {len(names)} files in the folder {folder:02x} of TICKET_DIR {len(strays)} are "
            "named by no row: is it the folder of this database?"
        )
    for batch in itertools.batched(sorted(strays), MOST):
        _unlink(batch)
    return folder + 1 if folder + 1 < FOLDERS else None


def _old_files(folder: str) -> set[str]:
    storage = ticket_storage()
    try:
        _, files = storage.listdir(folder)
    except FileNotFoundError:
        return set()
    names = {f"{folder}/{file}" for file in files}
    return {name for name in names if storage.get_modified_time(name) < timezone.now() - AGE}


def _unlink(names: Collection[str]) -> None:
    """T15: those of them that nobody names, nor can until they are gone."""
    with transaction.atomic(durable=True):
        locked = lock_contents(names)
        for name in sorted(locked - named(locked)):
            ticket_storage().delete(name)
