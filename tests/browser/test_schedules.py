"""The pages of schedules in a real browser: paused, resumed, run by hand, and kept as history."""

from datetime import timedelta

from django.utils import timezone

from jobs import processes
from jobs.models import OutboxRow, Process
from jobs.schedule import declared
from jobs.scheduler import step

from .conftest import LogIn
from .people import employee

WHY = "Why is it to be paused?"
MAY = ("view_scheduledrun", "run_schedule", "pause_schedule", "view_deadjob")


def test_a_schedule_is_paused_resumed_and_run_by_hand(log_in: LogIn) -> None:
    processes.say_alive("scheduler", "one", "schedules")
    # It stays at work for as long as the test takes.
    Process.objects.update(seen_at=timezone.now() + timedelta(hours=1))
    step(declared(), "one")
    duty = log_in(employee(*(f"jobs.{name}" for name in MAY), name="duty"))
    duty.follow("Schedules")
    duty.follow("reminders")
    duty.fill(f"{WHY} What is due then does not fire, until somebody resumes it.", "a closed house")
    duty.press("Pause")
    duty.sees("by duty: a closed house", "Paused: what is due from now on does not fire.")
    duty.press("Resume")
    duty.sees("Goes on from now.", "It fires.", "duty")
    duty.follow("Run now…")
    duty.sees("Reminds ticket holders on the day before their event", "One more job of the kind")
    # By keys alone: the button comes first.
    duty.tab_to('button "Run now"')
    duty.key("Enter")
    duty.sees("Its job is due", "by hand")
    row = OutboxRow.objects.get(kind="begin_reminders")
    duty.follow(f"outbox row {row.pk}")
    duty.sees("run by hand", "schedule reminders")
