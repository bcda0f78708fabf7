"""Times a request on the server, around all other middleware."""

import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from .bare import place

HEADER = "X-Handler-Microseconds"
ALONE = "/bench/alone/"
"""Answered here by the bare view, without any other middleware: the strictest comparison."""


class TimingMiddleware:
    """The outermost middleware: sends along how many microseconds everything inside took."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter_ns()
        answer = place if request.path_info == ALONE else self.get_response
        response = answer(request)
        response.headers[HEADER] = str((time.perf_counter_ns() - started) // 1000)
        return response
