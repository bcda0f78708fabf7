"""Times as staff reads them: on the clock of UTC or of an event, and how long ago.

Pure: now is handed in.
"""

from datetime import UTC, datetime, timedelta

from django.utils import timezone

from orders.models import Event

STEPS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def clock(moment: datetime, now: datetime | None = None) -> str:
    """`20:03 UTC` of today, `5 Dec 20:03 UTC` of another day of this year, else with the year."""
    now, moment = now or timezone.now(), moment.astimezone(UTC)
    if moment.date() == now.date():
        return f"{moment:%H:%M} UTC"
    year = "" if moment.year == now.year else f" {moment.year}"
    return f"{moment.day} {moment:%b}{year} {moment:%H:%M} UTC"


def moment(at: datetime, event: Event) -> str:
    """`4 Dec 2026 19:42 (Europe/Berlin)`, on the event's own clock."""
    local = at.astimezone(event.zone)
    return f"{local.day} {local:%b %Y %H:%M} ({event.tz})"


def length(seconds: float) -> str:
    """`3 h`, `24 h`, `5 min`, `40 s`: the largest whole unit; days from three on."""
    for step, unit in STEPS:
        if seconds >= step * (3 if unit == "d" else 1):
            return f"{int(seconds // step)} {unit}"
    return f"{max(0, int(seconds))} s"


def ago(moment: datetime, now: datetime | None = None) -> str:
    """`3 h ago`."""
    since: timedelta = (now or timezone.now()) - moment
    return f"{length(since.total_seconds())} ago"
