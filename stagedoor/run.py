"""`make run`: the whole product on this machine, its servers included. Knows no Django."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from .children import FolderClosed, guarded
from .embedded import PostgresServer, RedisServer, Server, ServerFailed
from .embedded.server import HOST
from .parts import Part, Printer, Supervisor, ending
from .place import Place, Refused, given_addresses

ROOT = Path(__file__).resolve().parent.parent
WORKERS = 2
WORKER_GRACE = 10
# Seconds after the signal at which what still runs is killed; 15 is promised for all.
PARTS_END, SERVERS_END = 11.5, 14.0
SERVER_START, PATIENCE = 60.0, 60.0
DOUBLE_SIGNAL = 0.5


class Run:
    """One running copy, from its servers to its last process."""

    def __init__(self, place: Place, given: Mapping[str, str]) -> None:
        self.place = place
        self.given = given
        self.servers: list[Part] = []
        self.parts: list[Part] = []
        self.asked = asyncio.Event()
        self.asked_at = 0.0
        self.killed = False
        self.print = Printer(self.asked.set)
        place.forget_processes()
        self.supervisor = Supervisor(self.print, note=place.note_process)

    async def go(self) -> int:
        """Bring everything up, wait for a signal, take everything down; returns the exit code.

        Raises Refused or ServerFailed, after everything is down, when it cannot be brought up.
        """
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number)
        rise = asyncio.create_task(self._bring_up())
        asked = asyncio.create_task(self.asked.wait())
        await asyncio.wait({rise, asked}, return_when=asyncio.FIRST_COMPLETED)
        try:
            if not asked.done():
                await rise
                await asked
        finally:
            rise.cancel()
            await self._take_down()
        return 130 if self.killed else 0

    def _on_signal(self, number: signal.Signals) -> None:
        now = time.monotonic()
        # A terminal and the program that started us may both pass on one Ctrl-C.
        if self.asked.is_set() and number == signal.SIGINT and now - self.asked_at > DOUBLE_SIGNAL:
            self.killed = True
            self.supervisor.kill()
        elif not self.asked.is_set():
            self.asked_at = now
            self.print.plain("Stopping; press Ctrl-C again to kill")
            self.asked.set()

    async def _take_down(self) -> None:
        began = time.monotonic()
        await self.supervisor.stop(self.parts, began + PARTS_END)
        await self.supervisor.stop(self.servers, began + SERVERS_END)

    async def _bring_up(self) -> None:
        addresses = given_addresses(self.given)
        own = addresses is None
        values = self.place.environment(addresses or await self._start_servers(), self.given)
        self.place.write_environment(values)
        settings = self.given.get("DJANGO_SETTINGS_MODULE") or "stagedoor.settings.development"
        also = {"DJANGO_SETTINGS_MODULE": settings, "PYTHONUNBUFFERED": "1"}
        environment = {**self.given, **values, **also}
        await self._once(self._command("migrate", "migrate", "--no-input", env=environment))
        if own:
            await self._once(self._command("demo", "demo", env=environment))
        self._start_parts(environment)
        await self._await_page()
        self.print.plain(f"Stagedoor is ready at {self.place.url}/")

    async def _start_servers(self) -> dict[str, str]:
        postgres = PostgresServer(self.place.folder / "postgres")
        redis = RedisServer(self.place.folder / "redis")
        for server in (postgres, redis):
            server.initialise()
            self._keep_server(server)
        for server in (postgres, redis):
            await self._await_server(server)
        postgres.create_database_if_missing("stagedoor")
        return {
            "DATABASE_URL": postgres.url("stagedoor"),
            "REDIS_URL": redis.url(0),
            "CACHE_URL": redis.url(1),
        }

    def _keep_server(self, server: Server) -> None:
        stop_signal = server.stop_signal
        part = Part(name=server.name, command=server.command(), stop_signal=stop_signal)
        self.servers.append(part)
        self.supervisor.keep(part)

    async def _await_server(self, server: Server) -> None:
        deadline = time.monotonic() + SERVER_START
        while not await asyncio.to_thread(server.answers):
            if time.monotonic() > deadline:
                raise Refused(f"{server.name} does not answer; its lines above say why.")
            await asyncio.sleep(0.05)

    def _command(self, name: str, *words: str, env: Mapping[str, str]) -> Part:
        return self._part(name, str(ROOT / "manage.py"), *words, env=env)

    def _part(self, name: str, *words: str, env: Mapping[str, str]) -> Part:
        command = guarded([sys.executable, *words], signal.SIGTERM)
        part = Part(name=name, command=tuple(command), environment=env, folder=ROOT)
        self.parts.append(part)
        return part

    async def _once(self, part: Part) -> None:
        code = await self.supervisor.once(part)
        if code and not self.asked.is_set():
            raise Refused(f"{part.name} {ending(code)}; its lines above say why.")

    def _start_parts(self, environment: Mapping[str, str]) -> None:
        (self.place.folder / "static").mkdir(exist_ok=True)  # its absence is warned of
        (self.place.folder / "mail").mkdir(exist_ok=True)  # for its switches
        configuration = str(ROOT / "deploy" / "gunicorn.conf.py")
        words = ("-m", "gunicorn", "--config", configuration, "stagedoor.wsgi")
        self.supervisor.keep(self._part("web", *words, env=environment))
        self.supervisor.keep(self._command("relay", "relay", env=environment))
        self.supervisor.keep(self._command("schedule", "schedule", env=environment))
        for number in range(1, WORKERS + 1):
            name = f"{socket.gethostname()}-{number}"
            grace = ("--grace", str(WORKER_GRACE))
            words = ("runworker", "--name", name, *grace)
            self.supervisor.keep(self._command(f"worker-{number}", *words, env=environment))

    async def _await_page(self) -> None:
        told = time.monotonic()
        while (answer := await first_line(self.place.port, "/healthz")) != 200:
            if time.monotonic() - told > PATIENCE:
                told = time.monotonic()
                self.print.plain(f"Still waiting for {self.place.url}/healthz: {answer}")
            await asyncio.sleep(0.1)


async def first_line(port: int, path: str) -> int | str:
    """The status of a page of the loopback address, or in words why there is none."""
    try:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection(HOST, port)
            try:
                writer.write(f"GET {path} HTTP/1.0\r\nHost: {HOST}:{port}\r\n\r\n".encode())
                line = (await reader.readline()).split()
            finally:
                writer.close()
    except (OSError, TimeoutError) as error:
        return str(error) or type(error).__name__
    return int(line[1]) if len(line) > 1 and line[1].isdigit() else "no answer"


def main() -> int:
    """Run a copy in this environment's `VAR_DIR` and `PORT`; returns the exit code."""
    environment = dict(os.environ)
    try:
        place = Place.of(environment)
        with place.take():
            place.check_port()
            return asyncio.run(run(place, environment))
    except (Refused, ServerFailed, FolderClosed, LookupError) as refusal:
        print(f"Stagedoor did not start. {refusal}", file=sys.stderr)
        return 1


async def run(place: Place, environment: Mapping[str, str]) -> int:
    """Run one copy until it is told to stop; see `Run.go`."""
    return await Run(place, environment).go()


if __name__ == "__main__":
    sys.exit(main())
