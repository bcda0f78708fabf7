"""What the queue was like, a row for each minute of the last days."""

from django.db import models


class Sample(models.Model):
    """The queue at the beginning of a minute.

    `ages`: seconds by reason, null where there was nothing, or where Redis did not answer
    (`redis`). `depth`: jobs that were not done, by kind and state. `finished`: by kind, how many
    jobs were done in the minute before, and their mean seconds; `done`: all of them.
    """

    minute = models.DateTimeField(primary_key=True)
    ages = models.JSONField()
    depth = models.JSONField()
    finished = models.JSONField()
    done = models.PositiveIntegerField(db_default=0)
    redis = models.BooleanField()
    workers = models.PositiveSmallIntegerField()
    slots = models.PositiveIntegerField()
    busy = models.PositiveIntegerField()
    relays = models.PositiveSmallIntegerField()
    schedulers = models.PositiveSmallIntegerField()

    class Meta:
        db_table = "jobs_sample"
        default_permissions = ("view",)
        verbose_name = "queue"
        verbose_name_plural = "queue"

    def __str__(self) -> str:
        return f"the queue at {self.minute:%Y-%m-%d %H:%M}"
