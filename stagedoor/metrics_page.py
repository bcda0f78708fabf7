"""`/metrics` of the web processes, for a Prometheus on the same machine."""

from django.http import Http404, HttpRequest, HttpResponse
from django_prometheus.exports import ExportToDjangoView

LOOPBACK = ("127.0.0.1", "::1")


def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' text format; 404 for whoever does not ask directly from this machine."""
    forwarded = "X-Forwarded-For" in request.headers or "Forwarded" in request.headers
    if forwarded or request.META.get("REMOTE_ADDR") not in LOOPBACK:
        raise Http404
    response: HttpResponse = ExportToDjangoView(request)
    return response
