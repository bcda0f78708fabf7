"""Files that no row names are deleted once they are old, and no others."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.db import transaction
from django.test import override_settings

from jobs.models import OutboxRow
from jobs.outbox import enqueue
from jobs.testing import drain, enqueued
from tests.conftest import MailFolder
from tests.people import buy, new_type
from tests.tickets.sessions import elsewhere
from tickets import files, stray_files
from tickets.models import TicketFile

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("at_once")]
OLD = 25 * 3600


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty storage."""
    tickets = {**settings.STORAGES["tickets"], "OPTIONS": {"location": str(tmp_path / "files")}}
    with override_settings(STORAGES={**settings.STORAGES, "tickets": tickets}):
        yield tmp_path / "files"


def put(folder: Path, name: str, age: float = OLD) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"%PDF")
    grow_old(path, age)
    return path


def grow_old(path: Path, age: float = OLD) -> None:
    then = time.time() - age
    os.utime(path, (then, then))


def sweep() -> None:
    with transaction.atomic():
        enqueue("delete_stray_files", folder=0)
    drain()


def test_what_no_row_names_goes_and_what_is_named_or_young_stays(
    folder: Path, mailbox: MailFolder
) -> None:
    kept, deleted = (buy(new_type()) for _ in range(2))
    drain()
    TicketFile.objects.filter(order=deleted.id).update(deleted_at="2026-01-01T00:00Z")
    named = {folder / file.name for file in TicketFile.objects.all()}
    for path in named:
        grow_old(path)
    put(folder, "00/stray.pdf")
    put(folder, "ff/.draft-x")
    young = put(folder, "ab/young.pdf", age=23 * 3600)
    sweep()
    assert {path for path in folder.rglob("*") if path.is_file()} == {*named, young}
    assert TicketFile.objects.filter(order=kept.id).exists()
    assert not OutboxRow.objects.exists()


def test_one_that_is_about_to_be_named_stays(folder: Path) -> None:
    stray = put(folder, "00/stray.pdf")
    with transaction.atomic():
        assert files.lock_contents(["00/stray.pdf"])
        elsewhere(lambda: stray_files.clear(0))
    assert stray.exists()
    stray_files.clear(0)
    assert not stray.exists()


def test_the_storage_of_another_shop_is_left_alone(folder: Path) -> None:
    strays = [put(folder, f"00/{number}.pdf") for number in range(stray_files.FEW * 2 + 1)]
    sweep()
    assert all(path.exists() for path in strays)
    assert "is it the folder of this database?" in OutboxRow.objects.get().last_error


@override_settings(JOBS={**settings.JOBS, "PURGE_SECONDS": 0.0})
def test_a_run_whose_seconds_are_over_leaves_the_rest_to_the_next() -> None:
    with transaction.atomic():
        enqueue("delete_stray_files", folder=254)
    with pytest.raises(RuntimeError):
        drain(rounds=1)
    assert enqueued("delete_stray_files") == [{"folder": 255}]
    drain()
    assert not OutboxRow.objects.exists()
