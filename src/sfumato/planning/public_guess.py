"""What records may look like, by a public guess: a spectrum, or public rows of the same schema. No private row is read.

``flat``: all columns vary independently. ``decaying``: the j-th direction has a variance in proportion to 1 / j, up to
``_DIRECTIONS`` of them, as measured data often have, turned at random. In both, the bounds of a number hold three
standard deviations on either side of the middle, a flag is true in one record of ten, and a category has the value that
is most likely. Draws come from a fixed public seed, so the same guess is always the same rows.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy

from sfumato.errors import ParameterError
from sfumato.files.open_table import open_table
from sfumato.numerics.types import Floats
from sfumato.tables.columns import Flag
from sfumato.tables.encoding import Encoding
from sfumato.tables.schema import Schema

Shape = Literal["flat", "decaying"]
GuessedSpectrum: TypeAlias = Any  # a Shape, or public rows: a path, a table, an array

WIDEST = 4_096  # encoded columns of records that are guessed
_FEWEST = 100  # public rows
_DIRECTIONS = 256
_DEVIATION = 1 / 6  # of a number, over the width of its bounds
_FLAGS = 0.1  # share of records in which a flag is true
_BLOCK = 1 << 12


@dataclass(frozen=True, slots=True, eq=False)
class PublicGuess:
    """Rows that stand for the records of a release, in weighted units, and in words what they are."""

    rows: Floats
    schema: Schema
    words: str


def named(spectrum: GuessedSpectrum) -> bool:
    """Whether a spectrum is a name, not public rows."""
    return isinstance(spectrum, str) and spectrum in get_args(Shape)


def most_rows(columns: int) -> int:
    """How many rows stand for all: fewer where they are wide, for speed."""
    return int(np.clip(2_000_000 // columns, 2_500, 8_000))


@functools.lru_cache(maxsize=2)
def flags(columns: int) -> Schema:
    """The schema of so many flags, where a plan knows only their number."""
    return Schema(tuple(Flag(f"f{i}") for i in range(columns)))


def guess(spectrum: GuessedSpectrum, schema: Schema, rows: int) -> PublicGuess:
    """Rows for a guess: of a spectrum, or a sample of public rows. Reads what is public, and nothing else."""
    count = min(rows, most_rows(schema.encoding.dim))
    if named(spectrum):
        return _drawn(spectrum, schema, count)
    sample, total = _sampled(spectrum, schema, count)
    name = f" in {Path(spectrum).name}" if isinstance(spectrum, (str, Path)) else ""
    return PublicGuess(sample, schema, f"records like the {total:,} public rows{name}")


# ---- public rows ----------------------------------------------------------------------------------------------------


def _sampled(data: Any, schema: Schema, count: int) -> tuple[Floats, int]:
    """So many public rows at random, and how many there are."""
    rng, total = np.random.default_rng(0), 0
    kept, keys = np.empty((0, schema.encoding.dim)), np.empty(0)
    for block in _encoded(data, schema):
        total += len(block)
        kept, keys = np.concatenate([kept, block]), np.concatenate([keys, rng.random(len(block))])
        if len(kept) > count:
            least = np.sort(np.argpartition(keys, count - 1)[:count])
            kept, keys = kept[least], keys[least]
    if total < _FEWEST:
        raise ParameterError(f"spectrum: a guess needs at least {_FEWEST} public rows, and there are fewer")
    return kept, total


def _encoded(data: Any, schema: Schema) -> Iterator[Floats]:
    """Public rows as a release would read them, in weighted units."""
    source = open_table(data, schema)
    source.check_types(schema)
    for batch in source.blocks(schema.source_names, _BLOCK):
        yield schema.clip(schema.encode(batch)).T * schema.encoding.weights


# ---- spectra --------------------------------------------------------------------------------------------------------


_WORDS: dict[Shape, str] = {
    "flat": "columns that vary independently of each other",
    "decaying": "columns that vary together, the j-th direction by 1/j of the first",
}


@functools.lru_cache(maxsize=2)
def _drawn(shape: Shape, schema: Schema, count: int) -> PublicGuess:
    encoding, rng = schema.encoding, np.random.default_rng(0)
    latent = rng.standard_normal((count, encoding.dim)) if shape == "flat" else _decaying(count, encoding.dim, rng)
    middle, width = (encoding.low + encoding.high) / 2, encoding.high - encoding.low
    cells = middle + _DEVIATION * width * latent
    flags = list(encoding.flags)
    cells[:, flags] = latent[:, flags] > -scipy.special.ndtri(_FLAGS)
    _fill_groups(cells, latent, encoding)
    rows = np.asarray(schema.clip(cells.T).T * encoding.weights)
    return PublicGuess(rows, schema, f"{_WORDS[shape]} (spectrum {shape}, a guess)")


def _decaying(count: int, dim: int, rng: np.random.Generator) -> Floats:
    """Latent columns of variance 1 whose covariance has eigenvalues in proportion to 1 / j, about."""
    directions = min(dim, _DIRECTIONS)
    mixed = rng.standard_normal((directions, dim)) / np.sqrt(np.arange(1, directions + 1))[:, None]
    return np.asarray(rng.standard_normal((count, directions)) @ (mixed / np.sqrt(np.sum(mixed**2, axis=0))))


def _fill_groups(cells: Floats, latent: Floats, encoding: Encoding) -> None:
    """Columns of a guess that belong together: the likeliest values of categories and sets, and nothing missing."""
    for group in encoding.groups:
        here = slice(group.start, group.stop)
        if group.level:
            cells[:, group.stop - 1] = 0.0
        elif group.most is not None:
            chosen = (group.most + 1) // 2
            least = -np.partition(-latent[:, here], chosen - 1, axis=1)[:, chosen - 1 : chosen]
            cells[:, here] = latent[:, here] >= least
