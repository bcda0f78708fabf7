"""Around every request: its ids, its line in the log, and an honest answer during an outage."""

import logging
import time
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.encoding import iri_to_uri
from django_prometheus.middleware import PrometheusAfterMiddleware

from jobs.correlation import accept_request_id, accept_trace, correlated
from jobs.outage import is_outage, told

from .errors import busy
from .logs import without_secrets

logger = logging.getLogger("stagedoor.access")
type View = Callable[[HttpRequest], HttpResponse]
QUIET_PATHS = ("/healthz", "/readyz", "/metrics", "/static/")


class RequestContextMiddleware:
    """Gives each request an id and a trace, sends the id back, logs one line without secrets."""

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request_id = accept_request_id(request.headers.get("X-Request-ID", ""))
        trace = accept_trace(request.headers.get("traceparent", ""))
        started = time.monotonic()
        with correlated(request_id, trace):
            response = self.get_response(request)
            response.headers["X-Request-ID"] = request_id
            self._log(request, response.status_code, time.monotonic() - started)
        return response

    @staticmethod
    def _log(request: HttpRequest, status: int, seconds: float) -> None:
        # Percent-encoded: a line end in an address must not begin a line of the log.
        path = without_secrets(iri_to_uri(request.path.replace("%", "%25")))
        level = logging.DEBUG if path.startswith(QUIET_PATHS) else logging.INFO
        fields = {"action": "request", "method": request.method, "path": path, "status": status}
        logger.log(
            level, "%s %s %d", request.method, path, status,
            extra={**fields, "seconds": round(seconds, 4)},
        )  # fmt: skip


class AnswerOutagesMiddleware:
    """Turns a database that does not answer, or a lock not had, into a page that says so."""

    def __init__(self, get_response: View) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """503 for an outage; None leaves other errors to Django's 500 page."""
        if not is_outage(error):
            return None
        logger.warning("outage in %s: %s", request.method, told(error))
        return busy(request)


class CountRequestsMiddleware(PrometheusAfterMiddleware):  # type: ignore[misc]
    """django-prometheus' own, where any method that a stranger makes up is one and the same."""

    def label_metric(
        self, metric: Any, request: HttpRequest, response: HttpResponse | None = None, **labels: str
    ) -> Any:
        # It counts requests so, and times them by whatever was sent: 17 series for each word.
        if "method" in labels:
            labels["method"] = self._method(request)
        return super().label_metric(metric, request, response, **labels)
