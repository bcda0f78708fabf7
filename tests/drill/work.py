"""What drills do in a render process, which knows no Django and none of the environment."""

import ctypes
import time
from pathlib import Path


def wait(ms: int, gate: str) -> None:
    """So many milliseconds, or until the file `gate` is there; `<gate>-begun` says it waits."""
    Path(f"{gate}-begun").touch()
    deadline = time.monotonic() + ms / 1000
    while (left := deadline - time.monotonic()) > 0 and not Path(gate).exists():
        time.sleep(min(left, 0.02))


def segfault() -> None:
    """Read where nothing is."""
    ctypes.string_at(0)


def allocate() -> None:
    """Keep ever more."""
    kept = []
    while True:
        kept.append(bytearray(16_000_000))
