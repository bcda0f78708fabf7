"""A TCP proxy whose faults are switched by a test: silent, slow, cut."""

import contextlib
import socket
import threading
import time

from stagedoor.embedded import free_port


class Proxy:
    """Passes connections on to `target` (host, port); use as a context manager.

    `silent`: nothing passes any more, and no connection ends: half-open, as after a lost route.
    `delay`: seconds added to each piece that goes to the server.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.port = free_port()
        self.silent = threading.Event()
        self.delay = 0.0
        self._block_silently = False
        self.cut_blocking_reads = False
        """Whether a connection that sends BLOCK is ended."""
        self._target = target
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut()

    def url(self, of_server: str) -> str:
        """The server's own address, led through the proxy."""
        return of_server.replace(f":{self._target[1]}/", f":{self.port}/")

    def cut(self) -> None:
        """End every connection."""
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._sockets.clear()

    def silence_blocking_reads(self) -> None:
        """From now on no connection that sends BLOCK gets an answer; all others do."""
        self._block_silently = True

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._target)
                except OSError:
                    client.close()
                    continue
                self._sockets += [client, server]
                for ends in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, to_server: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                if to_server and self._block_silently and b"\r\nBLOCK\r\n" in piece:
                    continue
                if to_server and self.cut_blocking_reads and b"\r\nBLOCK\r\n" in piece:
                    break
                if to_server and self.delay:
                    time.sleep(self.delay)
                while self.silent.is_set():
                    time.sleep(0.05)
                sink.sendall(piece)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
