"""The two places a job can be in, and the queue's epoch. Reading is on the managers."""

import json

from django.db import models
from django.db.models.functions import Now

RELAY_INDEX = models.Q(relayed_at__isnull=True, dead_at__isnull=True)
DIGITS_LIMIT = 40
DEAD = models.Q(dead_at__isnull=False, discarded_at__isnull=True)


class ArgsDecoder(json.JSONDecoder):
    """Reads what anybody may have written into a row: a number too long for int() stays text."""

    def __init__(self) -> None:
        super().__init__(parse_int=_number)


def _number(digits: str) -> int | str:
    # Python refuses to read more than 4,300 digits, and one such row would fail its whole page.
    return int(digits) if len(digits) <= DIGITS_LIMIT else digits


class OutboxQuerySet(models.QuerySet["OutboxRow"]):
    def about(self, subject: str) -> "OutboxQuerySet":
        """Jobs about `subject` (e.g. `order:4471`)."""
        return self.filter(subject=subject)

    def live(self) -> "OutboxQuerySet":
        """Not done and not dead."""
        return self.filter(dead_at__isnull=True)

    def dead(self) -> "OutboxQuerySet":
        """Given up, and nobody has discarded them."""
        return self.filter(DEAD)


class OutboxRow(models.Model):
    """A job that is not done. Live until `dead_at` is set (design §3).

    `deliveries`: how often its last entry was given to a worker, as Redis counted when it died, 0
    where it did not say. `letter_id`: its letter on `jobs:dead`.
    """

    kind = models.CharField(max_length=100)
    args = models.JSONField(decoder=ArgsDecoder)
    subject = models.CharField(max_length=100, blank=True, default="")
    lane = models.CharField(max_length=10, default="tickets")
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
    deliveries = models.PositiveIntegerField(db_default=0)
    letter_id = models.CharField(max_length=42, db_default="", blank=True)
    discarded_at = models.DateTimeField(null=True)

    objects = OutboxQuerySet.as_manager()

    class Meta:
        db_table = "jobs_outbox"
        indexes = [
            models.Index(
                "lane", "available_at", "id", condition=RELAY_INDEX, name="jobs_outbox_lane"
            ),
            models.Index(
                "due_at", condition=models.Q(dead_at__isnull=True), name="jobs_outbox_age"
            ),
            models.Index("subject", name="jobs_outbox_subject"),
            models.Index(fields=["-dead_at"], condition=DEAD, name="jobs_outbox_dead"),
            models.Index(
                "id", condition=models.Q(discarded_at__isnull=False), name="jobs_outbox_discarded"
            ),
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
    scheduled_for = models.DateTimeField(null=True)
    processed_at = models.DateTimeField()
    attempts = models.PositiveIntegerField()
    worker = models.CharField(max_length=200)
    duration_ms = models.PositiveIntegerField()
    result = models.CharField(max_length=20)

    class Meta:
        db_table = "jobs_processed"
        indexes = [
            models.Index("subject", name="jobs_processed_subject"),
            models.Index("processed_at", name="jobs_processed_at"),
        ]

    def __str__(self) -> str:
        return f"processed row {self.outbox_id}: {self.kind}"


class QueueEpoch(models.Model):
    """One row: the value that the stream's server must know too, or it has lost its memory."""

    value = models.CharField(max_length=64)

    class Meta:
        db_table = "jobs_epoch"

    def __str__(self) -> str:
        return f"epoch {self.value}"


class KeptTally(models.Model):
    """One row: the newest count of many outbox rows, which a relay made `at` (`tally`)."""

    at = models.DateTimeField()
    rows = models.JSONField()

    class Meta:
        db_table = "jobs_tally"
        default_permissions = ()

    def __str__(self) -> str:
        return f"count of {self.at:%Y-%m-%d %H:%M:%S}"
