"""How a worker leaves (design §6): the codes, and which error means which."""

from enum import IntEnum

from .reading import ReadsHang
from .stream import NameLost
from .waiting import is_refusal


class Exit(IntEnum):
    """The exit codes; of several the highest is the one that counts. 2 is argparse's."""

    DRAINED = 0
    FAILED = 1
    UNFINISHED = 3
    STUCK = 4
    HUNG = 5
    NAME_TAKEN = 6
    REFUSED = 7

    @classmethod
    def of(cls, error: BaseException) -> "Exit":
        """The code of a worker that gives up for `error`."""
        if isinstance(error, NameLost):
            return cls.NAME_TAKEN
        if isinstance(error, ReadsHang):
            return cls.HUNG
        return cls.REFUSED if is_refusal(error) else cls.FAILED
