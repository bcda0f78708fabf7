"""Every series that the way of a job exports."""

import functools

from prometheus_client import Counter, Gauge, Histogram

JOBS_RELAYED = Counter("stagedoor_jobs_relayed", "Entries added to the stream.")
JOBS_FINISHED = Counter("stagedoor_jobs_finished", "Runs by their result.", ["kind", "result"])
HANDLER_SECONDS = Histogram(
    "stagedoor_handler_seconds",
    "Time from the start of a handler to its outcome.",
    ["kind"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)
SLOTS = Gauge("stagedoor_slots", "Jobs that this worker runs at once, at most.")
SLOTS_BUSY = Gauge("stagedoor_slots_busy", "Jobs that this worker runs.")
ENTRIES_REFUSED = Counter("stagedoor_entries_refused", "Entries that are not a job.", ["reason"])
POOL_REBUILT = Counter("stagedoor_pool_rebuilt", "Pool processes replaced.", ["reason"])
ENTRIES_DELIVERED = Counter(
    "stagedoor_entries_delivered", "Entries that this worker was the first to be given."
)
JOBS_BURIED = Counter("stagedoor_jobs_buried", "Jobs and entries that became dead.")
ENTRIES_REDELIVERED = Counter(
    "stagedoor_entries_redelivered", "Entries that were given to a worker before."
)
LEASES_LOST = Counter("stagedoor_leases_lost", "Jobs in work that another worker took over.")
LOOP_LAG = Gauge("stagedoor_loop_lag_seconds", "How late the loop is, or last was, for its turn.")
RELAY_HOLDS = Gauge("stagedoor_relay_holds", "Whether this relay holds: too many rows are out.")
REBUILDS = Counter("stagedoor_rebuilds", "Times that all relayed rows were published again.")
ROWS_RECONCILED = Counter("stagedoor_rows_reconciled", "Rows whose entry the stream had lost.")

BREAKER_TRIPS = Counter(
    "stagedoor_breaker_trips", "Times that this worker held a kind whose jobs failed.", ["kind"]
)
BUSY_WITH_JOBS = (
    JOBS_FINISHED, HANDLER_SECONDS, SLOTS, SLOTS_BUSY, ENTRIES_REFUSED, POOL_REBUILT,
    ENTRIES_DELIVERED, ENTRIES_REDELIVERED, LEASES_LOST, BREAKER_TRIPS,
)  # fmt: skip
RELAYING = (JOBS_RELAYED, RELAY_HOLDS, REBUILDS, ROWS_RECONCILED)
NOT_OF = {
    "worker": RELAYING,
    "relay": BUSY_WITH_JOBS,
    "scheduler": (*RELAYING, *BUSY_WITH_JOBS, JOBS_BURIED),
    "web": (*RELAYING, *BUSY_WITH_JOBS, JOBS_BURIED, LOOP_LAG),
}
"""What a process of the role does not do: there it would be a 0 that says nothing."""

# The look-up of a label costs as much as all else that a job's series do.
_finished = functools.lru_cache(JOBS_FINISHED.labels)
_seconds = functools.lru_cache(HANDLER_SECONDS.labels)


def note_finished(kind: str, result: str, seconds: float) -> None:
    """One run of a job of `kind` ended so, after so many seconds."""
    _finished(kind, result).inc()
    _seconds(kind).observe(seconds)
