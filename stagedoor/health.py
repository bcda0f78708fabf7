"""`/healthz` and `/readyz`: whether to send buyers here, and what else is not well."""

import logging
from functools import cache

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from jobs.processes import alive
from jobs.stream import RelayStream, StreamAway, StreamRefused

logger = logging.getLogger(__name__)
FONTS = settings.BASE_DIR / "tickets" / "fonts"
FONT_FILES = ("fonts.conf", "NotoSans-Regular.ttf", "NotoSans-Bold.ttf", "NotoMono-Regular.ttf")


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:
    """503 only without the database or its tables: orders can be taken without all the rest."""
    blocking = _blocking()
    degraded = [] if blocking else _degraded()
    return JsonResponse(
        {"ready": not blocking, "blocking": blocking, "degraded": degraded},
        status=503 if blocking else 200,
    )


def _blocking() -> list[str]:
    try:
        connection.ensure_connection()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return [] if _migrated() else ["migrations: run `manage.py migrate`"]
    except DatabaseError as error:
        logger.warning("not ready: %s", type(error).__name__)
        return ["database: does not answer"]


_known_migrated = False


def _migrated() -> bool:
    # Remembered once true: tables do not go away under a running process.
    global _known_migrated
    if not _known_migrated:
        executor = MigrationExecutor(connection)
        _known_migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
    return _known_migrated


def _degraded() -> list[str]:
    parts = {
        "redis: the stream's server does not answer": _redis_answers(),
        "worker: none was seen in the last half minute": alive("worker") > 0,
        "relay: none was seen in the last half minute": alive("relay") > 0,
        "scheduler: none was seen in the last half minute": alive("scheduler") > 0,
        "fonts: files of tickets/fonts are missing": all(
            (FONTS / name).is_file() for name in FONT_FILES
        ),
    }
    return [what for what, well in parts.items() if not well]


@cache
def _stream() -> RelayStream:
    return RelayStream(settings.REDIS_URL)


def _redis_answers() -> bool:
    try:
        _stream().ping()
    except (StreamAway, StreamRefused):
        return False
    return True
