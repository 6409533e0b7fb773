"""Counts with Laplace noise: the plainest answers, each at its own price, or a whole list at once.

Formal guarantee: a run at a level whose loss satisfies delta(epsilon) <= delta is (epsilon, delta)-differentially
private for the guarantee it was prepared for. Counts are exact integers and the noise is the Laplace law rounded by
floor(eta + 1/2): post-processing of the Laplace mechanism, so its theorem holds to the last bit. What one unit moves:

one question   a count by g, the rows of one person, whether records are replaced or come and go.
a list         in the l1 norm by g times the most questions that one record answers (add-remove), or that two records
               answer differently (replace). From truths over a domain this is computed exactly, as the largest column
               sum, or the largest distance of two columns; of k questions that nothing is known of it is k g.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato import check
from sfumato.answering.base import Answered, Noises, check_counts, check_scales, count_move, measured
from sfumato.errors import ParameterError
from sfumato.numerics.types import Floats, Integers
from sfumato.privacy.calibration import Family
from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.privacy.losses import Laplace, Loss
from sfumato.queries.domain import Domain
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Rows

Select = Callable[[Floats], NDArray[np.bool_]]

_COMPARED = 1 << 12  # different columns of a list of questions that are compared two by two


def exact_counts(rows: Rows, select: Select) -> Integers:
    """Counts before their noise: ``select`` maps an encoded block to truths, (questions, rows) or (rows,)."""
    return rows.sum(lambda _, block: np.atleast_2d(select(block)).sum(axis=1, dtype=np.int64))


def histogram_counts(counts: Integers, queries: ArrayLike) -> Integers:
    """Counts before their noise, from a histogram: how many rows lie in the cells of each question."""
    return np.asarray([counts[row].sum() for row in np.atleast_2d(np.asarray(queries, bool))], np.int64)


def list_move(queries: ArrayLike, neighbours: Neighbours) -> int:
    """Sensitivity of a list of counts: l1 move by one record; exact, but for very many different records (above).

    queries : truths over the cells of a domain, (questions, cells).
    """
    table = np.atleast_2d(np.asarray(queries))
    if table.dtype != np.bool_:
        raise ParameterError(f"questions must be truths over the cells of a domain, got {table.dtype}")
    columns = np.unique(np.packbits(table, axis=0), axis=1)
    bits = np.bitwise_count(columns).sum(axis=0, dtype=np.int64)
    if neighbours == "add-remove":
        return int(bits.max())
    if columns.shape[1] > _COMPARED:
        return int(min(len(table), np.sort(bits)[-2:].sum()))
    return max(
        int(np.bitwise_count(columns ^ columns[:, [i]]).sum(axis=0, dtype=np.int64).max())
        for i in range(columns.shape[1])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """The recipe: ``questions`` at once, which one record moves by ``move`` in all; left out, by one each."""

    questions: int = 1
    move: int | None = None

    def __post_init__(self) -> None:
        check.whole(1, questions=self.questions)
        if self.move is not None:
            check.whole(1, move=self.move)
            check.between(1, self.questions, move=self.move)

    @classmethod
    def of(cls, domain: Domain, queries: ArrayLike, neighbours: Neighbours) -> "Counting":
        """The recipe for a list of questions over a domain, with what one record really moves."""
        table = np.atleast_2d(np.asarray(queries))
        if table.shape[1] != domain.size:
            raise ParameterError(f"questions must have {domain.size} truths each, got {table.shape[1]}")
        return cls(questions=len(table), move=max(1, list_move(table, neighbours)))

    def prepare(self, guarantee: Guarantee) -> "PreparedCounting":
        """Refuse what cannot be promised; before any data is read."""
        check_counts(guarantee)
        return PreparedCounting(self, guarantee)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedCounting(Family):
    """Counts before calibration; level = Laplace scale over what one unit moves."""

    recipe: Counting
    guarantee: Guarantee

    @property
    def sensitivity(self) -> int:
        """What one unit moves, in the l1 norm."""
        return (self.recipe.move or self.recipe.questions) * count_move(self.guarantee)

    def loss(self, level: float) -> Loss:
        """The loss of all counts of the list together."""
        return Laplace(self.sensitivity, self.scale(level))

    def scale(self, level: float) -> float:
        """The Laplace scale of each count."""
        return float(level * self.sensitivity)

    def run(self, rows: Rows, select: Select, level: float, secret: Secret) -> list[Answered]:
        """Read the rows once and answer. A secret serves one run."""
        check_scales(self.guarantee, self.scale(level))
        return self.answer(exact_counts(rows, select), level, secret)

    def answer(self, exact: Integers, level: float, secret: Secret) -> list[Answered]:
        """Answers to questions with these counts. A secret serves one call: equal counts would get equal noise."""
        if exact.shape != (self.recipe.questions,):
            raise ParameterError(f"there must be {self.recipe.questions} questions, got shape {exact.shape}")
        scale = self.scale(level)
        noises = Noises(secret, f"{self.recipe!r} {self.guarantee!r}")
        return [measured(value, scale, 0) for value in noises.added("count", exact, scale).tolist()]
