"""`/metrics` of the web processes together, for who may read it."""

import os
import secrets
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from jobs.exposition import page_of
from jobs.gauges import QueueCollector

LOOPBACK = ("127.0.0.1", "::1")
OF_PROXIES = (
    "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Real-IP", "Forwarded", "Via",
)  # fmt: skip
"""Any of them is enough: one that a proxy forgets must not open the page to the world."""
PATH = "/metrics"
QUEUE = QueueCollector()
"""The one of this process; it connects at the first scrape."""
type View = Callable[[HttpRequest], HttpResponse]


class MetricsMiddleware:
    """Answers before anything looks at the host's name or asks for TLS.

    A Prometheus asks an address of this machine, not the shop's name, and behind no proxy.
    """

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return metrics(request) if request.path == PATH else self.get_response(request)


def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' format; 404 for whoever may not read it: the page is not there for buyers."""
    if not (_asks_directly(request) or _has_token(request)):
        return HttpResponseNotFound()
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(_registry()), content_type=content_type)


def _asks_directly(request: HttpRequest) -> bool:
    forwarded = any(name in request.headers for name in OF_PROXIES)
    return not forwarded and request.META.get("REMOTE_ADDR") in LOOPBACK


def _has_token(request: HttpRequest) -> bool:
    told = request.headers.get("Authorization", "").encode()
    wanted = f"Bearer {settings.METRICS_TOKEN}".encode()
    return bool(settings.METRICS_TOKEN) and secrets.compare_digest(told, wanted)


def _registry() -> CollectorRegistry:
    # gunicorn's processes add up in files; one process alone has its own series.
    together = "PROMETHEUS_MULTIPROC_DIR" in os.environ
    source: Collector = _all_processes() if together else REGISTRY
    return page_of("web", source, QUEUE)


def _all_processes() -> Collector:
    return MultiProcessCollector(CollectorRegistry())  # type: ignore[no-untyped-call]
