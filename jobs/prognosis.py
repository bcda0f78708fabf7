"""What a replay would do, said before anybody clicks. Pure."""

import enum
from dataclasses import dataclass


class Effect(enum.Enum):
    """What a replay of one dead job comes to."""

    SAFE = "safe"
    NOTHING = "nothing will happen"
    MAY_REPEAT = "may happen twice"
    IMPOSSIBLE = "cannot be replayed"


@dataclass(frozen=True, slots=True)
class Prognosis:
    """An effect and the words for it, e.g. `not done yet, safe`."""

    effect: Effect
    text: str
