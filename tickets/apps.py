"""What was bought, as a Django app."""

from django.apps import AppConfig


class TicketsConfig(AppConfig):
    name = "tickets"
    verbose_name = "Tickets"

    def ready(self) -> None:
        from .batch_subjects import register_batches
        from .subjects import register_orders

        register_orders()
        register_batches()
