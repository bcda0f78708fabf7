"""Parts of a running copy: named in each line, started again, ended by one signal each."""

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stagedoor.parts import Part, Pauses, Supervisor
from stagedoor.place import Place, Refused
from tests.processes import wait_for

READY = "import signal, sys, time; "
COUNTS = (
    READY + "n = [0]\n"
    "def on(*_):\n    n[0] += 1; print('signal', n[0], flush=True)\n"
    "signal.signal(signal.SIGTERM, on)\n"
    "print('up', flush=True)\n"
    "while not n[0]: time.sleep(0.01)\n"
    "time.sleep(0.3); print('ends after', n[0], flush=True)\n"
)
STUBBORN = (
    READY + "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); "
    "time.sleep(600)"
)
WITH_CHILD = (
    "import subprocess, sys; c = subprocess.Popen([sys.executable, '-c', 'import time; "
    "time.sleep(600)']); print('child', c.pid, flush=True); c.wait()"
)


class Heard:
    """What the parts said."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.more = asyncio.Event()

    def __call__(self, name: str, line: str) -> None:
        self.lines.append(f"{name}: {line}")
        self.more.set()

    async def until(self, condition: Callable[[list[str]], object]) -> None:
        """Wait until the lines satisfy `condition`."""
        async with asyncio.timeout(30):
            while not condition(self.lines):
                self.more.clear()
                await self.more.wait()


def part(name: str, program: str) -> Part:
    return Part(name=name, command=[sys.executable, "-c", program])


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_part_that_dies_is_started_again_and_a_line_says_so() -> None:
    async def story() -> None:
        heard = Heard()
        supervisor = Supervisor(heard, Pauses(first=0.01, longest=0.02))
        dying = part("web", "print('here', flush=True); raise SystemExit(3)")
        supervisor.keep(dying)
        await heard.until(lambda lines: lines.count("web: here") >= 3)
        assert "web: ended with code 3; started again in 0.01 s" in heard.lines
        await supervisor.stop([dying], time.monotonic() + 5)

    asyncio.run(story())


def test_the_pause_grows_and_is_forgiven_after_a_long_life() -> None:
    pauses = Pauses()
    waits, last = [], 0.0
    for lived in (1, 1, 1, 1, 1, 1, 1, 90):
        last = pauses.after(last, lived)
        waits.append(last)
    assert waits == [1, 2, 4, 8, 16, 30, 30, 1]


def test_each_part_gets_one_signal_and_ends_in_its_own_time() -> None:
    async def story() -> None:
        heard = Heard()
        supervisor = Supervisor(heard)
        parts = [part("relay", COUNTS), part("worker", COUNTS)]
        for one in parts:
            supervisor.keep(one)
        await heard.until(lambda lines: {"relay: up", "worker: up"} <= set(lines))
        await supervisor.stop(parts, time.monotonic() + 10)
        for name in ("relay", "worker"):
            assert f"{name}: ends after 1" in heard.lines
            assert f"{name}: signal 2" not in heard.lines

    asyncio.run(story())


def test_a_part_that_does_not_end_is_killed_at_the_deadline_and_a_line_says_so() -> None:
    async def story() -> None:
        heard = Heard()
        supervisor = Supervisor(heard)
        stubborn = part("worker", STUBBORN)
        supervisor.keep(stubborn)
        await heard.until(lambda lines: "worker: up" in lines)
        began = time.monotonic()
        await supervisor.stop([stubborn], began + 0.3)
        assert time.monotonic() - began < 10
        assert "worker: did not end in time: killed" in heard.lines

    asyncio.run(story())


def test_what_a_part_started_ends_with_it() -> None:
    async def story() -> None:
        heard = Heard()
        supervisor = Supervisor(heard)
        parent = part("web", WITH_CHILD)
        supervisor.keep(parent)
        await heard.until(lambda lines: any("child" in line for line in lines))
        pid = int(heard.lines[-1].split()[-1])
        await supervisor.stop([parent], time.monotonic() + 5)
        await asyncio.to_thread(wait_for, lambda: gone(pid), "the end of the part's child")

    asyncio.run(story())


def test_a_line_that_is_no_text_and_one_without_an_end_are_shown_all_the_same() -> None:
    async def story() -> None:
        heard = Heard()
        program = "import sys; sys.stdout.buffer.write(b'\\xff bad\\nlast'); sys.stdout.flush()"
        assert await Supervisor(heard).once(part("web", program)) == 0
        assert heard.lines == ["web: \ufffd bad", "web: last"]

    asyncio.run(story())


def test_a_port_in_use_is_refused_with_another_to_try(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Refused, match=rf"Port {port} cannot be used.*make run PORT="):
            Place(port, tmp_path).check_port()


@pytest.mark.parametrize("port", ["http", "0", "65536", "-1"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(Refused, match="PORT must be a number"):
        Place.of({"PORT": port})


def test_a_folder_has_one_copy(tmp_path: Path) -> None:
    with Place(8000, tmp_path).lock(), pytest.raises(Refused, match="Another copy runs"):
        Place(8001, tmp_path).lock()


@pytest.mark.parametrize("beneath", [(), ("var",)])
def test_a_folder_that_cannot_be_used_is_refused_with_another_to_try(
    tmp_path: Path, beneath: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    place = Place(8000, (tmp_path / "file").joinpath(*beneath))
    with pytest.raises(Refused, match=rf"VAR_DIR cannot be {place.folder} \(.*make run VAR_DIR="):
        place.take()


def test_secrets_are_made_once_and_are_the_owners_alone(tmp_path: Path) -> None:
    place = Place(8000, tmp_path)
    made = place.secret("SECRET_KEY", lambda: "first")
    assert place.secret("SECRET_KEY", lambda: "second") == made == "first"
    assert (tmp_path / "secrets" / "SECRET_KEY").stat().st_mode & 0o777 == 0o600


def test_signals_are_named_in_words() -> None:
    from stagedoor.parts import ending

    assert ending(-signal.SIGKILL) == "ended by SIGKILL"
    assert ending(3) == "ended with code 3"
