"""`/metrics` and `/healthz` of a long-running process, on a port of its own."""

import contextlib
import logging
import socket
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, disable_created_metrics
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from .gauges import QueueCollector
from .metrics import NOT_OF

logger = logging.getLogger(__name__)
READ_TIMEOUT = 10.0
"""Seconds that a client has to send its request, be it byte by byte, and to take the answer."""
CLIENTS = 128
"""Whom a thread serves at the same time, at most; whoever comes then is turned away."""


class Selected(Collector):
    """What `source` collects, without the families of `left_out`."""

    def __init__(self, source: Collector, left_out: frozenset[str]) -> None:
        self._source = source
        self._left_out = left_out

    def collect(self) -> Iterator[Metric]:
        """The other families."""
        return (one for one in self._source.collect() if one.name not in self._left_out)


def page_of(role: str, source: Collector, queue: QueueCollector) -> CollectorRegistry:
    """What a process of `role` shows: its own series out of `source`, then those of the queue."""
    names = [family.name for series in NOT_OF[role] for family in series.describe()]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Selected(source, frozenset(names)))
    registry.register(queue)
    return registry


def serve(role: str, host: str, port: int, trouble: Callable[[], str]) -> None:
    """Serve from threads of their own. `trouble` says why this process is ill, empty where not.

    Raises OSError where the port is taken.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]
    server = _Server(host, port, page_of(role, REGISTRY, QueueCollector()), trouble)
    Thread(target=server.serve_forever, name="metrics", daemon=True).start()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = CLIENTS

    def __init__(
        self, host: str, port: int, registry: CollectorRegistry, trouble: Callable[[], str]
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)
        self.registry = registry
        self.trouble = trouble
        self._clients: dict[Any, float] = {}

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._clients) >= CLIENTS:
            self.shutdown_request(request)
            return
        self._clients[request] = time.monotonic() + READ_TIMEOUT
        super().process_request(request, client_address)

    def heard(self, request: Any) -> None:
        """The client has said all that it wants: the time that the answer takes is not its own."""
        self._clients[request] = float("inf")

    def service_actions(self) -> None:
        # Every half second. The time-out of a socket begins anew with each byte that comes.
        for request, until in tuple(self._clients.items()):
            if time.monotonic() > until:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        self._clients.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Else the standard library prints stacks between the lines of the log.
        if not isinstance(error := sys.exception(), OSError):
            logger.error("a scrape failed", exc_info=error, extra={"action": "probe"})


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = READ_TIMEOUT

    def parse_request(self) -> bool:
        parsed = super().parse_request()
        self.server.heard(self.connection)
        return parsed

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            self._answer(200, content_type, encode(self.server.registry))
        elif path == "/healthz":
            trouble = self.server.trouble()
            self._answer(503 if trouble else 200, "text/plain", f"{trouble or 'ok'}\n".encode())
        else:
            self._answer(404, "text/plain", b"/metrics or /healthz\n")

    do_HEAD = do_GET

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a scrape every few seconds is no news."""
