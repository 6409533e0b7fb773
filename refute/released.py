"""Contests of mechanisms that publish numbers from a table."""

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.random import Generator

from refute import levels, losses, schemas
from refute.forms import FORMS, UnstorableError, stored
from refute.luck import chance, pick
from refute.pairs import Neighbourhood, Pair
from refute.schemas import Row, Terms
from refute.search import Measured, SkippedError, brief, terms_of
from refute.steering import Steered
from sfumato.audit import recorder
from sfumato.audit.claimed_moves import allowed, moves, row_covariance, stretch
from sfumato.audit.recorder import Draw, Tape
from sfumato.engines.local import LocalRows
from sfumato.errors import SfumatoError
from sfumato.files.open_table import open_table
from sfumato.mechanisms.covariance import COUNT_SHARE, PreparedCovarianceSketch
from sfumato.mechanisms.sketch import PreparedSketch
from sfumato.mechanisms.table import pairs as table_pairs
from sfumato.mechanisms.table import rounds
from sfumato.numerics.lattice import InputGrid
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.blocks import Blocks, Piecewise
from sfumato.tables.columns import DataColumn, Date, Flag, Integer, Real, Set, Vector
from sfumato.tables.schema import Schema

_EARLY = ("second moment", "synthetic mean", "dimension", "table")  # stages that others go on from


class _OneByOne(LocalRows):
    """Blocks in this thread: what ``LocalRows`` does, without looking for the libraries whose threads it limits."""

    def _results(self, function: Callable[[int, Any], Any]) -> Iterator[tuple[int, Any]]:
        blocks, encode = self.blocks.pieces() if isinstance(function, Piecewise) else (self.blocks, self.blocks.encode)
        position = self.first
        for block in blocks:
            yield block.shape[0], function(position, encode(block))
            position += block.shape[0]


@contextlib.contextmanager
def _short_fits() -> Iterator[None]:
    """Models of tables fitted in a few steps: outcomes are steered, so how well a model fits them says nothing."""
    with contextlib.ExitStack() as stack:
        for owner, name, value in ((table_pairs, "ITERATIONS", 4), (rounds, "ITERATIONS", 4), (rounds, "_DRAWN", 100)):
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


@dataclass(frozen=True, slots=True)
class Storage:
    """How tables are stored, and how many rows a block of them has."""

    form: str
    block: int

    @classmethod
    def drawn(cls, luck: Generator) -> "Storage":
        """Mostly typed, so that most pairs say something of the mechanism; else any form."""
        return cls(pick(luck, FORMS) if chance(luck, 0.4) else "Arrow, typed", pick(luck, (1, 2, 3, 1 << 16)))

    def rows(self, of: Schema, table: Sequence[Row], width: int, folder: Path) -> LocalRows:
        """The table as an engine offers it."""
        opened = open_table(stored(self.form, of, table, folder), of)
        blocks = Blocks.of(opened, of, width=width, memory=self.block * 128 * max(of.encoding.dim, width))
        return _OneByOne(blocks, threads=1)


def both(pair: Pair, run: Callable[[list[Row], Path], Any]) -> list[Any]:
    """A run on each of the tables. An error is a result, too; refused alike, there is nothing to say of the pair."""
    found: list[Any] = []
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for table in pair.tables:
            try:
                found.append(run(table, Path(place)))
            except UnstorableError:
                raise SkippedError from None
            except Exception as error:  # noqa: BLE001 - one that is not of the package's own is a finding
                found.append(error)
    if all(isinstance(one, SfumatoError) for one in found) and repr(found[0]) == repr(found[1]):
        raise SkippedError
    return found


def side_by_side(tape: Tape, again: Tape) -> list[tuple[Draw, Draw]]:
    """The draws of two runs that have one place and one kind."""
    pairs = [(draw, again.draws[key]) for key, draw in tape.draws.items() if key in again.draws]
    return [(one, two) for one, two in pairs if one.kind == two.kind]


def error_of(results: Sequence[Any]) -> str:
    """The errors of the two runs, if there is one: they are not alike, or not of the package's own."""
    return " | ".join(repr(result) for result in results if isinstance(result, Exception))


