"""Django's PostgreSQL backend, counted by django-prometheus, for connections out of a pool.

The package's own backend wraps the cursor of a connection each time it leaves the pool: after some
hundred requests the wrappers around one connection are deeper than Python's stack.
"""

from typing import Any

from django.db.backends.postgresql import base
from django_prometheus.db.common import DatabaseWrapperMixin, ExportingCursorWrapper


class DatabaseWrapper(DatabaseWrapperMixin, base.DatabaseWrapper):  # type: ignore[misc]
    """One counting cursor class, named when the pool is made."""

    def get_connection_params(self) -> dict[str, Any]:
        """Django's, with the counting cursor."""
        params: dict[str, Any] = super().get_connection_params()
        params["cursor_factory"] = ExportingCursorWrapper(
            params["cursor_factory"], self.alias, self.vendor
        )
        return params

    def create_cursor(self, name: str | None = None) -> Any:
        """Django's: the factory above makes the cursor."""
        return base.DatabaseWrapper.create_cursor(self, name=name)
