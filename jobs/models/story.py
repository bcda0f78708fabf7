"""What became of jobs that did not go the plain way, and which kinds are held."""

from django.db import models
from django.db.models.functions import Now


class What(models.TextChoices):
    """What can happen to a job beside being enqueued, relayed and done."""

    STARTED_AGAIN = "started again"
    FAILED = "failed"
    LATER = "tried later"
    BURIED = "buried"
    REPLAYED = "replayed"
    CORRECTED = "corrected"
    DISCARDED = "discarded"
    RUN_BY_HAND = "run by hand"


class JobEvent(models.Model):
    """One line of a job's story, append-only; the plain way writes none.

    `by`: the worker or the person. `note`: the error, the reason, or what the arguments were.
    """

    outbox_id = models.BigIntegerField(db_index=True)
    at = models.DateTimeField(db_default=Now())
    what = models.CharField(max_length=20, choices=What)
    by = models.CharField(max_length=200)
    note = models.TextField(db_default="", blank=True)
    request_id = models.CharField(max_length=64, db_default="", blank=True)
    batch = models.ForeignKey(
        "ReplayBatch", models.PROTECT, null=True, related_name="events", db_index=False
    )

    class Meta:
        db_table = "jobs_event"
        default_permissions = ()
        indexes = [
            models.Index("batch", condition=models.Q(batch__isnull=False), name="jobs_event_batch"),
        ]

    def __str__(self) -> str:
        return f"job {self.outbox_id} {self.what}"


class KindHold(models.Model):
    """A kind whose jobs wait in the outbox until `until`; set by the breaker or by a person.

    A breaker's hold that is over lets one job through at a time, until one succeeds. `level`: how
    often it was set again since, each time for twice as long.
    """

    BREAKER = "the breaker"
    """No person can be called so: user names have no space, operators a host."""

    kind = models.CharField(max_length=100, unique=True)
    since = models.DateTimeField(db_default=Now())
    until = models.DateTimeField()
    reason = models.TextField()
    by = models.CharField(max_length=200)
    level = models.PositiveIntegerField(db_default=0)

    class Meta:
        db_table = "jobs_kind_hold"
        verbose_name = "kind of jobs"
        verbose_name_plural = "kinds of jobs"
        default_permissions = ("view", "change")

    def __str__(self) -> str:
        return f"hold of {self.kind}"
