"""Owns the QR symbol of a ticket: from a token to an inline SVG made of numbers only."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import segno

from tickets.tokens import is_token

type Corner = tuple[int, int]
type Edges = dict[Corner, list[Corner]]

MODULES: Final = 25
"""Modules on a side: QR model 2, version 2, holds 29 alphanumeric letters at level Q."""

QUIET: Final = 4
"""Modules of white on each side, as ISO/IEC 18004 asks of a QR Code model 2."""

# Any of the eight masks is valid to every reader; looking for the prettiest costs 8 ms a ticket.
MASK: Final = 4


def qr_svg(token: str) -> str:
    """Return the symbol of `token` as SVG, black on white, one unit a module, quiet zone included.

    Raises ValueError for anything but a token: the result is put on the page unescaped.
    """
    if not is_token(token):
        raise ValueError("A QR symbol is drawn for a ticket token only.")
    side = MODULES + 2 * QUIET
    return (
        f'<svg viewBox="0 0 {side} {side}" shape-rendering="crispEdges">'
        f'<rect width="{side}" height="{side}" fill="#fff"/>'
        f'<path fill="#000" d="{"".join(_outlines(_edges(_matrix(token))))}"/></svg>'
    )


def _matrix(token: str) -> Sequence[Sequence[int]]:
    symbol = segno.make_qr(
        token, error="q", version=2, mode="alphanumeric", mask=MASK, boost_error=False
    )
    return symbol.matrix


def _edges(matrix: Sequence[Sequence[int]]) -> Edges:
    """Return the sides between dark and light, dark on the right hand, by their first corner."""
    dark = {
        (x, y)
        for y, row in enumerate(matrix, start=QUIET)
        for x, module in enumerate(row, start=QUIET)
        if module
    }
    edges: Edges = defaultdict(list)
    for x, y in sorted(dark):
        corners = ((x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1))
        beyond = ((x, y - 1), (x + 1, y), (x, y + 1), (x - 1, y))
        for side, neighbour in enumerate(beyond):
            if neighbour not in dark:
                edges[corners[side]].append(corners[(side + 1) % 4])
    return edges


def _outlines(edges: Edges) -> Iterator[str]:
    """Yield closed outlines that together are one path, and use up `edges`.

    Half the commands of a bar for each run of modules, which is time in every render; and no light
    seam between two rows, as separate shapes would leave.
    """
    for first in sorted(edges):
        while edges[first]:
            yield f"M{first[0]} {first[1]}{_walk(edges, first)}z"


def _walk(edges: Edges, first: Corner) -> str:
    """Return the straight lines from `first` until it is met again, the closing one left out."""
    lines: list[tuple[str, int]] = []
    here = first
    while edges[here]:
        there = edges[here].pop()
        command, to = ("H", there[0]) if there[1] == here[1] else ("V", there[1])
        if lines and lines[-1][0] == command:
            lines.pop()
        lines.append((command, to))
        here = there
        if here == first:
            break
    return "".join(f"{command}{to}" for command, to in lines[:-1])
