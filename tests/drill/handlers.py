"""What real workers run in drills. Each leaves a row for each time that its effects happen."""

import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from django.db import connection

from jobs.job import Job
from jobs.policy import Policy
from jobs.registry import handler
from jobs.schedule import Schedule, all_, declare

from .work import allocate, segfault, wait

TABLE = "CREATE TABLE IF NOT EXISTS drill_effect (outbox_id bigint, number bigint)"
"""Without a key on purpose: an effect that happens twice must show."""


PATIENT = Policy(timeout=600)
"""For jobs that sleep for several leases, also for those of 60 s."""


@dataclass(frozen=True)
class DrillArgs:
    """Which row, and how many milliseconds before it."""

    number: int
    ms: int


def gate() -> str:
    """The file whose presence ends every wait."""
    return os.environ["DRILL_GATE"]


def leave_row(job: Job[DrillArgs]) -> None:
    """The effects of a drill."""
    with job.effects(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO drill_effect (outbox_id, number) VALUES (%s, %s)",
            [job.outbox_id, job.args.number],
        )


@handler("drill_row", policy=PATIENT)
def write_row(job: Job[DrillArgs]) -> None:
    """State: the row is there."""
    wait(job.args.ms, gate())
    leave_row(job)


@handler("drill_slow", policy=Policy(timeout=1))
def write_row_late(job: Job[DrillArgs]) -> None:
    """State: the row is there; a kind whose runs are overdue after a second."""
    wait(job.args.ms, gate())
    leave_row(job)


@handler("drill_fail", policy=Policy(attempts=2, base=0.1, hold_after=0))
def fail(job: Job[DrillArgs]) -> None:
    """Never comes to its state."""
    raise ValueError(f"drill {job.args.number}")


def call_provider() -> None:
    """Fails while the file `<gate>-up` is not there."""
    if not Path(f"{gate()}-up").exists():
        raise ConnectionRefusedError("the provider is away")


@handler("drill_call", policy=Policy(attempts=50, base=0.05, cap=0.2, timeout=600, hold_after=5))
def write_row_by_call(job: Job[DrillArgs]) -> None:
    """State: the row is there; of a kind that is held while its provider is away."""
    wait(job.args.ms, gate())
    call_provider()
    leave_row(job)


@handler("drill_once", policy=Policy(attempts=1, timeout=600, hold_after=0))
def write_row_at_once(job: Job[DrillArgs]) -> None:
    """State: the row is there; dead at its first failure, while the provider is away."""
    wait(job.args.ms, gate())
    call_provider()
    leave_row(job)


@handler("drill_no_effects", policy=Policy(attempts=2, base=0.1, hold_after=0))
def forget_effects(job: Job[DrillArgs]) -> None:
    """Returns as if all were well."""


@handler("drill_kill")
def kill_worker(job: Job[DrillArgs]) -> None:
    """Takes its worker with it, `ms` later."""
    wait(job.args.ms, gate())
    os.kill(os.getpid(), signal.SIGKILL)


@handler("drill_hang", policy=Policy(timeout=0.5))
def hang(job: Job[DrillArgs]) -> None:
    """Never returns."""
    threading.Event().wait()


@handler("drill_spin", policy=PATIENT)
def spin(job: Job[DrillArgs]) -> None:
    """State: the row is there, after so many milliseconds of nothing but the interpreter."""
    deadline = time.monotonic() + job.args.ms / 1000
    while time.monotonic() < deadline:
        pass
    leave_row(job)


@handler("drill_forbidden")
def overstep(job: Job[DrillArgs]) -> None:
    """Asks for what its database role may not have."""
    with job.effects(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL ROLE pg_monitor")
        cursor.execute("TABLE drill_effect")


@handler("drill_segfault")
def crash_process(job: Job[DrillArgs]) -> None:
    """Takes its render process with it."""
    job.compute(segfault)
    leave_row(job)


@handler("drill_allocate", policy=Policy(attempts=2, base=0.1, timeout=30, hold_after=0))
def exhaust_memory(job: Job[DrillArgs]) -> None:
    """Wants more memory than there is."""
    job.compute(allocate)
    leave_row(job)


@handler("drill_compute", policy=PATIENT)
def compute(job: Job[DrillArgs]) -> None:
    """State: the row is there, after work in a render process."""
    job.compute(wait, job.args.ms, gate())
    leave_row(job)


declare(
    Schedule(
        name="drill", words="Leaves a row each minute",
        cron="* * * * *", kind="drill_row", args={"number": 1, "ms": 0}, catch_up=all_(100),
    )
)  # fmt: skip


if os.environ.get("DRILL_BUILD") != "yesterday":

    @handler("drill_tomorrow", policy=PATIENT)
    def write_row_of_a_new_kind(job: Job[DrillArgs]) -> None:
        """State: the row is there; of a kind that the build before did not have."""
        wait(job.args.ms, gate())
        leave_row(job)
