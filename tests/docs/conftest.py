"""One running copy for all that the docs tell people to do beside `make run`."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.copies import Copy, running
from tests.processes import SHORT

PATIENT = ("JOBS_MAXLEN", "JOBS_MARK")


@pytest.fixture(scope="session")
def copy() -> Iterator[Copy]:
    """A copy with short durations, shared: what a test puts wrong it puts right."""
    short = {name: value for name, value in SHORT.items() if name not in PATIENT}
    with tempfile.TemporaryDirectory(prefix="stagedoor-docs-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)
        with running(Path(name) / "var", **short) as one:
            yield one