def fault_of(results: Sequence[Any], tape: Tape, again: Tape) -> str:
    """What depended on the data beside the noise."""
    if errors := error_of(results):
        return errors
    return "; ".join(dict.fromkeys([*tape.faults, *again.faults, *again.missing()]))


@dataclass(frozen=True, slots=True)
class Released:
    """A mechanism of records, prepared, at its level."""

    recipe: Any
    prepared: Any
    level: float
    storage: Storage
    around: Neighbourhood

    @property
    def guarantee(self) -> Guarantee:
        """What is claimed."""
        return self.around.guarantee

    @property
    def settings(self) -> str:
        """In one line."""
        of = self.around.schema
        kinds = " ".join(f"{c.kind}*{c.weight:g}" if c.weight != 1 else c.kind for c in of.data_columns)
        clip = f", rows within {of.norm} {of.norm_bound:g}" if of.norm else ""
        return f"{brief(self.recipe)}; {terms_of(self.guarantee)}; {kinds}{clip}; {self.storage.form}"

    def draw(self, luck: Generator) -> Pair:
        """A pair of neighbours."""
        return self.around.draw(luck)

    def changed(self, luck: Generator, pair: Pair) -> Pair:
        """Another one, close to it."""
        return self.around.changed(luck, pair)

    def _rows(self, table: Sequence[Row], folder: Path) -> LocalRows:
        width = self.prepared.dimension
        return self.storage.rows(self.prepared.schema, table, width, folder)

    def measure(self, pair: Pair) -> Measured:
        """Run on both, with the same outcomes, and compare what got noise."""
        if isinstance(self.prepared, PreparedCovarianceSketch):
            return self._stretched(pair)
        tape = Steered(outcome=pair.outcome, stages=_EARLY)
        again = tape.replay()
        secrets = iter([recorder.secret(tape), recorder.secret(again)])

        def run(table: list[Row], folder: Path) -> int:
            published = self.prepared.run(self._rows(table, folder), self.level, next(secrets))
            return sum(1 for _ in published.blocks)

        with _short_fits():
            results = both(pair, run)
        if fault := fault_of(results, tape, again):
            return Measured(fault=fault)
        pairs, limits = side_by_side(tape, again), allowed(self.prepared, self.level)
        moved = moves(pairs, limits)
        if unknown := [stage for stage in moved if stage not in limits]:
            return Measured(fault=f"{unknown} has noise but no stated sensitivity")
        stage = max((moved[name] / limits[name] for name in moved), default=0.0)
        if self.guarantee.projection == "fresh":
            return Measured(self._fresh(pair), stage, exact=False)
        return Measured(losses.share(losses.of(pairs), self.guarantee, stages=len(limits)), stage)

    def _fresh(self, pair: Pair) -> float:
        """How far the row that differs is from itself on the grid, over the radius that the law of P is taken at."""
        sketch: PreparedSketch = self.prepared
        encoding = sketch.schema.encoding
        grid = InputGrid(encoding.low, encoding.high, sketch.projection.input_bits)

        def run(table: list[Row], folder: Path) -> np.ndarray:
            parts = self._rows(table, folder).map(lambda _, block: grid.round(sketch.schema.clip(block)))
            return np.concatenate([np.asarray(part) for part in parts], axis=1)

        one, two = both(pair, run)
        lengths = np.linalg.norm((one - two) * sketch.projection.step[:, None], axis=0)
        return float(lengths.sum()) / (sketch.reach * sketch.projection.unit)

    def _stretched(self, pair: Pair) -> Measured:
        """How far the covariance of the drawn rows stretches; and of which stretch the promise allows."""

        def run(table: list[Row], folder: Path) -> np.ndarray:
            return row_covariance(self.prepared, self.level, self._rows(table, folder))

        results = both(pair, run)
        if error := error_of(results):
            return Measured(fault=error)
        found = stretch(*results)
        whole = None
        if self.guarantee.neighbours == "add-remove":
            left = self.guarantee.epsilon * (1 - COUNT_SHARE)
            whole = found / losses.largest_stretch(left, self.guarantee.delta, self.prepared.draws)
        return Measured(whole, found / allowed(self.prepared, self.level)["covariance of the rows"], exact=False)


