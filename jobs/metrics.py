"""Every series that the way of a job exports."""

from prometheus_client import Counter, Gauge, Histogram

JOBS_RELAYED = Counter("stagedoor_jobs_relayed", "Entries added to the stream.")
JOBS_FINISHED = Counter("stagedoor_jobs_finished", "Runs by their result.", ["kind", "result"])
HANDLER_SECONDS = Histogram(
    "stagedoor_handler_seconds",
    "Time from the start of a handler to its outcome.",
    ["kind"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)
SLOTS_BUSY = Gauge("stagedoor_slots_busy", "Jobs that this worker runs.")
ENTRIES_REFUSED = Counter("stagedoor_entries_refused", "Entries that are not a job.", ["reason"])
POOL_REBUILT = Counter("stagedoor_pool_rebuilt", "Pool processes replaced.", ["reason"])
JOBS_BURIED = Counter("stagedoor_jobs_buried", "Jobs and entries that became dead.")
ENTRIES_REDELIVERED = Counter(
    "stagedoor_entries_redelivered", "Entries that were given to a worker before."
)
LEASES_LOST = Counter("stagedoor_leases_lost", "Jobs in work that another worker took over.")
LOOP_LAG = Gauge("stagedoor_loop_lag_seconds", "How late the worker's loop came to its last turn.")
