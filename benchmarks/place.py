"""Where a run happens: private, durable servers, and the product's processes on them."""

import contextlib
import http.client
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stagedoor import children
from stagedoor.embedded import PostgresServer, RedisServer, free_port

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 60.0
"""Seconds that a process of the product has to become ready, and to end."""


class NotReady(Exception):
    """A process of the product did not start, or something did not happen in time."""


@dataclass(frozen=True)
class Place:
    """A temporary folder with a running PostgreSQL (fsync on) and a Redis."""

    folder: Path
    postgres: PostgresServer
    redis: RedisServer

    def environment(self) -> dict[str, str]:
        """What the settings read, with secrets of this run."""
        return {
            "DJANGO_SETTINGS_MODULE": "benchmarks.settings",
            "DATABASE_URL": self.postgres.url("stagedoor"),
            "REDIS_URL": self.redis.url(0),
            "CACHE_URL": self.redis.url(1),
            "VAR_DIR": str(self.folder / "var"),
            "SECRET_KEY": secrets.token_urlsafe(50),
            "LINK_KEYS": f"1:{secrets.token_hex(32)}",
        }

    @contextlib.contextmanager
    def web(self) -> Iterator[int]:
        """gunicorn as it is deployed; gives its port once a page is served."""
        port, metrics = free_port(), self.folder / "metrics"
        metrics.mkdir(exist_ok=True)
        also = {"PORT": str(port), "PROMETHEUS_MULTIPROC_DIR": str(metrics)}
        configuration = str(ROOT / "deploy" / "gunicorn.conf.py")
        words = ("-m", "gunicorn", "--config", configuration, "stagedoor.wsgi")
        with self._process("web", *words, also=also):
            wait_until(lambda: _serves(port), "web")
            yield port

    @contextlib.contextmanager
    def command(self, *words: str, also: dict[str, str] | None = None) -> Iterator[int]:
        """A management command in a process of its own, ended by SIGTERM; gives its id."""
        with self._process(words[0], str(ROOT / "manage.py"), *words, also=also) as process:
            yield process

    @contextlib.contextmanager
    def module(self, name: str, *words: str) -> Iterator[int]:
        """The same of one of the benchmarks' own modules."""
        with self._process(name, "-m", f"benchmarks.{name}", *words) as process:
            yield process

    @contextlib.contextmanager
    def _process(self, name: str, *words: str, also: dict[str, str] | None = None) -> Iterator[int]:
        command = children.guarded([sys.executable, *words], signal.SIGTERM)
        log = self.folder / f"{name}.log"
        with log.open("ab") as output:
            child = children.start(command, output, {**os.environ, **(also or {})})
        try:
            yield child.pid
            if child.poll() is not None:
                raise NotReady(f"{name} ended with code {child.returncode}")
        except NotReady as late:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
            raise NotReady(f"{late}\n{name} said:\n{tail}") from None
        finally:
            children.stop(child, signal.SIGTERM, PATIENCE)


@contextlib.contextmanager
def private_place() -> Iterator[Place]:
    """Start the servers in a new folder; both are gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="stagedoor-bench-"))
    folder.chmod(0o711)  # PostgreSQL's user has to pass
    place = Place(folder, PostgresServer(folder / "postgres"), RedisServer(folder / "redis"))
    try:
        place.postgres.start()
        place.postgres.create_database_if_missing("stagedoor")
        place.redis.start()
        yield place
    finally:
        place.redis.kill()
        place.postgres.kill()
        shutil.rmtree(folder, ignore_errors=True)


def wait_until(happened: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Return once `happened()`; raises NotReady after `seconds`."""
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            raise NotReady(f"{what}: nothing after {seconds:g} s")
        time.sleep(0.05)


def _serves(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    return False
