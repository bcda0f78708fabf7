"""The tables of the way of a job."""

from .dead import DeadJob, RefusedEntry, ReplayBatch
from .processes import Process
from .purges import Purge
from .queue import ArgsDecoder, KeptTally, OutboxRow, ProcessedJob, QueueEpoch
from .samples import Sample
from .schedules import ScheduleCursor, ScheduledRun, SchedulePause, ScheduleTotal
from .story import JobEvent, KindHold, What

__all__ = [
    "ArgsDecoder",
    "DeadJob",
    "JobEvent",
    "KeptTally",
    "KindHold",
    "OutboxRow",
    "Process",
    "ProcessedJob",
    "Purge",
    "QueueEpoch",
    "RefusedEntry",
    "ReplayBatch",
    "Sample",
    "ScheduleCursor",
    "SchedulePause",
    "ScheduleTotal",
    "ScheduledRun",
    "What",
]
