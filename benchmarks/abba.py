"""The order of measuring: A B, B A, A B … so that a drift of the machine burdens both sides."""

from collections.abc import Callable, Mapping


def alternate[T](sides: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Run every side once a round, each round in the opposite order of the last."""
    found: dict[str, list[T]] = {name: [] for name in sides}
    names = list(sides)
    for _ in range(rounds):
        for name in names:
            found[name].append(sides[name]())
        names.reverse()
    return found
