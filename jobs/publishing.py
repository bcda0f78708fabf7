"""What a relay does in one go: a step (T2), a rebuild (T8), a reconcile."""

import logging
import time

from django.conf import settings
from django.db import transaction

from . import epoch, holds, metrics, outbox, rows
from .errors import Discreet
from .failpoint import failpoint
from .outbox import DueRow, NotEnqueuable
from .registry import Lane
from .stream import RelayStream, StreamAway

logger = logging.getLogger(__name__)
LOOK_AT_ONCE = 200
"""Entries looked up in one script: about 1 ms, in which the server serves nobody else."""
REBUILD_AGAIN = 1.0
"""Seconds between two rebuilds of one relay, at least."""


class EpochLost(Discreet):
    """The stream's server is not the one that was written to, or has lost its memory."""


def step(stream: RelayStream, batch: int, by: str = "relay") -> int:
    """T2: publish up to `batch` due rows and return how many left the list of the due.

    Appends before it marks: a crash in between publishes twice, which is harmless; the other way
    round a row would be lost. Raises StreamAway or a database error, with nothing marked.
    """
    try:
        return _publish(stream, batch, by)
    except EpochLost as lost:
        if time.monotonic() - stream.rebuilt_at < REBUILD_AGAIN:
            # Two relays on two servers (a rolling change of REDIS_URL) would take turns for ever.
            raise StreamAway(f"{lost}, a moment after the last time") from lost
        rebuild(stream)
        return _publish(stream, batch, by)


def _publish(stream: RelayStream, batch: int, by: str) -> int:
    with transaction.atomic(durable=True):
        known = epoch.shared()
        found = _found(batch)
        # Not after the XADD alone: its entries would stay on the stream beside the rebuild's.
        if not found or not known or stream.seen_epoch != known:
            _compare(known, stream.epoch())
        carried = _encoded(found, by)
        if carried:
            appended = stream.append([fields for _, fields in carried])
            failpoint("relay.appended", found[0].kind)
            _compare(known, appended.epoch)
            ids = appended.entry_ids
            outbox.mark_relayed({row.id: e for (row, _), e in zip(carried, ids, strict=True)})
    if carried:
        metrics.JOBS_RELAYED.inc(len(ids))
        for (row, _), entry_id in zip(carried, ids, strict=True):
            _log(row, entry_id)
    return len(found)


def _found(batch: int) -> list[DueRow]:
    # Workers put back what a relay published beside a hold: a hold that is a moment old is no harm.
    held = holds.in_force()
    kinds = [hold.kind for hold in held]
    found = outbox.lock_due(batch, kinds)
    for kind in holds.probing(held) if batch else ():
        found += outbox.lock_probe(kind)
    # Last, and only with room left: bulk never delays a ticket.
    if len(found) < batch and outbox.bulk_is_due(kinds):
        room = min(outbox.bulk_room(kinds), batch - len(found))
        found += outbox.lock_due(room, kinds, Lane.BULK)
    return found


def _compare(known: str, told: str) -> None:
    if not known or known != told:
        raise EpochLost("the stream's server does not know the epoch: all is published again")


def _encoded(found: list[DueRow], by: str) -> list[tuple[DueRow, dict[str, str]]]:
    carried: list[tuple[DueRow, dict[str, str]]] = []
    for row in found:
        try:
            carried.append((row, row.fields()))
        except NotEnqueuable as error:
            reason = f"cannot be published: {error}"
            outbox.mark_unpublishable(row.id, reason, by)
            logger.error("buried: %s", reason, extra={"action": "buried", "outbox_id": row.id})
            metrics.JOBS_BURIED.inc()
    return carried


def _log(row: DueRow, entry_id: str) -> None:
    logger.info(
        "relayed %s", row.kind,
        extra={
            "action": "relayed", "kind": row.kind, "outbox_id": row.id, "entry_id": entry_id,
            "request_id": row.request_id, "trace": row.trace,
        },
    )  # fmt: skip


def rebuild(stream: RelayStream, *, by_hand: bool = False) -> int:
    """T8: make every live relayed row due again; returns how many.

    0, and nothing changed, where another relay has done so meanwhile, unless `by_hand`. A crash in
    between leaves the two epochs different: it is done again.
    """
    with transaction.atomic(durable=True):
        known = epoch.locked()
        if not by_hand and known and stream.epoch() == known:
            return 0
        # First: a server that takes no writes must not cost an update of every row at each try.
        stream.ensure_group()
        stream.probe()
        number = outbox.make_all_due()
        failpoint("relay.made_due")
        stream.write_epoch(epoch.renew())
        failpoint("relay.wrote_epoch")
    stream.rebuilt_at = time.monotonic()
    metrics.REBUILDS.inc()
    if known:
        why = "by hand" if by_hand else "the stream's server did not know the epoch"
        logger.warning(
            "rebuilt, %s: %d rows are published again", why, number, extra={"action": "rebuild"}
        )
    else:
        logger.info("the first epoch is written", extra={"action": "rebuild"})
    return number


def reconcile(stream: RelayStream) -> int:
    """Make due again what the stream lost entry by entry; returns how many rows.

    Rows are read before the stream is asked, and changed only if they are still as they were.
    """
    entry_ids = outbox.relayed_before(settings.JOBS["RECONCILE_AFTER"])
    number = 0
    for start in range(0, len(entry_ids), LOOK_AT_ONCE):
        if lost := stream.lost_among(entry_ids[start : start + LOOK_AT_ONCE]):
            failpoint("relay.found_lost")
            number += rows.make_due_again(lost)
    if number:
        metrics.ROWS_RECONCILED.inc(number)
        logger.warning(
            "the stream lost %d entries: due again", number, extra={"action": "reconcile"}
        )
    return number
