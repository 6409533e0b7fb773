"""A shared space: schema and projection that several owners agree on, so that what they release can be compared.

A space is public, and known before anybody's data are fixed. So a release within it has the guarantee of a fixed
projection, which holds for every matrix, and never that of a fresh one. What an owner pays is its own affair: epsilon,
noise and ledger may differ from owner to owner.

The file is small JSON that anybody may have written: it is read as ``untrusted`` says, and refused unless its digest is
that of what it says. Nothing is drawn here: the seed says which projection it is.
"""

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

from sfumato import check, untrusted
from sfumato.errors import ParameterError, SchemaError, SfumatoError
from sfumato.in_notebooks import InNotebooks
from sfumato.new_file import write_new
from sfumato.projection.families import Family, check_shape, settled_sparsity
from sfumato.tables.columns import Id
from sfumato.tables.schema import Schema, schema_of
from sfumato.tables.schema_file import column_values

FORMAT, VERSION = "sfumato-space", 1
LARGEST = 1 << 26  # bytes of the file of a space, as of a schema
_SEED_BITS = 128  # of a seed that nobody stated
_MOST_SEED = 1 << 256
_SHOWN, _TOLD, _NAMED = 40, 4, 12  # letters of a value that differs; differences and columns that are told
_FACTS = ("family", "dimension", "seed", "sparsity")
AnySpace: TypeAlias = Union["Space", str, Path, None]  # a space, or the file of one


