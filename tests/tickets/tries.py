"""Running an email's job once more, now, and what became of it."""

from django.utils import timezone

from jobs.models import OutboxRow
from jobs.testing import drain


def try_now() -> OutboxRow | None:
    """Run the email's job, published anew; its row, None once it is done."""
    OutboxRow.objects.filter(dead_at=None).update(
        available_at=timezone.now(), relayed_at=None, entry_id=None
    )
    drain()
    return OutboxRow.objects.first()


def live_row() -> OutboxRow:
    """Run it: it is not done, and not dead."""
    row = try_now()
    assert row is not None
    assert row.dead_at is None, row.dead_reason
    return row


def dead_row() -> OutboxRow:
    """Run it, if it is not dead already: it is dead now."""
    row = try_now()
    assert row is not None
    assert row.dead_at is not None
    return row
