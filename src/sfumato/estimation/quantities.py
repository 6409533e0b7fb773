"""What is estimated of rows of a schema: the unit of each quantity, and the range that the bounds of the columns allow.

Everything here follows from the schema alone, which is public. Rows are meant as
mechanisms take them: clipped to the bounds, to the norm if there is one, and to the bounds again.
"""

import math

import numpy as np

from sfumato.estimation.distance_matrix import widest_squared
from sfumato.intervals.estimate import Quantity
from sfumato.numerics.types import Floats
from sfumato.tables.encoding import Encoding, Group
from sfumato.tables.schema import Schema

COSINE = Quantity("cosine of an angle", -1.0, 1.0)
JACCARD = Quantity("share of the flags that are true in either record", 0.0, 1.0)
CONDUCTANCE = Quantity("share of the edge weight at the smaller side", 0.0, 1.0)

_OVERFLOW = np.errstate(over="ignore")  # bounds of 1e200 have no square in doubles: then nothing is cut


# ---- units ----------------------------------------------------------------------------------------------------------


def unit(schema: Schema, quantity: str) -> str:
    """The unit of a quantity of a schema's rows, in words: in what its columns count."""
    scaled = schema.scale == "bounds"
    weighted = any(column.weight != 1 for column in schema.data_columns)
    if scaled:
        return f"{quantity}, columns in units of their declared range" + " times their weight" * weighted
    return f"{quantity} in the columns' own units" + " times their weights" * weighted


def distance_unit(schema: Schema) -> str:
    """The unit of squared distances between a schema's rows, in words."""
    return unit(schema, "squared distance")


# ---- ranges ---------------------------------------------------------------------------------------------------------


def squared_distance(schema: Schema) -> Quantity:
    """Squared distances between two rows within the bounds of a schema."""
    return Quantity(distance_unit(schema), 0.0, _widest_squared(schema))


def squared_distance_to(schema: Schema, vector: Floats) -> Quantity:
    """Squared distances of rows within the bounds to one vector in weighted units, which may lie anywhere."""
    return Quantity(distance_unit(schema), 0.0, _farthest_squared(schema, vector))


def squared_norm(schema: Schema) -> Quantity:
    """Squared lengths of rows within the bounds of a schema."""
    return Quantity(unit(schema, "squared length"), 0.0, _longest_squared(schema))


@_OVERFLOW
def inner_product(schema: Schema, *, whole: bool = True) -> Quantity:
    """Inner products of two rows within the bounds of a schema, or of their parts in a subspace (not ``whole``).

    At most the largest squared length (Cauchy and Schwarz), of either sign. Products of columns that keep one sign are
    never negative; that is lost in a subspace.
    """
    most, encoding = _longest_squared(schema), schema.encoding
    products = encoding.weights**2 * np.minimum(encoding.low * encoding.high, 0.0)
    return Quantity(unit(schema, "inner product"), max(-most, float(np.sum(products))) if whole else -most, most)


def differing_flags(schema: Schema) -> Quantity:
    """Numbers of flags of weight 1 in which two rows differ."""
    return Quantity("flags", 0.0, _widest_squared(schema))


@_OVERFLOW
def _widest_squared(schema: Schema) -> float:
    return widest_squared(schema)


@_OVERFLOW
def _longest_squared(schema: Schema) -> float:
    """Largest squared length of a row, in weighted units."""
    encoding = schema.encoding
    squares = encoding.weights**2 * np.maximum(encoding.low**2, encoding.high**2)
    total = float(squares[encoding.alone].sum()) + sum(_together(encoding, squares, g) for g in encoding.groups)
    return min(total, _clipped_squared(schema, np.zeros(encoding.dim)))


def _together(encoding: Encoding, squares: Floats, group: Group) -> float:
    """What one value that takes several encoded columns adds to a squared length at most, given the columns' squares.

    A category has at most one of its values, a set ``most`` of its items. A missing number is the middle of its bounds.
    """
    own, weight = squares[group.start : group.stop], float(encoding.weights[group.start])
    if group.most is not None:
        return float(np.sort(own)[-group.most :].sum())
    if group.level:
        middle = weight * (encoding.low[group.start] / 2 + encoding.high[group.start] / 2)
        return float(max(own[0], middle**2 + own[1]))
    return min(float(own.sum()), math.inf if group.bound is None else (weight * group.bound) ** 2)


@_OVERFLOW
def _farthest_squared(schema: Schema, vector: Floats) -> float:
    """Largest squared distance of a row to a vector: in the box of all bounds, and in the ball that clips rows."""
    encoding = schema.encoding
    ends = encoding.weights * np.stack([encoding.low, encoding.high])
    return min(float(np.sum(np.max((ends - vector) ** 2, axis=0))), _clipped_squared(schema, vector))


def _clipped_squared(schema: Schema, vector: Floats) -> float:
    """Largest squared distance to a vector of rows that are clipped to a norm C, then to the box again.

    The second clip is a projection, which brings no two points farther apart, so rows are within C of what becomes of
    the origin. That is the origin itself unless bounds exclude 0.
    """
    if schema.norm_bound is None:
        return math.inf
    encoding = schema.encoding
    origin = encoding.weights * np.clip(0.0, encoding.low, encoding.high)
    return (schema.norm_bound + float(np.linalg.norm(origin - vector))) ** 2
