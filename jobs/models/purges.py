"""What was taken away because its time is over."""

from django.db import models
from django.db.models.functions import Now


class Purge(models.Model):
    """How far one shelf was cleared: of what is older than `until` nothing need be there.

    Written in the transaction of each batch: the audit goes by it, whatever the settings say now.
    `rows`: all that it ever took away, or made unreadable.
    """

    shelf = models.CharField(max_length=40, unique=True)
    until = models.DateTimeField("of what is older than")
    rows = models.BigIntegerField(default=0)
    at = models.DateTimeField("last", db_default=Now())

    class Meta:
        db_table = "jobs_purge"
        ordering = ("shelf",)
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.shelf} until {self.until:%Y-%m-%d}"
