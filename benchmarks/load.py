"""An open-loop client: requests go out on a fixed schedule, however slow the answers are."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .timing import HEADER


@dataclass(frozen=True, slots=True)
class Form:
    """A filled-in order form as a browser sends it."""

    body: bytes
    cookie: str

    def request(self, path: str) -> bytes:
        """The whole request, over a connection of its own."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
            f"Content-Type: application/x-www-form-urlencoded\r\n"
            f"Content-Length: {len(self.body)}\r\nCookie: {self.cookie}\r\n\r\n"
        )
        return head.encode() + self.body


@dataclass(frozen=True, slots=True)
class Answer:
    """Times in ms. `wall` counts from the moment for which the request was planned."""

    status: int
    handler: float
    wall: float


def post_all(port: int, path: str, forms: Sequence[Form], rate: float) -> list[Answer]:
    """Post the forms, `rate` a second, and return the answers in order."""
    return asyncio.run(_post_all(port, path, forms, rate))


async def _post_all(port: int, path: str, forms: Sequence[Form], rate: float) -> list[Answer]:
    start = time.perf_counter() + 0.1
    tasks = []
    for number, form in enumerate(forms):
        due = start + number / rate
        await asyncio.sleep(due - time.perf_counter())
        tasks.append(asyncio.create_task(_post(port, form.request(path), due)))
    return await asyncio.gather(*tasks)


async def _post(port: int, request: bytes, due: float) -> Answer:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    head = (await reader.read()).partition(b"\r\n\r\n")[0].decode("latin-1")
    wall = (time.perf_counter() - due) * 1000
    writer.close()
    status, *lines = head.split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Answer(int(status.split()[1]), int(headers.get(HEADER.lower(), 0)) / 1000, wall)
