"""Neighbouring inputs that are the worst for a mechanism, or close: the ends that an audit samples.

For sketches the direction that moves the output most is known (mathematics, section 2), and for tables of counts the
worst change of a record: from one corner of the domain to the other, each a bin of its own. For all other mechanisms a
few inputs at the corners of the domain are tried with the mechanism's own preparation, and the pair is taken that moves
what gets noise by the most, as ``recorder`` sees it; among them are the pairs that attain the proved bounds.
"""

import itertools
import math
from collections.abc import Iterator

import numpy as np

from sfumato.audit.block_rows import Copies
from sfumato.audit.claimed_moves import Stages, allowed, moves, row_covariance, stretch
from sfumato.audit.recorder import Draw, replayed_pair
from sfumato.mechanisms.base import Prepared, effective_change
from sfumato.mechanisms.covariance import PreparedCovarianceSketch
from sfumato.mechanisms.sketch import PreparedSketch
from sfumato.mechanisms.synthetic.recipe import PreparedSynthetic
from sfumato.mechanisms.table.recipe import PreparedTable
from sfumato.numerics.types import Floats
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables.encoding import Encoding, Group
from sfumato.tables.schema import Schema

Pair = tuple[Floats, Floats]  # encoded tables (columns, rows)

_ENUMERATED = 10  # numbers whose signs are all tried; beyond, some
_HEAVY = 20_000  # records at either corner of a table of counts, so that corners are bins of their own


def sketch_pair(prepared: PreparedSketch) -> Pair:
    """The worst pair for a sketch: records with images as far apart as one unit can bring them, in the noise's norm."""
    schema, encoding = prepared.schema, prepared.schema.encoding
    matrix = prepared.projection.matrix()
    dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    order = prepared.order
    candidates = np.array(list(_differences(schema, prepared.guarantee, dense, order)))
    best = candidates[np.linalg.norm(candidates @ dense, order, axis=1).argmax()]
    middle = np.zeros(encoding.dim) if schema.norm is not None else (encoding.low + encoding.high) / 2
    half = best / encoding.weights / 2
    return (middle + half)[:, None], (middle - half)[:, None]


def _differences(schema: Schema, guarantee: Guarantee, dense: Floats, order: int) -> Iterator[Floats]:
    """The worst pair of a sketch, candidates: differences of two rows among which the farthest is, or nearly.

    They are in weighted units, and rows stay in their bounds.
    """
    encoding, change = schema.encoding, effective_change(schema, guarantee)
    ranges, unit = encoding.ranges, np.eye(encoding.dim)
    if change.kind == "attribute":
        for group in encoding.groups:
            own = slice(group.start, group.stop)
            if group.most == 1:
                yield from (ranges[i] * (unit[i] - unit[j]) for i, j in itertools.combinations(range(*_ends(group)), 2))
            for image in _directions(dense[own], order):
                whole = np.zeros(encoding.dim)
                whole[own] = _apart(image, group, encoding)
                yield whole
        yield from (ranges[j] * unit[j] for j in np.flatnonzero(encoding.alone))
    elif change.kind == "box":
        yield from (_farthest(image, encoding) for image in _directions(dense, order))
        yield from (_farthest(signs, encoding) for signs in _signs(encoding.dim))
    else:
        radius = change.radius or 0.0
        yield from (min(radius, r) * e for r, e in zip(ranges, unit, strict=True))
        if change.kind == "l2":
            for image in _directions(dense, order):
                v = image * (radius / max(float(np.linalg.norm(image)), 1e-300))
                yield v * min(1.0, float((ranges / np.maximum(np.abs(v), 1e-300)).min()))


def _ends(group: Group) -> tuple[int, int]:
    return group.start, group.stop


def _farthest(image: Floats, encoding: Encoding) -> Floats:
    """The difference of a worst pair of records in the box, farthest along a direction, in weighted units."""
    found = encoding.ranges * np.where(image >= 0, 1.0, -1.0)
    for group in encoding.groups:
        found[group.start : group.stop] = _apart(image[group.start : group.stop], group, encoding)
    return found


