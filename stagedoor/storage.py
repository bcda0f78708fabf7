"""Where files are kept: whole on disk before a row in the database names them."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from django.core.files.storage import FileSystemStorage


class DurableFileSystemStorage(FileSystemStorage):
    """Files that are there whole or not at all, also after a crash or a power cut.

    A file under the same name is replaced in one step: names are addresses of their content.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_overwrite": True, "file_permissions_mode": 0o640, **options})

    def _save(self, name: str, content: Any) -> str:
        target = Path(self.path(name))
        self._make_folder(target.parent)
        handle, draft = tempfile.mkstemp(dir=target.parent, prefix=".draft-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(content.chunks())
                file.flush()
                os.fsync(file.fileno())
            os.chmod(draft, self.file_permissions_mode or 0o640)
            os.replace(draft, target)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)
        return name

    def delete(self, name: str) -> None:
        """Forget the file, also after a power cut; nothing where there is none."""
        super().delete(name)
        # Also where it was gone already: whoever unlinked it may have been cut before this.
        with contextlib.suppress(FileNotFoundError):
            _sync_folder(Path(self.path(name)).parent)

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        self._make_folder(folder.parent)
        folder.mkdir(mode=0o750, exist_ok=True)
        # Or a power cut forgets the new folder, and with it what was synced inside.
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
