"""Columns of a comparison for a terminal: a histogram of real rows beside one of synthetic rows. NOT PRIVATE."""

from collections.abc import Iterator

import numpy as np

from sfumato import untrusted
from sfumato.comparing.judgement import ComparedColumn
from sfumato.marginals.parts import Parts, shares
from sfumato.numerics.types import Floats, Integers

_LINES = 8  # of a column, about
_BAR, _NAME = 24, 24  # how long the longest bar and the longest name are


def beside(column: ComparedColumn) -> list[str]:
    """The lines of a compared column: its parts, with the share of rows of each in both tables. NOT PRIVATE."""
    names, groups = zip(*_grouped(column.parts, column.real + column.synthetic), strict=True)
    real, synthetic = (_joined(shares(counts), groups) for counts in (column.real, column.synthetic))
    names = tuple(untrusted.line(name, _NAME) for name in names)
    title = untrusted.line(column.name, _NAME)
    wide, most = max(map(len, (title, *names))), max(float(real.max()), float(synthetic.max()), 1e-9)
    head = f"{title:{wide}}  {'real':{_BAR + 8}}synthetic"
    rows = (
        f"{name:{wide}}  {_bar(r, most)}  {_bar(s, most)}" for name, r, s in zip(names, real, synthetic, strict=True)
    )
    return [head, *(row.rstrip() for row in rows)]


def _joined(found: Floats, groups: tuple[Integers, ...]) -> Floats:
    return np.array([found[group].sum() for group in groups])


def _bar(share: float, most: float) -> str:
    return f"{100 * share:4.1f}% {'#' * round(_BAR * share / most):{_BAR}}"


def _grouped(parts: Parts, counts: Integers) -> Iterator[tuple[str, Integers]]:
    """Names of the lines of a compared column, and the parts that each of them joins.

    Of an axis, neighbours; of levels, the commonest by themselves, in their order, and the others together.
    """
    places, axis = np.arange(parts.size), len(parts.starts)
    if not axis and parts.size > _LINES + 1:
        kept = np.sort(np.argsort(-counts, kind="stable")[:_LINES])
        yield from ((parts.names[place], np.array([place])) for place in kept)
        rest = np.setdiff1d(places, kept)
        yield f"{len(rest):,} others", rest
        return
    every = -(-axis // _LINES) if axis else 1
    for first in range(0, axis or parts.size, every):
        group = places[first : min(first + every, axis or parts.size)]
        low, high = parts.names[group[0]], parts.names[group[-1]].rpartition(" to ")[2]
        yield (low if len(group) == 1 else f"{low.partition(' to ')[0]} to {high}"), group
    yield from ((parts.names[place], np.array([place])) for place in places[axis:] if axis)