@dataclass(frozen=True, slots=True, eq=False)
class SpacePart:
    """What an owner of some columns needs of a space: their schema, and the rows of the joint projection for them."""

    schema: Schema
    rows: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Space(InNotebooks):
    """A schema and a projection that several owners agree on before they release anything.

    schema    : what a record is, or the path of a schema's file.
    family    : left out, ``sparse`` to a given dimension and ``identity`` without one, as in a sketch.
    dimension : how many numbers each record becomes; left out, as many as it has encoded columns.
    seed      : of the projection, and public; left out, one is drawn.
    The schema states its scale here, whether or not it did before.
    """

    schema: Schema
    family: Family | None = None
    dimension: int | None = None
    seed: int | None = None
    sparsity: int | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            schema: Schema | str | Path,
            family: Family | None = None,
            dimension: int | None = None,
            seed: int | None = None,
            sparsity: int | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        schema = schema_of(self.schema)
        if not isinstance(schema, Schema):
            kind = type(self.schema).__name__
            raise ParameterError(f"schema must be a Schema or the path of its file, got an object of type {kind}")
        object.__setattr__(self, "schema", schema)
        columns = self.schema.encoding.dim  # refused where patterns are not settled
        family = self.family or ("identity" if self.dimension is None else "sparse")
        if self.dimension is None and family != "identity":
            raise ParameterError(f"family={family!r} needs a dimension, got dimension=None")
        dimension = columns if self.dimension is None else self.dimension
        check.whole(1, dimension=dimension)
        sparsity = settled_sparsity(family, self.sparsity)
        check_shape(family, columns, dimension, sparsity)
        seed = secrets.randbits(_SEED_BITS) if self.seed is None else self.seed
        check.whole(0, seed=seed)
        if seed >= _MOST_SEED:
            raise check.fail("seed", seed, "below 2^256")
        settled: dict[str, Any] = {"family": family, "dimension": int(dimension), "seed": int(seed)}
        settled["sparsity"] = None if sparsity is None else int(sparsity)
        for name, value in (settled | {"schema": replace(self.schema, scale=self.schema.scale)}).items():
            object.__setattr__(self, name, value)

    @property
    def facts(self) -> dict[str, Any]:
        """The projection of the space: family, dimension, seed, and sparsity where the family has one."""
        return {name: getattr(self, name) for name in _FACTS if getattr(self, name) is not None}

    @property
    def digest(self) -> str:
        """SHA-256 of the space in canonical form: equal for equal spaces, however their schemas were written."""
        canonical = json.dumps(self._said(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def _said(self) -> dict[str, Any]:
        return {"schema": self.schema.to_dict(), **self.facts}

    def part(self, columns: Sequence[str] | None) -> SpacePart:
        """The part of the space that an owner of these columns has; None: all of it.

        Columns are in the order of the space's schema and count as they do there, since its scale is stated. The column
        of ids, if there is one, goes along: rows of several owners are matched by it. A schema that clips whole rows
        has no parts, because the length of a row needs all its columns.
        """
        if columns is None:
            return SpacePart(self.schema, np.arange(self.schema.encoding.dim))
        chosen = self._chosen(columns)
        widths = [column.width for column in self.schema.data_columns]
        ends = [0, *np.cumsum(widths).tolist()]
        spans = zip(self.schema.data_columns, pairwise(ends), strict=True)
        rows = np.concatenate([np.arange(*span) for column, span in spans if column.name in chosen])
        kept = tuple(c for c in self.schema.columns if isinstance(c, Id) or c.name in chosen)
        return SpacePart(replace(self.schema, columns=kept), rows)

    def _chosen(self, columns: Sequence[str]) -> set[str]:
        if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
            raise ParameterError("columns must be a list of names of columns")
        known = {column.name for column in self.schema.columns}
        unknown = [name for name in columns if name not in known]
        if unknown:
            raise ParameterError(f"columns must name columns of the space's schema, got {unknown[0]!r}")
        if len(set(columns)) < len(columns):
            raise ParameterError("columns must name every column once")
        chosen = {column.name for column in self.schema.data_columns} & set(columns)
        if not chosen:
            raise ParameterError("columns must name at least one column of the space that is no id")
        if self.schema.norm is not None:
            raise ParameterError(
                "the space's schema clips whole rows, whose length needs all columns: an owner of some of them cannot "
                "clip, so use a space without a clip"
            )
        return chosen

    def differences(self, other: "Space") -> tuple[str, ...]:
        """In what another space differs from this one, in words; none if they are the same."""
        mine, theirs = self.facts, other.facts
        found = [
            _unequal(name, mine.get(name), theirs.get(name)) for name in _FACTS if mine.get(name) != theirs.get(name)
        ]
        return (*found, *schema_differences(self.schema, other.schema))

    def describe(self) -> str:
        """The space in plain words, a few lines."""
        names = [column.name for column in self.schema.data_columns]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        sparse = f", {self.sparsity} in each row" if self.sparsity is not None else ""
        units = "of their declared ranges" if self.schema.scale == "bounds" else "of their own"
        lines = (
            f"A shared space of {self.dimension} numbers for each record ({self.family} projection{sparse}).",
            f"Columns: {', '.join(names[:_NAMED])}{more}, {self.schema.encoding.dim} encoded, in units {units}.",
            f"Seed: {self.seed}. Digest: {self.digest}.",
            "It is public. Its projection is known beforehand, so guarantees within it are for a fixed projection.",
        )
        return "\n".join(map(untrusted.line, lines))

    def to_dict(self) -> dict[str, Any]:
        """The space as JSON-able values, as its file has them."""
        return {"format": FORMAT, "version": VERSION, **self._said(), "digest": self.digest}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of ``to_dict``; SchemaError where the values are no space, or their digest is not theirs."""
        if not isinstance(values, Mapping) or values.get("format") != FORMAT:
            raise SchemaError("it is not a shared space of sfumato")
        if type(values.get("version")) is not int or values["version"] != VERSION:
            version = untrusted.line(repr(values.get("version")), _SHOWN)
            raise SchemaError(f"it has format version {version}; this sfumato reads version {VERSION}")
        keys = {"format", "version", "schema", "digest", *_FACTS}
        if not keys - {"sparsity"} <= set(values) <= keys or not isinstance(values["schema"], Mapping):
            raise SchemaError("it does not have the form of a shared space")
        return cls._checked(Schema.from_dict(values["schema"]), values)

    @classmethod
    def of_facts(cls, schema: Schema, facts: Mapping[str, Any]) -> Self:
        """The space that a manifest names: by its schema, and its projection and digest as the manifest has them."""
        return cls._checked(schema, facts)

    @classmethod
    def _checked(cls, schema: Schema, said: Mapping[str, Any]) -> Self:
        """The space that strangers describe, if it is one: whole numbers, a shape that there is, its own digest."""
        numbers = [said[name] for name in _FACTS if name != "family" and name in said]
        if any(type(number) is not int for number in numbers) or not isinstance(said["family"], str):
            raise SchemaError("its family, dimension, seed or sparsity is of a wrong type")
        made = cls(schema, **{name: said[name] for name in _FACTS if name in said})
        if said["digest"] != made.digest:
            raise SchemaError("its digest is not that of what it says: it is damaged or was changed, do not trust it")
        return made

    def save(self, path: str | Path) -> None:
        """Write the space to a new file, whole or not at all; a name that is taken is refused."""
        write_new(Path(path), json.dumps(self.to_dict(), indent=1) + "\n", SchemaError)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The space in a file, which a stranger may have written; one SchemaError says what is wrong with it."""
        place = Path(path)
        try:
            found = untrusted.loads(untrusted.read(place, LARGEST))
        except untrusted.NotOrdinaryError as error:
            raise SchemaError(f"{place} is not read: {error}") from None
        except FileNotFoundError:
            raise SchemaError(f"there is no file {place}") from None
        except (OSError, ValueError, RecursionError):
            raise SchemaError(f"{place} cannot be read as JSON: it is no shared space, or damaged") from None
        try:
            return cls.from_dict(found)
        except (SfumatoError, TypeError, ValueError, OverflowError, RecursionError) as error:
            told = str(error) if isinstance(error, SfumatoError) else "it does not have the form of a shared space"
            raise SchemaError(f"{place}: {told}") from None


def space_of(space: AnySpace) -> Space | None:
    """The shared space that somebody gave, read from its file where that was given."""
    if isinstance(space, str | Path):
        return Space.read(space)
    if space is not None and not isinstance(space, Space):
        kind = type(space).__name__
        raise ParameterError(f"space must be a Space or the path of its file, got an object of type {kind}")
    return space


# ---- what differs ---------------------------------------------------------------------------------------------------


def schema_differences(one: Schema, two: Schema) -> tuple[str, ...]:
    """In what two schemas of spaces differ, in words; none if a space takes them for the same."""
    first, second = ({column.name: column_values(column) for column in schema.columns} for schema in (one, two))
    found = [f"column {name!r} is in one only" for name in {**first, **second} if (name in first) != (name in second)]
    for name in first:
        if name in second:
            found += _column_differences(name, first[name], second[name])
    if not found and list(first) != list(second):
        found.append("the order of the columns")
    plain = [{key: value for key, value in schema.to_dict().items() if key != "columns"} for schema in (one, two)]
    for key in sorted({**plain[0], **plain[1]}):
        if plain[0].get(key) != plain[1].get(key):
            found.append(_unequal(key, *(said.get(key, "raw" if key == "scale" else None) for said in plain)))
    return tuple(found)


def _column_differences(name: str, one: Mapping[str, Any], two: Mapping[str, Any]) -> list[str]:
    keys = [key for key in {**one, **two} if one.get(key) != two.get(key)]
    return [f"column {name!r}: {_unequal(key, one.get(key), two.get(key))}" for key in keys]


def _unequal(what: str, one: object, two: object) -> str:
    """A value of two spaces that differs, with both where they are short."""
    texts = ["not stated" if value is None else str(value) for value in (one, two)]
    return f"{what} ({texts[0]} and {texts[1]})" if max(map(len, texts)) <= _SHOWN else what


def told(differences: Iterable[str]) -> str:
    """What differs between spaces, for a refusal: the first few, and how many more there are."""
    every = list(differences)
    more = f"; and {len(every) - _TOLD} more" if len(every) > _TOLD else ""
    return "; ".join(every[:_TOLD]) + more
