"""Child processes that leave nothing behind: each in a session of its own, gone with its parent.

Knows no Django. On Linux a child also ends when this process is killed; elsewhere it has to be
stopped.
"""

import os
import pwd
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

LAUNCH = Path(__file__).with_name("launch.py")


class FolderClosed(Exception):
    """A folder on the way to a file cannot be entered by the user who needs it."""


@dataclass(frozen=True)
class Account:
    """A user whom root lends a server to."""

    name: str
    uid: int
    gid: int

    def reach(self, path: Path) -> None:
        """Raise FolderClosed when a folder above `path`, or `path`, is closed to this user."""
        for folder in [*reversed(path.parents), path]:
            if not self._may_enter(folder):
                raise FolderClosed(
                    f"PostgreSQL does not run as root, and the user {self.name}, as whom it runs "
                    f"instead, cannot enter {folder}, which is on the way to {path}. Either move "
                    f"the checkout (or VAR_DIR) to where everybody may enter, or open the folder: "
                    f"chmod o+x {folder}"
                )

    def _may_enter(self, folder: Path) -> bool:
        status = folder.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & 0o100)
        if status.st_gid == self.gid:
            return bool(status.st_mode & 0o010)
        return bool(status.st_mode & 0o001)


def unprivileged_account(data: Path) -> Account | None:
    """Whom a server that refuses root runs as: the owner of `data`, else postgres or nobody.

    None when this process is not root. Raises LookupError when the system has no such user.
    """
    if os.geteuid() != 0:
        return None
    if data.exists() and data.stat().st_uid != 0:
        status = data.stat()
        return Account(_name_of(status.st_uid), status.st_uid, status.st_gid)
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(name, entry.pw_uid, entry.pw_gid)
    raise LookupError("PostgreSQL does not run as root, and there is no user postgres or nobody.")


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def guarded(
    program: Sequence[str], number: signal.Signals, account: Account | None = None
) -> list[str]:
    """The command line of `program` as a child that signal `number` reaches when this one dies."""
    who = [str(account.uid), str(account.gid)] if account else ["-", "-"]
    parent = [str(os.getpid()), str(int(number))]
    return [sys.executable, "-I", "-S", str(LAUNCH), *parent, *who, *program]


def start(
    command: Sequence[str], output: BinaryIO, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a guarded `command` in a session of its own, both its streams going to `output`.

    Raises RuntimeError outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        # Linux counts the death of the thread that started a child as the death of its parent.
        raise RuntimeError("Start servers from the main thread: they end with their thread.")
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=environment,
    )


def signal_group(leader: int, number: signal.Signals) -> bool:
    """Send signal `number` to every process of `leader`'s group; False when there is none left."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS says so of a group of zombies
        return False
    return True


def stop(child: subprocess.Popen[bytes], number: signal.Signals, timeout: float) -> None:
    """Ask `child` to end with signal `number`; kill its group after `timeout` seconds."""
    if child.poll() is None:
        child.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout)
    signal_group(child.pid, signal.SIGKILL)
    child.wait()
