"""Figures of a comparison of a real table with a synthetic one. NOT PRIVATE: all of them are exact."""

from dataclasses import dataclass
from typing import Any

from sfumato.comparing.learners import Propensity, Trained
from sfumato.marginals.parts import Parts
from sfumato.numerics.types import Integers

NOT_PRIVATE = "NOT PRIVATE: this page shows the real data. For the owner\u2019s eyes only; do not send it along."


@dataclass(frozen=True, slots=True, eq=False)
class ComparedColumn:
    """One variable of both tables. NOT PRIVATE.

    distance : total variation, over at most 32 equal parts of a number's bounds, or all levels.
    parts    : of a picture, where the rows are; ``real`` and ``synthetic`` are counts of them.
    means    : and standard deviations of a number, real and synthetic, by its fine cells.
    missing  : shares of missing cells, real and synthetic, where the schema keeps them.
    """

    name: str
    distance: float
    parts: Parts
    real: Integers
    synthetic: Integers
    means: tuple[tuple[float, float], tuple[float, float]] | None = None
    missing: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ComparedPair:
    """A pair of variables in both tables: total variation over its parts, and their counts. NOT PRIVATE."""

    names: tuple[str, str]
    distance: float
    parts: tuple[Parts, Parts]
    real: Integers
    synthetic: Integers


@dataclass(frozen=True, slots=True)
class RowCopies:
    """Rows that are in the same fine cell as a real row in every column. NOT PRIVATE.

    synthetic : how many synthetic rows are.
    expected  : how many would be of as many fresh rows from where the real ones come: the share of real rows that
                have an equal among the others, times the number of synthetic rows.
    """

    synthetic: int
    expected: float


@dataclass(frozen=True, slots=True, eq=False)
class QualityFigures:
    """A real table beside a synthetic one. NOT PRIVATE: for the owner of the real table alone.

    one_way, two_way : mean total variation of single columns and of pairs, over public parts; ``pairs`` counts them.
    columns, worst   : every column, and the pairs that are farthest apart.
    models           : empty without a label; ``untrained`` says what is missing to train all of them.
    held_out         : how many real rows models were tested on that are not in the real table; 0 if on some that are.
    """

    rows: tuple[int, int]
    one_way: float
    two_way: float
    pairs: int
    columns: tuple[ComparedColumn, ...]
    worst: tuple[ComparedPair, ...]
    label: str | None
    models: tuple[Trained, ...]
    propensity: Propensity | None
    untrained: str
    copies: RowCopies
    held_out: int = 0

    def describe(self) -> str:
        """Five lines for the owner of the real table. NOT PRIVATE."""
        far = max(self.columns, key=lambda column: column.distance)
        lines = [
            f"One column: total variation {self.one_way:.4f} on average, {far.distance:.4f} at most ({far.name}).",
            f"Two columns: total variation {self.two_way:.4f} on average{self._worst_pair()}.",
            self._models(),
            self._told_apart(),
            self._copies(),
        ]
        return "\n".join(lines)

    def _worst_pair(self) -> str:
        return f", {self.worst[0].distance:.4f} at most ({' and '.join(self.worst[0].names)})" if self.worst else ""

    def _models(self) -> str:
        if not self.models:
            return f"Models: {self.without_models}."
        each = (f"{m.model} {m.measure} {m.synthetic:.3f} (trained on real rows {m.real:.3f})" for m in self.models)
        tested = f"{self.held_out:,} held-out real rows" if self.held_out else "real ones"
        return f"Models of {self.label}, trained on synthetic rows and tested on {tested}: {'; '.join(each)}."

    @property
    def without_models(self) -> str:
        """Why no model predicts the label."""
        if self.label is None:
            return "none, for the release has no label (give one with label)"
        return f"none, for one of the tables has a single class of {self.label}"

    def _told_apart(self) -> str:
        if self.propensity is None:
            return f"Real from synthetic: not known; {self.untrained or 'there are too few rows to tell'}."
        return (
            f"Real from synthetic: AUC {self.propensity.auc:.3f} (0.5 is guessing), propensity error (pMSE) "
            f"{self.propensity.error:.4f}."
        )

    def _copies(self) -> str:
        return (
            f"Copies: {self.copies.synthetic:,} of {self.rows[1]:,} synthetic rows equal a real row; of as many fresh "
            f"real rows about {self.copies.expected:,.0f} would."
        )

    def to_dict(self) -> dict[str, Any]:
        """The figures of the comparison as plain values, without counts of cells. NOT PRIVATE."""
        return {
            "not_private": NOT_PRIVATE,
            "rows": {"real": self.rows[0], "synthetic": self.rows[1]},
            "one_way": self.one_way,
            "two_way": self.two_way,
            "pairs": self.pairs,
            "columns": {column.name: column.distance for column in self.columns},
            "worst_pairs": [{"columns": list(pair.names), "distance": pair.distance} for pair in self.worst],
            "label": self.label,
            "models": [
                {"model": m.model, "measure": m.measure, "real": m.real, "synthetic": m.synthetic} for m in self.models
            ],
            "propensity": self.propensity and {"auc": self.propensity.auc, "pmse": self.propensity.error},
            "untrained": self.untrained,
            "held_out": self.held_out,
            "copies": {"synthetic": self.copies.synthetic, "expected": self.copies.expected},
        }
