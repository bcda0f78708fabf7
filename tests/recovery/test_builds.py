"""Two builds side by side, as in every deploy: the newer one knows one kind more."""

from jobs.models import OutboxRow
from tests.processes import wait_for
from tests.recovery.conftest import Drill

YESTERDAY = {"DRILL_BUILD": "yesterday", "BUILD": "yesterday"}


def test_an_older_worker_leaves_a_new_kind_to_a_newer_one_and_both_do_the_rest(
    drill: Drill,
) -> None:
    """Web is deployed, the workers are not yet: what only they will know waits, uncounted."""
    old = drill.product.plain_worker("old", **YESTERDAY)
    new_kind = drill.put(5, kind="drill_tomorrow")
    known = drill.put(20)
    waits = OutboxRow.objects.filter(pk__in=new_kind, unknown_since__isnull=False)
    wait_for(lambda: waits.count() == len(new_kind), "the new kind to wait")
    wait_for(lambda: drill.effects() == sorted(known), "the kind that both know")

    newer = drill.product.plain_worker("new")
    newer.wait_until_said("is ready")
    more = drill.put(20) + drill.put(5, kind="drill_tomorrow")
    drill.all_done_once(known + new_kind + more)
    assert drill.attempts() == {0}
    assert drill.dead() == {}
    assert old.stop() == newer.stop() == 0
    assert not old.said("drill_tomorrow done")
