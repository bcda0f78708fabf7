"""Which due times of which schedule fired, and which did not."""

from django.db import models
from django.db.models.functions import Now


class ScheduledRun(models.Model):
    """A due slot: one due time of a schedule, with the job it became; or several that did not fire.

    The unique constraint is what lets a due time fire once. `outbox_id` is null where none fired;
    then the row stands for `count` due times from `due_at` to `last_due_at`. `seconds_late`: from
    the (last) due time to when it was decided. `result`: see `due_slots.Result`; of a run by hand
    `due_at` is when the page was made that asked for it.
    """

    name = models.CharField(max_length=100)
    due_at = models.DateTimeField()
    last_due_at = models.DateTimeField()
    count = models.PositiveIntegerField(db_default=1)
    result = models.CharField(max_length=20)
    seconds_late = models.FloatField()
    decided_at = models.DateTimeField(db_default=Now())
    outbox_id = models.BigIntegerField(null=True)
    by = models.CharField(max_length=200)

    class Meta:
        db_table = "jobs_scheduled_run"
        verbose_name = "schedule"
        verbose_name_plural = "schedules"
        default_permissions = ("view",)
        permissions = [
            ("run_schedule", "Can have a schedule's job run now"),
            ("pause_schedule", "Can pause and resume schedules"),
        ]
        constraints = [
            models.UniqueConstraint("name", "due_at", name="jobs_scheduled_run_slot"),
        ]
        indexes = [
            models.Index(
                "outbox_id",
                condition=models.Q(outbox_id__isnull=False),
                name="jobs_scheduled_run_job",
            ),
            models.Index("due_at", name="jobs_scheduled_run_due"),
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.due_at:%Y-%m-%d %H:%M:%S} UTC"


class ScheduleCursor(models.Model):
    """Up to when a schedule's due times are decided.

    A row for each expression and zone that a name has: while two builds with different ones run
    beside each other, neither takes the other's due times away.
    """

    name = models.CharField(max_length=100)
    cron = models.CharField(max_length=200)
    tz = models.CharField(max_length=100)
    decided_until = models.DateTimeField()

    class Meta:
        db_table = "jobs_schedule_cursor"
        default_permissions = ()
        constraints = [
            models.UniqueConstraint("name", "cron", "tz", name="jobs_schedule_cursor_schedule"),
        ]

    def __str__(self) -> str:
        return f"{self.name} until {self.decided_until}"


class ScheduleTotal(models.Model):
    """How many due times of a schedule ever had this result: never less, whatever is purged.

    Written with their slots, in one transaction.
    """

    name = models.CharField(max_length=100)
    result = models.CharField(max_length=20)
    count = models.BigIntegerField()

    class Meta:
        db_table = "jobs_schedule_total"
        default_permissions = ()
        constraints = [
            models.UniqueConstraint("name", "result", name="jobs_schedule_total_result"),
        ]

    def __str__(self) -> str:
        return f"{self.count} of {self.name} {self.result}"


class SchedulePause(models.Model):
    """A time in which a person had a schedule paused: its due times do not fire. Null: still."""

    name = models.CharField(max_length=100)
    since = models.DateTimeField(db_default=Now())
    until = models.DateTimeField(null=True)
    reason = models.TextField()
    by = models.CharField(max_length=200)
    resumed_by = models.CharField(max_length=200, db_default="", blank=True)

    class Meta:
        db_table = "jobs_schedule_pause"
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                "name", condition=models.Q(until__isnull=True), name="jobs_schedule_pause_open"
            ),
        ]

    def __str__(self) -> str:
        return f"pause of {self.name}"
