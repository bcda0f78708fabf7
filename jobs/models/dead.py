"""What staff look after: dead jobs, entries that no row stands behind, replays of many at once."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from jobs.subjects import About


class RefusedEntry(models.Model):
    """An entry that no outbox row stands behind; `raw` is name, value, name, value …

    `settled_at`: when somebody (`settled_by`) discarded it or made a job of it, `outbox_id`.
    """

    entry_id = models.CharField(max_length=42, unique=True)
    raw = ArrayField(models.BinaryField())
    kind = models.CharField(max_length=100, db_default="", blank=True)
    reason = models.TextField()
    worker = models.CharField(max_length=200, db_default="", blank=True)
    deliveries = models.PositiveIntegerField(db_default=0)
    letter_id = models.CharField(max_length=42, db_default="", blank=True)
    refused_at = models.DateTimeField(db_default=Now())
    settled_at = models.DateTimeField(null=True)
    settled_by = models.CharField(max_length=200, db_default="", blank=True)
    settled_reason = models.TextField(db_default="", blank=True)
    outbox_id = models.BigIntegerField(null=True)

    class Meta:
        db_table = "jobs_refused_entry"
        verbose_name_plural = "refused entries"

    def __str__(self) -> str:
        return f"refused entry {self.entry_id}: {self.reason}"


class DeadJob(models.Model):
    """What is on `jobs:dead`: a database view of dead outbox rows and refused entries.

    The key is the outbox id, or minus the id of the refused entry. `error_class` and `same_error`
    (numbers left out) are what the list is filtered and grouped by.
    """

    id = models.BigIntegerField(primary_key=True)
    kind = models.CharField(max_length=100)
    subject = models.CharField(max_length=100)
    request_id = models.CharField(max_length=64)
    attempts = models.PositiveIntegerField()
    deliveries = models.PositiveIntegerField()
    due_at = models.DateTimeField()
    dead_at = models.DateTimeField("when")
    reason = models.TextField()
    error = models.TextField()
    error_class = models.CharField(max_length=200)
    same_error = models.CharField(max_length=200)
    worker = models.CharField(max_length=200)

    about: About | None = None
    """What the list shows of its subject, where the list has looked it up."""

    class Meta:
        managed = False
        db_table = "jobs_dead_job"
        verbose_name = "dead job"
        default_permissions = ("view",)
        permissions = [("replay", "Can replay dead jobs"), ("discard", "Can discard dead jobs")]

    def __str__(self) -> str:
        if self.pk < 0:
            return f"refused entry {-self.pk}"
        return f"{self.kind}, outbox row {self.pk}"


class ReplayBatch(models.Model):
    """Many dead jobs that one person replayed at once; which ones, their events say."""

    at = models.DateTimeField(db_default=Now())
    by = models.CharField(max_length=200)
    request_id = models.CharField(max_length=64)
    number = models.PositiveIntegerField()
    last_due_at = models.DateTimeField()

    class Meta:
        db_table = "jobs_replay_batch"
        verbose_name_plural = "replay batches"
        default_permissions = ()

    def __str__(self) -> str:
        return f"replay of {self.number} by {self.by}"
