"""Tables to attack: handwritten digits, made-up bits, users and people of a known law, or a file of one's own.

Whoever attacks their own data sees numbers that are not private.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.files.open_table import open_table
from sfumato.files.table_file import StandardInput, TableFile
from sfumato.mechanisms.base import Recipe
from sfumato.numerics.types import Bools, Floats, Integers
from sfumato.pipeline.fitting import settled
from sfumato.pipeline.release import release
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables import lists
from sfumato.tables.columns import Category, Flag, Integer, Ordinal, Real
from sfumato.tables.labels import Labelled
from sfumato.tables.schema import Schema

Secrets = Callable[[], Secret | None]  # a testing one for every release, or None: a key of its own


def untouched() -> None:
    """Secrets for releases of example tables: none from outside, each release draws a key of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class TargetTable:
    """A table with its schema, and a name for it."""

    name: str
    table: pa.Table
    schema: Schema

    @classmethod
    def read(cls, data: str | Path | TableFile | StandardInput, schema: Schema) -> Self:
        """A table to attack from a whole file of one's own."""
        found, schema = settled(data, schema)
        names = schema.source_names
        opened = open_table(found, schema)
        batches = list(opened.blocks(names, 1 << 16))
        if sum(batch.num_rows for batch in batches) < 8:
            raise ParameterError("an attack needs at least 8 rows")
        columns = (pa.chunked_array([lists.wide(batch.column(name)) for batch in batches]) for name in names)
        place = data.path if isinstance(data, TableFile) else data
        name = opened.description if isinstance(place, StandardInput) else Path(place).name
        return cls(name, pa.table(dict(zip(names, columns, strict=True))), schema)

    @property
    def rows(self) -> int:
        """How many rows the table to attack has."""
        return int(self.table.num_rows)

    def some(self, rows: NDArray[np.integer]) -> pa.Table:
        """Some rows of the table to attack, in the order of the indices given."""
        return self.table.take(pa.array(rows))

    def encoded(self) -> Floats:
        """Rows of the table to attack as a release sees them, clipped and weighted, (rows, encoded columns)."""
        encoding = self.schema.encoding
        return np.asarray((self.schema.clip(self.schema.encode(self.table)) * encoding.weights[:, None]).T)

    def released(self, recipe: Recipe, guarantee: Guarantee, secret: Secret | None) -> Any:
        """A release of the whole table to attack, by the path that every release takes."""
        return release(self.table, schema=self.schema, mechanism=recipe, guarantee=guarantee, secret=secret)

    def dealt(self, pool: int, seed: int) -> tuple[Integers, Integers]:
        """Records of the table to attack, dealt out at random: a pool of so many, and the attacker's own."""
        check.whole(4, pool=pool)
        if pool + pool // 2 > self.rows:
            raise check.fail("pool", pool, f"at most {self.rows * 2 // 3}, for the attacker needs half as many records")
        order = np.random.default_rng(seed).permutation(self.rows)
        return order[: pool - pool % 2], order[pool:]

    def classes(self, label: str) -> Integers:
        """The place of each row's class among those of the label, in the table to attack."""
        labelled = Labelled.of(self.schema, label, "classes")
        return labelled.codes(self.schema.encode(self.table))


def pixels(first_row: int = 0, first_column: int = 0) -> TargetTable:
    """Example table of pixels of handwritten digits.

    Every third pixel of 1,797 digits in both directions, but for those that are blank in 95% of them.

    Neighbouring pixels are alike, and ICA finds columns only where they are nearly independent; these are nearer to it.
    """
    check.between(0, 2, first_row=first_row, first_column=first_column)
    grid = [f"p{8 * row + column}" for row in range(first_row, 8, 3) for column in range(first_column, 8, 3)]
    with resources.files("sfumato").joinpath("data", "digits.parquet").open("rb") as file:
        table = pq.read_table(file, columns=grid)
    kept = [name for name in grid if np.mean(table[name].to_numpy() > 0) > 0.05]
    return TargetTable(
        f"{len(kept)} pixels of digits", table.select(kept), Schema(tuple(Real(name, 0, 16) for name in kept))
    )


def digits() -> TargetTable:
    """Example table of 1,797 handwritten digits, 64 pixels and the digit."""
    rows, digit = load_digits(return_X_y=True)
    names = [f"p{i}" for i in range(rows.shape[1])]
    schema = Schema((*(Real(name, 0, 16) for name in names), Category("digit", tuple(range(10)))))
    columns: dict[str, Any] = dict(zip(names, rows.T, strict=True))
    return TargetTable("handwritten digits", pa.table(columns | {"digit": digit}), schema)


def fair_bits(rows: int, columns: int, rng: np.random.Generator) -> TargetTable:
    """Example table of independent fair bits: what the bound on guessing is about."""
    return of_bits(f"{columns} independent fair bits", rng.random((rows, columns)) < 0.5)


def users(rows: int, rng: np.random.Generator) -> TargetTable:
    """Example table of made-up users of a web site.

    Users of 294 areas of a site, about 3 each, of which a few are popular: the shape of the MS-Web data.
    """
    chances = np.minimum(0.3, 0.6 / np.arange(1, 295))
    return of_bits("generated users, 294 flags", rng.random((rows, 294)) < chances)


def people(rows: int, rng: np.random.Generator) -> TargetTable:
    """Example table of made-up people: numbers, levels and flags that depend on each other, as in a census."""
    age = np.clip(rng.gamma(6.0, 7.0, rows), 17, 90).astype(int)
    years = np.clip(rng.normal(3.0, 1.6, rows) - (age > 60), 0, 6).astype(int)
    married = rng.random(rows) < np.clip((age - 17) / 40, 0.02, 0.7)
    hours = np.clip(rng.normal(41 - 18 * (age > 64), 9, rows), 1, 99).astype(int)
    job = (years + rng.integers(0, 4, rows)) % 8
    rich = rng.random(rows) < 1 / (1 + np.exp(6.2 - 0.8 * years - 0.04 * hours - 1.2 * married))
    columns = {
        "age": age,
        "education": years,
        "occupation": np.array(list("abcdefgh"))[job],
        "hours": hours,
        "region": np.array([f"r{i}" for i in range(12)])[np.minimum(rng.geometric(0.25, rows) - 1, 11)],
        "married": married,
        "income": np.where(rich, "high", "low"),
    }
    schema = Schema(
        (
            Integer("age", 17, 90),
            Ordinal("education", tuple(range(7))),
            Category("occupation", tuple("abcdefgh")),
            Integer("hours", 1, 99),
            Category("region", tuple(f"r{i}" for i in range(12))),
            Flag("married"),
            Category("income", ("low", "high")),
        )
    )
    return TargetTable("generated people, 7 columns", pa.table(columns), schema)


def of_bits(name: str, bits: Bools) -> TargetTable:
    """Example table from a matrix of bits, as flags."""
    names = [f"f{i}" for i in range(bits.shape[1])]
    return TargetTable(name, pa.table(dict(zip(names, bits.T, strict=True))), Schema(tuple(Flag(n) for n in names)))
