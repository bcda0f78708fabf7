"""Pages for when something is wrong: plain words, never a stack trace."""

from django.http import HttpRequest, HttpResponse
from django.template import loader


def page(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    """A whole page that says what is wrong and what to do; touches no database."""
    context = {"title": title, "text": text}
    # Rendered without context processors: the session behind them may be what is broken.
    return HttpResponse(loader.get_template("error.html").render(context), status=status)


def busy(request: HttpRequest) -> HttpResponse:
    """503: a server behind the page does not answer, or is too busy for this moment."""
    response = page(
        request, 503, "One moment, please",
        "The box office is very busy. Nothing was lost and nothing was charged: "
        "go back and press the button once more; the same order is never placed twice.",
    )  # fmt: skip
    response.headers["Retry-After"] = "5"
    return response


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403: the form came without the cookie that the page had set."""
    return page(
        request, 403, "Please send the form again",
        "Your browser did not send the cookie that belongs to this form. Allow cookies for this "
        "site, go back, reload the page and try again. Nothing was ordered or changed.",
    )  # fmt: skip


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400."""
    return page(request, 400, "That did not make sense", "Please go back and try again.")


def not_allowed(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403."""
    return page(request, 403, "Not for you", "You may not see this page.")


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404, the same for an unknown code, a wrong secret and a link that was revoked."""
    response = page(
        request, 404, "Nothing here",
        "There is no such page. If you followed the link to your order, open it from the email "
        "once more, or write to us.",
    )  # fmt: skip
    # Its address can be a secret link with one letter missing.
    response.headers["Cache-Control"] = "no-store, private"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["X-Robots-Tag"] = "noindex"
    return response


def server_error(request: HttpRequest) -> HttpResponse:
    """500."""
    return page(
        request, 500, "Something went wrong",
        "It is our fault and we know about it. An order that was confirmed is safe.",
    )  # fmt: skip
