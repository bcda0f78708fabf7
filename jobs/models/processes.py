"""Who is at work."""

from datetime import timedelta

from django.db import models
from django.db.models.functions import Now


class ProcessQuerySet(models.QuerySet["Process"]):
    def alive(self, within: timedelta) -> "ProcessQuerySet":
        """Processes seen within that time, by the database's clock."""
        return self.filter(seen_at__gt=Now() - within)


class Process(models.Model):
    """A worker or relay, as it last described itself (every 10 s).

    `slots`: jobs at once, of a worker that reads; `busy`: how many of its slots run one.
    """

    role = models.CharField(max_length=20)
    name = models.CharField(max_length=200)
    host = models.CharField(max_length=200)
    build = models.CharField(max_length=100)
    seen_at = models.DateTimeField()
    status = models.CharField(max_length=200)
    slots = models.PositiveSmallIntegerField(db_default=0)
    busy = models.PositiveSmallIntegerField(db_default=0)

    objects = ProcessQuerySet.as_manager()

    class Meta:
        db_table = "jobs_process"
        constraints = [models.UniqueConstraint("role", "name", name="jobs_process_name")]

    def __str__(self) -> str:
        return f"{self.role} {self.name}"
