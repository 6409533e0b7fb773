"""Pictures of a pair of columns in two tables: heat maps of real shares, synthetic shares and their difference."""

import numpy as np

from sfumato.comparing.judgement import ComparedPair
from sfumato.marginals.parts import shares
from sfumato.numerics.types import Floats, Integers
from sfumato.report.html import Markup, tag
from sfumato.report.maps import tiles
from sfumato.report.numbers import percent
from sfumato.report.svg import shortened

_SHOWN = 10  # levels of either column
_LONG = 15  # letters of a name below a map
_SIDE, _GAP, _NAMES, _TITLE = 190, 26, 150, 22  # sizes: a map, between two, names beside and above


def pair_picture(pair: ComparedPair, name: str) -> Markup:
    """Three heat maps of a pair: real, synthetic, and how far synthetic is above (blue) or below (red) real."""
    rows, columns = (_kept(pair, axis) for axis in (0, 1))
    real, synthetic = (_joined(shares(counts), rows, columns) for counts in (pair.real, pair.synthetic))
    most = float(np.sqrt(max(real.max(), synthetic.max())))
    apart = synthetic - real
    reach = float(abs(apart).max())
    panels = (
        ("real", np.sqrt(real), most),
        ("synthetic", np.sqrt(synthetic), most),
        (f"difference, up to {percent(reach)}", apart, reach),
    )
    parts = [_row_names(pair, rows)]
    for place, (title, matrix, top) in enumerate(panels):
        x = _NAMES + place * (_SIDE + _GAP)
        box: dict[str, object] = {"x": x, "y": _TITLE, "width": _SIDE, "height": _SIDE}
        parts.append(tag("text", title, x=x, y=14, class_="entry"))
        parts += [tag("rect", **box, class_="field"), tiles(matrix, top, **box)]
        parts.append(_column_names(pair, columns, x))
    foot = 22 + 5.6 * max(len(shortened(name, _LONG)) for name in _names(pair, columns, 1))
    size = f"0 0 {_NAMES + 3 * (_SIDE + _GAP)} {_TITLE + _SIDE + foot:.0f}"
    said = f"{pair.names[0]} by {pair.names[1]}: shares in both tables, and their difference"
    return tag("svg", *parts, viewBox=size, class_="plot", id=name, role="img", aria_label=said)


def _kept(pair: ComparedPair, axis: int) -> Integers:
    """The parts of one column that are shown: all, or the commonest in their order."""
    total = (shares(pair.real) + shares(pair.synthetic)).sum(axis=1 - axis)
    if len(total) <= _SHOWN:
        return np.arange(len(total))
    return np.sort(np.argsort(-total, kind="stable")[: _SHOWN - 1])


def _joined(table: Floats, rows: Integers, columns: Integers) -> Floats:
    """A table of shares over the parts that are shown, with one more row or column for all others."""
    for axis, kept in ((0, rows), (1, columns)):
        if len(kept) < table.shape[axis]:
            rest = np.delete(table, kept, axis).sum(axis, keepdims=True)
            table = np.concatenate([np.take(table, kept, axis), rest], axis)
    return table


def _names(pair: ComparedPair, kept: Integers, axis: int) -> list[str]:
    names = pair.parts[axis].names
    others = [f"{len(names) - len(kept)} others"] if len(kept) < len(names) else []
    return [*(names[i] for i in kept), *others]


def _row_names(pair: ComparedPair, kept: Integers) -> Markup:
    names = _names(pair, kept, 0)
    step, found = _SIDE / len(names), [tag("text", shortened(pair.names[0], 18), x=0, y=14, class_="name")]
    for i, name in enumerate(names):
        y = _TITLE + (i + 0.5) * step + 4
        place = {"x": _NAMES - 6, "y": f"{y:.1f}", "text_anchor": "end", "class_": "small"}
        found.append(tag("text", shortened(name, 22), **place))
    return tag("g", *found)


def _column_names(pair: ComparedPair, kept: Integers, x: float) -> Markup:
    names = _names(pair, kept, 1)
    step, y, found = _SIDE / len(names), _TITLE + _SIDE + 10, []
    for i, name in enumerate(names):
        at = x + (i + 0.5) * step + 3
        turn = f"rotate(-60 {at:.1f} {y})"
        place = {"x": f"{at:.1f}", "y": y, "text_anchor": "end", "transform": turn, "class_": "small"}
        found.append(tag("text", shortened(name, _LONG), **place))
    return tag("g", *found)
