"""Private histograms: how many records fall into public cells, with noise on each count.

Tables of one or several columns, cut by the schema alone (``marginals.cell_tables``). The exact counts of all tables
are one vector of integers whose length is public, and every entry gets noise of a known deviation.

Formal guarantee: a run at a level whose loss satisfies delta(epsilon) <= delta is (epsilon, delta)-differentially
private for whole records, or groups of them, replaced, or added or removed. Proof. A record is in one cell of each
table, by itself. One that comes or goes moves each table by 1 in one cell, one that is replaced by 1 in two, and a
group of g records g times as far: ``cells_move``, c. Table t has noise of w_t times one scale s, so the move of
all counts over their relative deviations w is at most c sqrt(sum 1/w_t^2) in l2, which isotropic Gaussian noise of
deviation s protects, and at most c sum 1/w_t in l1, for Laplace noise of scale s: ``reach``. Counts are integers and
noise is exact, rounded to integers, which is post-processing. Where records are replaced their number is public; where
they are added or removed, it is nowhere but in the noisy counts. It assumes that the table can be read to its end.

Which w: the expected l1 error over all cells is least where the budget of a table goes with its number of cells to the
power 2/3 (Gaussian: of mu^2) or 1/2 (Laplace: of epsilon), as for synthetic tables; so w goes with cells to the power
-1/3, or -1/2. The largest table has w = 1.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from sfumato import check, defaults
from sfumato.errors import ParameterError
from sfumato.marginals.cell_tables import CellTables
from sfumato.mechanisms import base, in_space
from sfumato.mechanisms.base import Noise, Published, Summed
from sfumato.numerics.types import Floats, Integers, Order
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Loss
from sfumato.projection.space import AnySpace
from sfumato.queries.axes import Bins
from sfumato.randomness.noise import SMALLEST_SCALE
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Rows
from sfumato.tables.schema import Schema

_SAFE = 1 + 2.0**-40  # more than doubles get wrong


@dataclass(frozen=True, slots=True)
class Histogram(in_space.InSpace):
    """The recipe: noisy counts of public cells.

    tables : the columns of each table, such as ``(("age",), ("sex", "income"))``; left out, every column by itself.
    noise  : left out, Gaussian where delta > 0, else Laplace.
    bins   : public cuts of numbers, ordinals and dates: how many equal cells, or a list of cuts. Left out, the fine
             cells of a synthetic table where a column is alone, and at most 32 equal parts in tables of several.
    space  : a shared space, or its file: its schema is that of the release, and the manifest names it.
    columns: those of the space that the owner holds, where they are not all.
    """

    tables: tuple[tuple[str, ...], ...] | None = None
    _: KW_ONLY
    noise: Noise | None = defaults.NOISE
    bins: Mapping[str, Bins] = field(default_factory=dict)
    space: AnySpace = field(default=None, repr=False)
    columns: Sequence[str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check.one_of(("laplace", "gaussian"), noise=self.noise or "gaussian")
        if not isinstance(self.bins, Mapping):
            raise ParameterError(f"bins are cuts by column, such as {{'age': 10}}, got a {type(self.bins).__name__}")
        if self.tables is not None:
            object.__setattr__(self, "tables", _tables(self.tables))
        in_space.take_place(self)

    def prepare(self, schema: Schema | None, guarantee: Guarantee) -> "PreparedHistogram":
        """The cells of the schema, and what one unit moves of their counts; nothing is read."""
        schema = in_space.schema_needed(self, schema)
        in_space.check_fixed(self.place[0], guarantee)
        if guarantee.unit != "record" or guarantee.allowed_change.kind != "box":
            raise ParameterError(
                "counts protect whole records, which may change to any other: use unit='record' and a change of kind "
                f"'box', got unit={guarantee.unit!r}, change={guarantee.allowed_change.kind!r}"
            )
        if guarantee.projection == "fresh":
            raise ParameterError("counts project nothing, so no drawn projection protects: use projection='fixed'")
        noise: Noise = self.noise or defaults.noise_of_sums(guarantee.delta)
        base.check_noise(guarantee, noise)
        return PreparedHistogram(self, schema, guarantee, CellTables.of(schema, self.tables, self.bins), noise)


def _tables(given: Any) -> tuple[tuple[str, ...], ...]:
    """The tables of a histogram as they are given; a column by its name alone is a table."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ParameterError(f"tables is a list of tables, such as [('age',), ('sex', 'income')], got {given!r}")
    return tuple((table,) if isinstance(table, str) else tuple(table) for table in given)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedHistogram(Summed):
    """Counts whose cells are known; level = noise scale of the largest table over ``reach``."""

    recipe: Histogram
    schema: Schema
    guarantee: Guarantee
    cells: CellTables
    noise: Noise

    @property
    def order(self) -> Order:
        """The norm that the noise on counts protects against."""
        return base.order_of(self.noise)

    @property
    def settings(self) -> dict[str, str | int | None]:
        """Noise, and how many cells are counted."""
        return {"noise": self.noise, "cells": self.cells.size}

    @property
    def weights(self) -> Floats:
        """The relative deviation of the noise on the counts of each table: the largest table has 1."""
        sizes = np.array(self.cells.sizes, float)
        return np.asarray((sizes / sizes.max()) ** (-1 / 2 if self.order == 1 else -1 / 3))

    @property
    def deviations(self) -> Floats:
        """The relative deviation of the noise on each count."""
        return np.repeat(self.weights, self.cells.sizes)

    @property
    def reach(self) -> float:
        """How far one unit moves all counts over their relative deviations, in the norm of the noise."""
        replace = self.guarantee.neighbours == "replace"
        moved = base.cells_move(self.order, replace=replace, group=self.guarantee.group)
        return float(moved * np.linalg.norm(1 / self.weights, self.order)) * _SAFE

    @property
    def unit(self) -> float:
        """What one step of the counts is worth: a record."""
        return 1.0

    def loss(self, level: float) -> Loss:
        """The loss of the noise on all counts together."""
        return base.noise_loss(self.order, level)

    def scale(self, level: float) -> float:
        """The scale of the noise on counts of the largest table, in records (b, or the deviation); rounded up.

        No less than the sampler can draw, which is more noise than a large epsilon asks for.
        """
        return max(math.nextafter(level * self.reach, math.inf), SMALLEST_SCALE)

    def counted(self, rows: Rows) -> tuple[Integers, int]:
        """The exact counts of all cells, and how many rows were read."""
        exact = self.exact(rows)
        return exact, int(exact[: self.cells.sizes[0]].sum())

    def exact(self, rows: Rows) -> Integers:
        """The exact counts of all cells, table after table."""
        return rows.sum(lambda _, block: self.cells.counts(block))

    def run(self, rows: Rows, level: float, secret: Secret) -> Published:
        """The noisy counts, as one column; the rows are read once.

        Guarantee: as stated at the top, at the loss of ``level``.
        """
        scale = self.scale(level)
        most = float(self.weights.max())
        base.check_scale(self.guarantee, scale * most, level, "nearer to 1 for these tables")
        exact, count = self.counted(rows)
        records = base.public_rows(count, self.guarantee)
        return self.published(self._protected(exact, scale, secret), scale, records)

    def _protected(self, exact: Integers, scale: float, secret: Secret) -> Integers:
        parameters = f"histogram {self.recipe!r} {self.guarantee!r} {scale.hex()}"
        words = secret.words(parameters, self.schema.digest, exact)
        draw = words.laplace if self.order == 1 else words.gaussian
        sizes = zip(self.cells.sizes, self.weights.tolist(), strict=True)
        drawn: Integers = np.concatenate([draw(size, scale * weight * _SAFE) for size, weight in sizes])
        return exact + drawn

    def published(self, values: Integers | Floats, scale: float, records: int | None) -> Published:
        """What is published of counts that have their noise: facts for the manifest, and one column.

        scale   : of the noise on counts of the largest table, in records.
        records : the number of rows, or None where it is protected.
        """
        stated = [
            {"columns": list(names), "cells": size, "cuts": self.cells.cuts(place), "scale": scale * weight * _SAFE}
            for place, (names, size, weight) in enumerate(
                zip(self.cells.names, self.cells.sizes, self.weights.tolist(), strict=True)
            )
        ]
        mechanism = {
            "name": "histogram",
            "noise": self.noise,
            "tables": stated,
            **base.noise_facts(self.order, self.reach, scale),
        }
        facts = {"kind": "histogram", "mechanism": mechanism, "rows": records}
        facts |= in_space.space_facts(*self.recipe.place)
        column = np.asarray(values, np.float64)[None]
        return Published(facts, ("value",), iter([column]), by_record=False)