def _apart(image: Floats, group: Group, encoding: Encoding) -> Floats:
    """The difference of two values of a group that are far apart along a direction of the worst pair."""
    ranges = encoding.ranges[group.start : group.stop]
    if group.most is not None:
        order, found = np.argsort(image), np.zeros(image.size)
        found[order[-group.most :]] = ranges[order[-group.most :]]
        gone = [i for i in order[: group.most] if not found[i]]
        found[gone] = -ranges[gone]
        return found
    if group.level:
        ends = np.array([[1.0, 0.0], [0.5, 1.0], [0.5, -1.0]]) * ranges
        return np.asarray(ends[np.abs(ends @ image).argmax()])
    whole = ranges * np.where(image >= 0, 1.0, -1.0)
    if group.bound is None:
        return np.asarray(whole)
    along = image * (group.reach2 / max(float(np.linalg.norm(image)), 1e-300))
    return np.asarray(along * min(1.0, float((ranges / np.maximum(np.abs(along), 1e-300)).min())))


def _directions(dense: Floats, order: int) -> Iterator[Floats]:
    """Directions of a worst pair: P s for signs s, which attain l1 norms; for Euclidean ones a left singular vector."""
    yield np.linalg.svd(dense, full_matrices=False)[0][:, 0]
    if order == 1:
        yield from (dense @ signs for signs in _signs(dense.shape[1]))


def _signs(size: int) -> Iterator[Floats]:
    """Corners to search for a worst pair: all vectors of signs up to one of them, or a thousand random ones."""
    if size <= _ENUMERATED:
        yield from (np.array((1.0, *rest)) for rest in itertools.product((1.0, -1.0), repeat=size - 1))
    else:
        yield from np.random.default_rng(1).choice([-1.0, 1.0], (1000, size))


# ---- by search ------------------------------------------------------------------------------------------------------


def table_pair(prepared: PreparedTable) -> Pair:
    """The worst pair for a table of counts: a unit at one corner, against one at the other, or none.

    Beside it are many records at both corners. So every corner is a bin of its own, which a unit moves from or to in
    all tables at once; and all variables hang together, so that rounds find tables to measure. Opposite corners have
    the same products of scores, so for a copula a unit changes every second column alone.
    """
    encoding, group = prepared.schema.encoding, prepared.guarantee.group
    low, high = (
        _with_values(row, encoding, which)[:, None] for row, which in ((encoding.low, "first"), (encoding.high, "last"))
    )
    others = np.repeat(np.hstack([low, high]), _HEAVY, axis=1)
    other = high
    if prepared.recipe.method == "copula":
        widths = [column.width for column in prepared.schema.data_columns]
        changed = np.repeat(np.arange(len(widths)) % 2 == 0, widths)
        other = np.where(changed[:, None], high, low)
    gone = other[:, :0] if prepared.guarantee.neighbours == "add-remove" else np.repeat(other, group, axis=1)
    return np.hstack([np.repeat(low, group, axis=1), others]), np.hstack([gone, others])


def searched_pair(prepared: Prepared, level: float) -> Pair:
    """The worst pair by search: the candidate that moves the stages of a mechanism most, all of them together."""
    if isinstance(prepared, PreparedTable):
        return table_pair(prepared)
    limits = allowed(prepared, level)

    def reach(pair: Pair) -> float:
        found = moved(prepared, level, pair)
        return sum(found.get(stage, 0.0) / limit for stage, limit in limits.items())

    return max(candidates(prepared), key=reach)


def moved(prepared: Prepared, level: float, pair: Pair) -> Stages:
    """What makes a pair of tables worse: how far the pair moves each stage."""
    if isinstance(prepared, PreparedCovarianceSketch):
        both = [row_covariance(prepared, level, Copies(table)) for table in pair]
        return {"covariance of the rows": stretch(*both)}
    return moves(recorded_pair(prepared, level, pair), allowed(prepared, level))


def recorded_pair(prepared: Prepared, level: float, pair: Pair) -> list[tuple[Draw, Draw]]:
    """A mechanism run on both tables of a worst pair with the same outcomes: the draws, side by side."""

    def run(table: Floats, secret: Secret) -> None:
        for _ in prepared.run(Copies(table), level, secret).blocks:
            pass

    return replayed_pair(pair, run)


