"""`/metrics` and `/healthz` of a long-running process, on a port of its own."""

import socket
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

READ_TIMEOUT = 10.0
"""Seconds that a client has to send its request: the thread would wait for ever."""


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

    def __init__(
        self, host: str, port: int, registry: CollectorRegistry, trouble: Callable[[], str]
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)
        self.registry = registry
        self.trouble = trouble


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = READ_TIMEOUT

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

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a scrape every few seconds is no news."""
