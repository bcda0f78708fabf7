"""What was forgotten because its time is over: to be read."""

from django.contrib import admin
from django.http import HttpRequest

from jobs.models import Purge


class PurgeAdmin(admin.ModelAdmin[Purge]):
    list_display = ("shelf", "until", "rows", "at")
    list_display_links = None

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never: the job writes these rows."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Purge | None = None) -> bool:
        """Never: the audit goes by them."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Purge | None = None) -> bool:
        """Never: the audit goes by them."""
        return False
