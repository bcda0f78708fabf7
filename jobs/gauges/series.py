"""Names, labels and words of the queue's gauges."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Series:
    """One family: of counters where its name ends in `_total`, else of gauges."""

    name: str
    says: str
    labels: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether its values only ever rise."""
        return self.name.endswith("_total")


PROBE_SUCCESS = Series(
    "stagedoor_probe_success",
    "Whether this server answered the look at the queue; where not, its series are missing.",
    ("server",),
)
CLOCK = Series(
    "stagedoor_clock_timestamp_seconds", "The server's clock at the look: ages are to it.",
    ("server",),
)  # fmt: skip
OLDEST_JOB = Series(
    "stagedoor_oldest_job_timestamp_seconds",
    "When the oldest job of the lane became due, of those neither parked nor held by a person; "
    "the clock where there is none. Of bulk: of those that wait for their turn.",
    ("lane",),
)
OLDEST_OF = Series(
    "stagedoor_oldest_by_reason_timestamp_seconds",
    "Since when the oldest of those that wait for this reason waits; the clock where none does.",
    ("reason", "server"),
)
OUTBOX_ROWS = Series(
    "stagedoor_outbox_rows", "Jobs that are not done; each is in one state.", ("kind", "state")
)
UNACCOUNTED_ROWS = Series(
    "stagedoor_unaccounted_rows",
    "Rows that are relayed and whose entry is nowhere, of the 200 oldest ones.",
)
REFUSED_ENTRIES = Series(
    "stagedoor_refused_entries", "Entries without an outbox row that nobody has settled."
)
KIND_HELD = Series(
    "stagedoor_kind_held",
    "Kinds that are kept back (1), or of which one job at a time is tried (0.5).",
    ("kind", "by"),
)
DRAIN_PREDICTED = Series(
    "stagedoor_drain_predicted_timestamp_seconds",
    "When all that is due now will be done, with the workers that there are; +Inf: never.",
)
PROCESSES_UP = Series(
    "stagedoor_processes_up", "Processes seen within three heartbeats.", ("role",)
)
STREAM_ENTRIES = Series("stagedoor_stream_entries", "Entries on the stream, done ones included.")
PENDING_ENTRIES = Series(
    "stagedoor_pending_entries", "Entries that workers have and have not acknowledged."
)
DEAD_LETTERS = Series("stagedoor_dead_letters", "Letters on jobs:dead.")
QUEUE_SERIES = (
    PROBE_SUCCESS, CLOCK, OLDEST_JOB, OLDEST_OF, OUTBOX_ROWS, UNACCOUNTED_ROWS, REFUSED_ENTRIES,
    KIND_HELD, DRAIN_PREDICTED, PROCESSES_UP, STREAM_ENTRIES, PENDING_ENTRIES, DEAD_LETTERS,
)  # fmt: skip