@dataclass(frozen=True, slots=True)
class Reading:
    """Tables as they are read: a record that differs in its own cells must leave the encoding of all others alone."""

    storage: Storage
    around: Neighbourhood

    @property
    def settings(self) -> str:
        """In one line."""
        kinds = " ".join(c.kind for c in self.around.schema.data_columns)
        return f"{kinds}; {self.storage.form}"

    def draw(self, luck: Generator) -> Pair:
        """A pair of neighbours; more often than not one in which no cell is missing but, in one of the two, one."""
        pair = self.around.draw(luck)
        if chance(luck, 0.3):
            return pair
        full = [tuple(pick(luck, self._plain(c)) for c in self.around.schema.data_columns) for _ in pair.tables[0]]
        place = int(luck.integers(len(full[0])))
        column = self.around.schema.data_columns[place]
        none = [None] * column.size if isinstance(column, Vector) and column.columns else None
        gap = (*full[0][:place], none, *full[0][place + 1 :])
        return replace(pair, common=tuple(full[1:]), ones=(full[0],), twos=(gap,))

    def _plain(self, column: DataColumn) -> Sequence[Any]:
        """Cells that every form stores in a type of numbers, of truths or of texts."""
        if isinstance(column, Real | Integer):
            return (1, 2, 2**53 + 1) if self.storage.block == 2 else (column.low, column.high)
        if isinstance(column, Date):
            return column.low, column.high
        if isinstance(column, Vector):
            return [0] * column.size, [column.high] * column.size
        if isinstance(column, Set):
            return (list(column.values[:1]), list(column.values)) if column.values else ([7, 8], [2**53 + 1])
        return (True, False) if isinstance(column, Flag) else column.values

    def changed(self, luck: Generator, pair: Pair) -> Pair:
        """Another one, close to it."""
        return self.around.changed(luck, pair)

    def measure(self, pair: Pair) -> Measured:
        """How many records are encoded otherwise, over the one that may be."""
        of = self.around.schema

        def run(table: list[Row], folder: Path) -> np.ndarray:
            parts = list(self.storage.rows(of, table, 1, folder).map(lambda _, block: block))
            return np.concatenate(parts, axis=1)

        results = both(pair, run)
        if error := error_of(results):
            return Measured(fault=error)
        moved = (results[0] != results[1]).any(axis=0)
        elsewhere = int(np.delete(moved, pair.at[0]).sum())
        return Measured(Fraction(1 + elsewhere if elsewhere else int(moved.sum())))


# ---- drawing contests -----------------------------------------------------------------------------------------------

_FAMILIES = ("identity", "gaussian", "rademacher", "achlioptas", "sparse", "orthonormal")


def contest(luck: Generator, recipe: Any, around: Neighbourhood) -> Released:
    """A recipe, made ready for a neighbourhood."""
    ready = levels.prepared(recipe, around.schema, around.guarantee)
    return Released(recipe, ready, levels.level(ready, around.guarantee), Storage.drawn(luck), around)


def public_seed(luck: Generator) -> int:
    """The seed of a projection."""
    return int(luck.integers(1 << 30))


def missing_cell(luck: Generator) -> Reading:
    """Tables of whole numbers, flags and categories in which one cell becomes another, or missing."""
    kinds = ("category", "category", "flag", "real", *schemas.KINDS)
    of = schemas.schema(luck, Terms(kinds=kinds, clips=(None,)))
    promise = Guarantee(epsilon=1.0, unit="attribute")
    around = Neighbourhood(schema=of, guarantee=promise, most=8, least=2)
    guessing = ("pandas", "Parquet by pandas")  # a missing cell makes whole numbers floating ones
    return Reading(Storage(pick(luck, (*FORMS, *guessing, *guessing)), pick(luck, (2, 1 << 16))), around)


def family_of(luck: Generator, dim: int, *, families: Sequence[str] = _FAMILIES) -> dict[str, Any]:
    """A projection family and a dimension that it can have; beyond 16 sensitivities are found in another way."""
    family = pick(luck, families)
    if family == "identity":
        return {"projection": family}
    if family == "orthonormal":
        return {"projection": family, "dimension": int(luck.integers(1, dim + 1))}
    dimension = 18 if chance(luck, 0.15) else int(luck.integers(1, 5))
    sparsity = int(luck.integers(1, dimension + 1)) if family == "sparse" and chance(luck, 0.5) else None
    return {"projection": family, "dimension": dimension, "sparsity": sparsity}
