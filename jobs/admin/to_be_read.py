"""Rows that staff only reads in Django admin, or changes by buttons of their own."""

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest


class ToBeRead(admin.ModelAdmin[Any]):
    """No form adds, changes or deletes one: jobs write them, and each deed of staff is a
    transaction of its own, with the line of its log."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never: they go when their time is over, if at all."""
        return False
