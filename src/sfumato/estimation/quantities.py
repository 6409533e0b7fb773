"""What is estimated of rows of a schema: the unit of each quantity, and the range that the bounds of the columns allow.

Everything here follows from the schema alone, which is public. Rows are meant as they were clipped.
"""

import numpy as np

from sfumato.estimation.distance_matrix import widest_squared
from sfumato.intervals.estimate import Quantity
from sfumato.numerics.types import Floats
from sfumato.tables.schema import Schema

COSINE = Quantity("cosine of an angle", -1.0, 1.0)
JACCARD = Quantity("share of the flags that are true in either record", 0.0, 1.0)
CONDUCTANCE = Quantity("share of the edge weight at the smaller side", 0.0, 1.0)

_OVERFLOW = np.errstate(over="ignore")  # bounds of 1e200 have no square in doubles: then nothing is cut


# ---- units ----------------------------------------------------------------------------------------------------------


def unit(schema: Schema, quantity: str) -> str:
    """The unit of a quantity of a schema's rows, in words: in what its columns count."""
    scaled = getattr(schema, "scale", "raw") == "bounds"
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
    never negative, also of rows that were shrunk to a norm; that is lost in a subspace.
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
    """Largest squared length of a row, in weighted units: a category has at most one of its values."""
    encoding = schema.encoding
    squares = encoding.weights**2 * np.maximum(encoding.low**2, encoding.high**2)
    for start, stop in encoding.categories:
        squares[start:stop] = np.where(np.arange(stop - start) == 0, squares[start:stop].max(), 0.0)
    return min(float(squares.sum()), np.inf if schema.norm_bound is None else schema.norm_bound**2)


@_OVERFLOW
def _farthest_squared(schema: Schema, vector: Floats) -> float:
    """Largest squared distance of a row to a vector: of the box around all rows, and of the ball that clips them."""
    encoding = schema.encoding
    ends = encoding.weights * np.stack([encoding.low, encoding.high])
    clip = schema.norm_bound
    if clip is None:
        return float(np.sum(np.max((ends - vector) ** 2, axis=0)))
    ends = np.stack([np.minimum(ends[0], 0.0), np.maximum(ends[1], 0.0)])  # rows are shrunk towards 0
    return min(float(np.sum(np.max((ends - vector) ** 2, axis=0))), (float(np.linalg.norm(vector)) + clip) ** 2)
