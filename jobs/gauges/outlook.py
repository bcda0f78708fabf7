"""When all that is due will be done, as a gauge: from the arithmetic that the pages have, too."""

from collections.abc import Iterator

from jobs.prediction import outlook

from .declared import Reading, gauge


@gauge(
    "stagedoor_drain_predicted_timestamp_seconds",
    "When all that is due now will be done, with the workers that there are; +Inf: never.",
)
def drained_at() -> Iterator[Reading]:
    """One value, by PostgreSQL's clock."""
    at = outlook().drained_at()
    yield (), float("inf") if at is None else at.timestamp()
