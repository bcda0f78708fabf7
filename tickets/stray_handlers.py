"""The job that deletes files which no row names."""

from dataclasses import dataclass

from jobs import purging
from jobs.job import Job
from jobs.outbox import enqueue
from jobs.registry import Lane, handler
from jobs.schedule import ONCE, Schedule, declare

from . import stray_files
from .announcing import FAN_OUT


@dataclass(frozen=True)
class FolderArgs:
    """The first folder that is looked at, of 256."""

    folder: int


@handler("delete_stray_files", policy=FAN_OUT, lane=Lane.BULK)
def delete_stray_files(job: Job[FolderArgs]) -> None:
    """State: from that folder on no file is older than a day and named by no row, or what is left
    has a job."""
    left = purging.in_steps(stray_files.clear, job.args.folder)
    with job.effects():
        if left is not None:
            enqueue("delete_stray_files", folder=left)


declare(
    Schedule(
        name="stray_files",
        words="Deletes PDFs that no order has: their render was cut, or too late",
        cron="45 4 * * 0", kind="delete_stray_files", args={"folder": 0},
        catch_up=ONCE, grace=3600,
    )
)  # fmt: skip
