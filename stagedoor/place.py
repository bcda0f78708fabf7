"""Where a running copy lives: its port, its folder, the lock on it, its secrets and environment.

Knows no Django. `VAR_DIR/env` holds the addresses and secrets for commands beside a running copy,
`VAR_DIR/pids/` the number of the process of each part.
"""

import fcntl
import os
import secrets
import shutil
import socket
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO
from urllib.parse import urlsplit

from .embedded.server import HOST, write_secret


class Refused(Exception):
    """A copy cannot be started here; the message says why and what to do."""


@dataclass(frozen=True)
class Place:
    """A port of the loopback address and a folder of one's own."""

    port: int
    folder: Path

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Place":
        """From `PORT` (8000) and `VAR_DIR` (var); raises Refused for a port that is none."""
        text = environment.get("PORT") or "8000"
        if not text.isdecimal() or not 0 < int(text) < 65_536:
            raise Refused(f"PORT must be a number from 1 to 65535, and is {text!r}.")
        return cls(int(text), Path(environment.get("VAR_DIR") or "var").resolve())

    @property
    def url(self) -> str:
        """The address that a browser opens, without a slash at the end."""
        return f"http://{HOST}:{self.port}"

    def make(self) -> None:
        """Make the folder, so that another user can pass through it but not look around."""
        if not self.folder.exists():
            self.folder.mkdir(parents=True)
            self.folder.chmod(0o711)

    def take(self) -> TextIO:
        """Make and lock the folder; raises Refused, also for one that this user may not use."""
        try:
            self.make()
            return self.lock()
        except OSError as error:
            raise Refused(
                f"VAR_DIR cannot be {self.folder} ({error.strerror}): choose a folder that you may "
                "write to, e.g. make run VAR_DIR=/tmp/stagedoor"
            ) from None

    def lock(self) -> TextIO:
        """Take the folder for this process, until the file is closed; raises Refused."""
        file = (self.folder / "lock").open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise Refused(
                f"Another copy runs in {self.folder}: stop it, or choose another folder and port, "
                "e.g. make run VAR_DIR=var2 PORT=8001"
            ) from None
        return file

    def runs(self) -> bool:
        """Whether a copy runs here now."""
        try:
            self.lock().close()
        except Refused:
            return True
        except OSError:  # there is no such folder, or none of ours
            return False
        return False

    def forget_processes(self) -> None:
        """Whatever an earlier copy noted: its numbers may be other programs' by now."""
        shutil.rmtree(self.folder / "pids", ignore_errors=True)
        (self.folder / "pids").mkdir()

    def note_process(self, name: str, pid: int | None) -> None:
        """Keep the number of the process of the part `name`; None: it has ended."""
        file = self.folder / "pids" / name
        if pid is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(f"{pid}\n")

    def process(self, name: str) -> int | None:
        """The number of the process of the part `name`, None while it does not run."""
        try:
            return int((self.folder / "pids" / name).read_text())
        except (OSError, ValueError):  # ValueError: it is being written this moment
            return None

    def started_at(self, name: str) -> float | None:
        """When the part `name` was started (Unix time), None while it does not run."""
        try:
            return (self.folder / "pids" / name).stat().st_mtime
        except OSError:
            return None

    def check_port(self) -> None:
        """Raise Refused when somebody else listens on the port."""
        with closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, self.port))
            except OSError as error:
                raise Refused(
                    f"Port {self.port} cannot be used ({error.strerror}): stop what uses it, or "
                    f"choose another, e.g. make run PORT={self.port % 65_535 + 1}"
                ) from None

    def secret(self, name: str, make: Callable[[], str]) -> str:
        """The secret `name` of this copy, made once."""
        folder = self.folder / "secrets"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / name
        if not path.exists():
            write_secret(path, make())
        return path.read_text()

    def environment(self, addresses: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
        """What the parts need to know; the secrets and public address of `given` win over ours."""
        known = {
            "BASE_URL": self.url,
            "SECRET_KEY": self.secret("secret_key", lambda: secrets.token_urlsafe(50)),
            "LINK_KEYS": self.secret("link_keys", lambda: f"1:{secrets.token_hex(32)}"),
        }
        known |= {name: given[name] for name in known if given.get(name)}
        return {**known, **addresses, "PORT": str(self.port), "VAR_DIR": str(self.folder)}

    def write_environment(self, values: Mapping[str, str]) -> None:
        """Keep `values` for the commands beside a running copy, readable by the owner alone."""
        fresh = self.folder / "env.new"
        write_secret(fresh, "".join(f"{name}={value}\n" for name, value in values.items()))
        os.replace(fresh, self.folder / "env")

    def written_environment(self) -> dict[str, str]:
        """What the running copy wrote down for others. Raises OSError where none has."""
        lines = (self.folder / "env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)


def given_addresses(environment: Mapping[str, str]) -> dict[str, str] | None:
    """The servers that the environment names, None when it names none.

    Raises Refused when it names half of them: to guess the other half could write to a stranger's.
    """
    names = [name for name in ("DATABASE_URL", "REDIS_URL") if environment.get(name)]
    if not names:
        return None
    if len(names) == 1:
        raise Refused(f"Only {names[0]} is set. Set both DATABASE_URL and REDIS_URL, or neither.")
    stream = environment["REDIS_URL"]
    return {
        "DATABASE_URL": environment["DATABASE_URL"],
        "REDIS_URL": stream,
        "CACHE_URL": environment.get("CACHE_URL") or _beside(stream),
    }


def _beside(url: str) -> str:
    """Another logical database of the Redis at `url`: 1, or 2 when that is taken."""
    parts = urlsplit(url)
    return parts._replace(path="/2" if parts.path == "/1" else "/1").geturl()
