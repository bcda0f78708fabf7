"""The two places a job can be in, and who is at work. Reading is on the managers."""

from datetime import timedelta

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

RELAY_INDEX = models.Q(relayed_at__isnull=True, dead_at__isnull=True)


class Lane(models.TextChoices):
    """What a job may delay: nothing delays tickets."""

    TICKETS = "tickets"
    BULK = "bulk"


class OutboxQuerySet(models.QuerySet["OutboxRow"]):
    def about(self, subject: str) -> "OutboxQuerySet":
        """Jobs about `subject` (e.g. `order:4471`)."""
        return self.filter(subject=subject)

    def live(self) -> "OutboxQuerySet":
        """Not done and not dead."""
        return self.filter(dead_at__isnull=True)

    def dead(self) -> "OutboxQuerySet":
        """Given up, and nobody has discarded them."""
        return self.filter(dead_at__isnull=False, discarded_at__isnull=True)


class OutboxRow(models.Model):
    """A job that is not done. Live until `dead_at` is set (design §3)."""

    kind = models.CharField(max_length=100)
    args = models.JSONField()
    subject = models.CharField(max_length=100, blank=True, default="")
    lane = models.CharField(max_length=10, choices=Lane, default=Lane.TICKETS)
    scheduled_for = models.DateTimeField(null=True)
    request_id = models.CharField(max_length=64, blank=True, default="")
    trace = models.CharField(max_length=64, blank=True, default="")
    created_at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(db_default=Now())
    available_at = models.DateTimeField(db_default=Now())
    relayed_at = models.DateTimeField(null=True)
    entry_id = models.CharField(max_length=42, null=True)  # noqa: DJ001 (null: no publication)
    attempts = models.PositiveIntegerField(db_default=0)
    starts = models.PositiveIntegerField(db_default=0)
    unknown_since = models.DateTimeField(null=True)
    last_error = models.TextField(blank=True, default="")
    dead_at = models.DateTimeField(null=True)
    dead_reason = models.TextField(blank=True, default="")
    traceback = models.TextField(blank=True, default="")
    dead_by = models.CharField(max_length=200, blank=True, default="")
    discarded_at = models.DateTimeField(null=True)

    objects = OutboxQuerySet.as_manager()

    class Meta:
        db_table = "jobs_outbox"
        indexes = [
            models.Index("available_at", "id", condition=RELAY_INDEX, name="jobs_outbox_due"),
            models.Index(
                "due_at", condition=models.Q(dead_at__isnull=True), name="jobs_outbox_age"
            ),
            models.Index("subject", name="jobs_outbox_subject"),
        ]

    def __str__(self) -> str:
        return f"outbox row {self.pk}: {self.kind}"


class ProcessedJob(models.Model):
    """A job that is done, written in the commit of its effects.

    `duration_ms` counts from the start of the handler to the start of its effects.
    """

    outbox_id = models.BigIntegerField(primary_key=True)
    kind = models.CharField(max_length=100)
    args = models.JSONField()
    subject = models.CharField(max_length=100)
    request_id = models.CharField(max_length=64)
    trace = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    due_at = models.DateTimeField()
    processed_at = models.DateTimeField()
    attempts = models.PositiveIntegerField()
    worker = models.CharField(max_length=200)
    duration_ms = models.PositiveIntegerField()
    result = models.CharField(max_length=20)

    class Meta:
        db_table = "jobs_processed"
        indexes = [models.Index("subject", name="jobs_processed_subject")]

    def __str__(self) -> str:
        return f"processed row {self.outbox_id}: {self.kind}"


class QueueEpoch(models.Model):
    """One row: the value that the stream's server must know too, or it has lost its memory."""

    value = models.CharField(max_length=64)

    class Meta:
        db_table = "jobs_epoch"

    def __str__(self) -> str:
        return f"epoch {self.value}"


class RefusedEntry(models.Model):
    """An entry that no outbox row stands behind; `raw` is name, value, name, value …"""

    entry_id = models.CharField(max_length=42, unique=True)
    raw = ArrayField(models.BinaryField())
    reason = models.TextField()
    refused_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "jobs_refused_entry"
        verbose_name_plural = "refused entries"

    def __str__(self) -> str:
        return f"refused entry {self.entry_id}: {self.reason}"


class ProcessQuerySet(models.QuerySet["Process"]):
    def alive(self, within: timedelta) -> "ProcessQuerySet":
        """Processes seen within that time, by the database's clock."""
        return self.filter(seen_at__gt=Now() - within)


class Process(models.Model):
    """A worker or relay, as it last described itself (every 10 s)."""

    role = models.CharField(max_length=20)
    name = models.CharField(max_length=200)
    host = models.CharField(max_length=200)
    build = models.CharField(max_length=100)
    seen_at = models.DateTimeField()
    status = models.CharField(max_length=200)

    objects = ProcessQuerySet.as_manager()

    class Meta:
        db_table = "jobs_process"
        constraints = [models.UniqueConstraint("role", "name", name="jobs_process_name")]

    def __str__(self) -> str:
        return f"{self.role} {self.name}"
