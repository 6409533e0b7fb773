"""A synthetic histogram in the analyst's hands: public numbers over a domain, made by a private mechanism.

Guarantee: everything here is post-processing of what was published; it costs no privacy.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats, Integers
from sfumato.queries.axes import Level
from sfumato.queries.domain import Domain


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticHistogram:
    """Weights of at least 0 for the cells of a domain, which add up to the (estimated) number of rows."""

    domain: Domain
    weights: Floats

    @property
    def rows(self) -> float:
        """The number of rows that the weights stand for."""
        return float(self.weights.sum())

    @property
    def digest(self) -> str:
        """SHA-256 of the weights of the histogram."""
        return hashlib.sha256(np.ascontiguousarray(self.weights, "<f8").tobytes()).hexdigest()

    def answer(self, query: ArrayLike) -> float:
        """The estimated number of rows in the cells that are true."""
        cells = np.asarray(query)
        if cells.dtype != np.bool_ or cells.shape != self.weights.shape:
            raise ParameterError(f"a question must be {self.weights.size} truths, got shape {cells.shape}")
        return float(self.weights[cells].sum())

    def answers(self, queries: ArrayLike) -> Floats:
        """The estimated number of rows for each of many questions, (questions, cells)."""
        return np.asarray([self.answer(query) for query in np.atleast_2d(np.asarray(queries))])

    def sample(self, rows: int, seed: int) -> Integers:
        """The cells of synthetic rows; the seed is public, for nothing private is left to protect."""
        check.whole(0, rows=rows, seed=seed)
        rng = np.random.default_rng(seed)
        return np.asarray(rng.choice(self.weights.size, size=rows, p=self.weights / self.weights.sum()), np.int64)

    def table(self) -> pa.Table:
        """One row for each cell: the level of every column, as text, and the weight."""
        levels = {
            axis.name: np.array([_text(level) for level in axis.levels], object)[self.domain.codes(axis.name)]
            for axis in self.domain.columns
        }
        return pa.table({**{name: pa.array(values.tolist()) for name, values in levels.items()}, "rows": self.weights})


def _text(level: Level) -> str | None:
    """A level of a histogram's column in words for its table; an interval by its ends, a set by its items."""
    if isinstance(level, tuple):
        return " to ".join(repr(end) if isinstance(end, float) else str(end) for end in level)
    if isinstance(level, frozenset):
        return "{" + ", ".join(sorted(map(str, level))) + "}"
    return None if level is None else str(level).lower() if isinstance(level, bool) else str(level)
