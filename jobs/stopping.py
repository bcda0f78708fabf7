"""Whether a process was asked to stop, and a wait that ends with it; made for signal handlers."""

import contextlib
from queue import Empty, SimpleQueue


class Stop:
    """Asked once, for good."""

    def __init__(self) -> None:
        self.asked = False
        # No threading.Event: a handler runs in the thread of the loop, which may be inside of that
        # event's own lock, and would wait for it for ever. A put may interrupt a get.
        self._wake: SimpleQueue[None] = SimpleQueue()

    def ask(self) -> None:
        """May be called from a signal handler, or another thread, any number of times."""
        self.asked = True
        self._wake.put(None)

    def wait(self, seconds: float) -> None:
        """Wait so long, or until it is asked."""
        if not self.asked:
            with contextlib.suppress(Empty):
                self._wake.get(timeout=seconds)
