"""The worker's look at the database: what nobody waits for any more says nothing."""

import asyncio
import contextlib
import gc
import threading
from typing import Any

from jobs.threads import Threads


def test_a_look_up_that_fails_after_its_caller_was_cancelled_is_no_line_of_log() -> None:
    begun, go_on = threading.Event(), threading.Event()
    complaints: list[dict[str, Any]] = []

    def fail() -> None:
        begun.set()
        go_on.wait(20)
        raise ValueError("too late")

    async def look() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        threads = Threads(0)
        look_up = asyncio.create_task(threads.look_up(fail))
        await asyncio.to_thread(begun.wait, 20)
        look_up.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await look_up
        go_on.set()
        await asyncio.to_thread(threads.close)
        await asyncio.sleep(0)  # the answer has come to the loop
        gc.collect()

    asyncio.run(look())
    assert complaints == []
