"""What replays of a job that goes through the orders of an event would do."""

from collections.abc import Mapping, Sequence

from jobs.prognosis import Effect, Prognosis
from orders.batches import Batched

from .foresight import SAFE

BEHIND = Prognosis(Effect.NOTHING, "already done: that batch is behind; nothing will happen")


def of_batches[B: Batched](
    known: Mapping[int, B], asked: Sequence[tuple[int, int]], no_such: Prognosis
) -> list[Prognosis]:
    """Of ids and cursors: whether the batch after each is the next one; `no_such` of no row."""

    def one(number: int, cursor: int) -> Prognosis:
        batched = known.get(number)
        if batched is None:
            return no_such
        return SAFE if batched.done_at is None and batched.cursor == cursor else BEHIND

    return [one(*pair) for pair in asked]
