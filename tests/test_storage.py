"""Files are there whole or not at all."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.exceptions import SuspiciousFileOperation
from django.core.files.base import ContentFile

from stagedoor.storage import DurableFileSystemStorage


@pytest.fixture
def storage(tmp_path: Path) -> DurableFileSystemStorage:
    return DurableFileSystemStorage(location=str(tmp_path / "files"))


def files(storage: DurableFileSystemStorage) -> list[str]:
    return [path.name for path in Path(storage.location).rglob("*") if path.is_file()]


class Broken(ContentFile[bytes]):
    """Content that ends in the middle."""

    def chunks(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Half of it, then an error."""
        yield b"half"
        raise OSError("the disk is full")


def test_a_file_is_read_as_it_was_written(storage: DurableFileSystemStorage) -> None:
    assert storage.save("ab/abcd.pdf", ContentFile(b"%PDF")) == "ab/abcd.pdf"
    with storage.open("ab/abcd.pdf") as stored:
        assert stored.read() == b"%PDF"
    assert files(storage) == ["abcd.pdf"]


def test_others_of_the_machine_cannot_read_it(storage: DurableFileSystemStorage) -> None:
    storage.save("ab/abcd.pdf", ContentFile(b"%PDF"))
    path = Path(storage.path("ab/abcd.pdf"))
    assert path.stat().st_mode & 0o007 == 0
    assert path.parent.stat().st_mode & 0o007 == 0


def test_the_same_name_is_replaced_in_one_step(storage: DurableFileSystemStorage) -> None:
    storage.save("ab/abcd.pdf", ContentFile(b"one"))
    with storage.open("ab/abcd.pdf") as reader:
        assert storage.save("ab/abcd.pdf", ContentFile(b"two")) == "ab/abcd.pdf"
        assert reader.read() == b"one"
    with storage.open("ab/abcd.pdf") as stored:
        assert stored.read() == b"two"


def test_an_error_in_the_middle_leaves_nothing(storage: DurableFileSystemStorage) -> None:
    with pytest.raises(OSError, match="disk is full"):
        storage.save("ab/abcd.pdf", Broken(b"all"))
    assert files(storage) == []
    assert not storage.exists("ab/abcd.pdf")


def test_an_error_in_the_middle_leaves_the_older_file_whole(
    storage: DurableFileSystemStorage,
) -> None:
    storage.save("ab/abcd.pdf", ContentFile(b"whole"))
    with pytest.raises(OSError, match="disk is full"):
        storage.save("ab/abcd.pdf", Broken(b"all"))
    with storage.open("ab/abcd.pdf") as stored:
        assert stored.read() == b"whole"


def test_to_delete_is_to_reach_a_state(storage: DurableFileSystemStorage) -> None:
    storage.save("ab/abcd.pdf", ContentFile(b"%PDF"))
    for _ in range(2):
        storage.delete("ab/abcd.pdf")
        assert files(storage) == []
    storage.delete("cd/in no folder.pdf")


DIES = """
import os, signal, sys
from django.conf import settings
settings.configure()
from django.core.exceptions import SuspiciousFileOperation
from django.core.files.base import ContentFile
from stagedoor.storage import DurableFileSystemStorage

class Dying(ContentFile):
    def chunks(self, chunk_size=None):
        yield b"half"
        os.kill(os.getpid(), signal.SIGKILL)

DurableFileSystemStorage(location=sys.argv[1]).save("ab/abcd.pdf", Dying(b"all"))
"""


def test_a_process_killed_in_the_middle_leaves_no_file_under_the_name(
    storage: DurableFileSystemStorage,
) -> None:
    died = subprocess.run(
        [sys.executable, "-c", DIES, str(storage.location)],
        check=False,
        cwd=Path(__file__).resolve().parent.parent,
        env={"PATH": os.environ["PATH"]},
    )
    assert died.returncode == -signal.SIGKILL
    assert not storage.exists("ab/abcd.pdf")
    storage.save("ab/abcd.pdf", ContentFile(b"whole"))
    with storage.open("ab/abcd.pdf") as stored:
        assert stored.read() == b"whole"


@pytest.mark.parametrize("name", ["../outside.pdf", "/etc/outside.pdf", "ab/../../outside.pdf"])
def test_no_name_leads_out_of_the_folder(storage: DurableFileSystemStorage, name: str) -> None:
    with pytest.raises(SuspiciousFileOperation):
        storage.save(name, ContentFile(b"x"))
