"""What a process tells the service manager (systemd's sd_notify): ready, at work, stopping.

Knows no Django. Without `NOTIFY_SOCKET` in the environment it says nothing.
"""

import contextlib
import socket
import time
from collections.abc import MutableMapping

SAY_AGAIN = 5.0
"""Seconds between two words about the turns of a loop, where the manager watches less closely."""
START_LIMIT = 120.0
"""Seconds that a start may still take after each turn of its own: a name or a server is waited for.
Above the longest turn, a look-up in a database that hangs (`threads.LOOK_UP_LIMIT`)."""


class Notifier:
    """Tells the manager at `address` (a path, or `@name` for an abstract socket); "": nobody.

    `watchdog`: seconds without a word after which the manager takes the loop for frozen; 0: never.
    """

    def __init__(self, address: str = "", watchdog: float = 0.0) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._every = min(watchdog / 4, SAY_AGAIN) if watchdog else SAY_AGAIN
        self._said_at = float("-inf")
        self._is_ready = False

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> "Notifier":
        """As the manager says; taken out, so that a child does not speak in this one's name."""
        address = environment.pop("NOTIFY_SOCKET", "")
        return cls(address, int(environment.pop("WATCHDOG_USEC", "0")) / 1e6)

    @property
    def due(self) -> bool:
        """Whether somebody listens, and has not heard of a turn for a while."""
        return bool(self._address) and time.monotonic() - self._said_at >= self._every

    def turned(self, status: str) -> None:
        """A loop turned; to be called by the loop itself, where it is `due`.

        Before `ready()` the start goes on; after it the watchdog is fed.
        """
        self._said_at = time.monotonic()
        sign = "WATCHDOG=1" if self._is_ready else f"EXTEND_TIMEOUT_USEC={START_LIMIT * 1e6:.0f}"
        self._say(sign, f"STATUS={status}")

    def ready(self, status: str) -> None:
        """All that it needs answers. Again: nothing."""
        if not self._is_ready:
            self._is_ready = True
            self._say("READY=1", f"STATUS={status}")

    def stopping(self, status: str) -> None:
        """It ends by itself or because it was asked to."""
        self._say("STOPPING=1", f"STATUS={status}")

    def _say(self, *lines: str) -> None:
        if not self._address:
            return
        # A manager that is away or behind must not stop a job: it is told again soon.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
            door.setblocking(False)
            door.sendto("\n".join(lines).encode(errors="replace"), self._address)