def candidates(prepared: Prepared) -> Iterator[Pair]:
    """Candidates for the worst pair: small tables that differ in one unit, at the corners of the domain.

    Beside the record that differs there are none, one, or many at the other end, which matters where means are taken.
    """
    assert prepared.schema is not None
    rows, alone = _corners(prepared), isinstance(prepared, PreparedCovarianceSketch)
    beside = (0, 60) if alone else (1,) if prepared.guarantee.neighbours == "replace" else (0,)
    for count, base in itertools.product(beside, rows[: 2 if alone else 1]):
        others = np.repeat(base[:, None], count, axis=1)
        for one, two in _unit_pairs(prepared.schema, prepared.guarantee, rows):
            yield np.hstack([one, others]), np.hstack([two, others])


def unit_pairs(prepared: Prepared) -> Iterator[Pair]:
    """Candidates for the worst pair of a single record, with no other beside it."""
    assert prepared.schema is not None
    return _unit_pairs(prepared.schema, prepared.guarantee, _corners(prepared))


def _corners(prepared: Prepared) -> list[Floats]:
    """Rows that worst pairs are made of: at corners of the box, its middle, and along and across a projection."""
    assert prepared.schema is not None
    encoding = prepared.schema.encoding
    low, high = encoding.low, encoding.high
    even = np.where(np.arange(encoding.dim) % 2 == 0, high, low)
    found = [low, high, even, low + high - even, (low + high) / 2]
    if encoding.groups:  # rows are encoded with values that their groups can have, and with no others
        found = [_with_values(row, encoding, which) for row in found for which in ("first", "last", "either")]
    if isinstance(prepared, PreparedSynthetic):
        w = prepared.moment.turned.matrix
        inside = [np.zeros(encoding.dim) for _ in range(2 * w.shape[1])]
        places = prepared.labelled.features(np.arange(encoding.dim, dtype=float)[:, None])[:, 0].astype(int)
        for row, column in zip(inside, np.hstack([w, -w]).T, strict=True):
            row[places] = column
        found += [np.clip(row, low, high) for row in inside]
    return found


def _with_values(row: Floats, encoding: Encoding, which: str) -> Floats:
    """A row of a worst pair with a value of each group in its place: the first items, the last, or either in turn.

    Of a number that is kept if it is missing, the last value is that; it stands at the middle then.
    """
    found = row.copy()
    for number, group in enumerate(encoding.groups):
        own = found[group.start : group.stop]
        last = which == "last" or (which == "either" and number % 2 == 1)
        if group.level:
            own[1] = float(last)
            own[0] = encoding.low[group.start] / 2 + encoding.high[group.start] / 2 if last else own[0]
        elif group.most is not None:
            own[...] = 0.0
            own[-group.most if last else 0 : None if last else group.most] = 1.0
        elif group.bound is not None:
            own[...] = 0.0
            own[-1 if last else 0] = math.copysign(min(group.bound, abs(row[group.start])), row[group.start])
    return found


def _unit_pairs(schema: Schema, guarantee: Guarantee, rows: list[Floats]) -> Iterator[Pair]:
    """Candidates for the worst pair that differ in one record: columns (columns, 1), or an empty table.

    A table is empty where its record was removed.
    """
    encoding = schema.encoding
    if guarantee.neighbours == "add-remove":
        yield from ((row[:, None], np.empty((encoding.dim, 0))) for row in rows)
        return
    change = effective_change(schema, guarantee)
    if change.kind == "box":
        yield from ((one[:, None], two[:, None]) for one, two in itertools.combinations(rows, 2))
        return
    for one, two in itertools.permutations(rows, 2):
        if change.kind == "attribute":
            for cell in _cells(schema):
                other = one.copy()
                other[cell] = two[cell]
                yield one[:, None], other[:, None]
        else:
            gap = (two - one) * encoding.weights
            length = float(np.linalg.norm(gap, 1 if change.kind == "l1" else 2))
            share = min(1.0, (change.radius or 0.0) / max(length, 1e-300)) if length else math.inf
            if share <= 1:
                yield one[:, None], (one + (two - one) * share)[:, None]


def _cells(schema: Schema) -> list[slice]:
    """The values in which a worst pair may differ: the encoded columns of each, one, or those of a group."""
    encoding = schema.encoding
    alone = [slice(int(j), int(j) + 1) for j in np.flatnonzero(encoding.alone)]
    return alone + [slice(group.start, group.stop) for group in encoding.groups]
