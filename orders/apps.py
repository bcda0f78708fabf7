"""Selling as a Django app; makes the box office's group once its permissions exist."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class OrdersConfig(AppConfig):
    name = "orders"
    verbose_name = "Selling"

    def ready(self) -> None:
        post_migrate.connect(_make_box_office, sender=self)


def _make_box_office(**options: Any) -> None:
    from .box_office import make_group

    make_group()
