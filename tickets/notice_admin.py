"""What staff was told, and what the checks of the stock have found: to be read."""

from django.contrib import admin

from jobs.admin.to_be_read import ToBeRead

from .models import Notice, StockCheck


@admin.register(Notice)
class NoticeAdmin(ToBeRead):
    list_display = ("day", "kind", "subject", "made_at", "sent")
    list_filter = ("kind",)
    fields = ("day", "kind", "subject", "text", "made_at", "sent")
    readonly_fields = ("sent",)

    @admin.display(description="sent to")
    def sent(self, notice: Notice) -> str:
        """How many of its emails were accepted."""
        emails = list(notice.deliveries.values_list("settled_at", flat=True))
        return f"{sum(at is not None for at in emails)} of {len(emails)}"


@admin.register(StockCheck)
class StockCheckAdmin(ToBeRead):
    list_display = ("at", "result")
    fields = ("at", "result", "where")
    readonly_fields = ("result", "where")

    @admin.display(description="found")
    def result(self, check: StockCheck) -> str:
        """In a few words."""
        if not check.found:
            return "places, sold admissions and tickets agree"
        return f"{check.places} places and {check.tickets} tickets differ"

    @admin.display(description="where")
    def where(self, check: StockCheck) -> str:
        """Each ticket type whose counts differ, with them."""
        return "\n".join(one["words"] for one in check.found) or "nowhere"
