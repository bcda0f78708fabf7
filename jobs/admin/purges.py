"""What was forgotten because its time is over: to be read."""

from .to_be_read import ToBeRead


class PurgeAdmin(ToBeRead):
    list_display = ("shelf", "until", "rows", "at")
    list_display_links = None
