"""One thread with a kept connection to PostgreSQL, for looks that many ask for at once."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future

from django.db import close_old_connections, connection


class LookThread[T]:
    """Calls `look` for whoever asks; those that ask while it runs get its answer, too.

    So scrapes neither pile up nor take a connection each. The thread begins with the first one: a
    server that forks its processes must not have it before.
    """

    def __init__(self, look: Callable[[], T]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._running: Future[T] | None = None
        self._asked: queue.SimpleQueue[Future[T] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def ask(self, seconds: float) -> T:
        """The answer. Raises what `look` raises, TimeoutError after `seconds`."""
        # A stopped server keeps the connection open and enforces no timeout of its own.
        return self._begun().result(seconds)

    def _begun(self) -> Future[T]:
        with self._lock:
            if self._running is None or self._running.done():
                self._running = Future()
                self._asked.put(self._running)
            if self._thread is None:
                # A daemon: the interpreter must not wait for a server that never answers.
                self._thread = threading.Thread(target=self._serve, name="look", daemon=True)
                self._thread.start()
            return self._running

    def _serve(self) -> None:
        while (future := self._asked.get()) is not None:
            try:
                close_old_connections()
                future.set_result(self._look())
            except BaseException as error:
                future.set_exception(error)
        connection.close()

    def close(self) -> None:
        """End the thread, and its connection, once it has answered."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._asked.put(None)
            thread.join()
