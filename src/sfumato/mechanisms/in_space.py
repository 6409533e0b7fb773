"""Mechanisms in a shared space: what a recipe takes from it, what it refuses, and what its manifest says of it.

A recipe that can be in a space is an ``InSpace`` with the fields ``space`` and ``columns``, both left out of its text,
so that streams of noise are those of version 0.1.0 where there is no space. It calls ``take_place`` when it is made and
``schema_needed`` and ``check_fixed`` when it is prepared, and adds ``space_facts`` to what it says.

Guarantee: a projection of a space is fixed and public, so what is proved for a fixed projection holds, whatever the
data; what is proved for a fresh one does not, since the data may have been chosen after the projection was known.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.errors import ParameterError
from sfumato.fileformat.manifest import Facts
from sfumato.mechanisms.base import Recipe
from sfumato.privacy.guarantee import Guarantee
from sfumato.projection.lattice_projection import LatticeProjection, input_bits
from sfumato.projection.projection import Projection
from sfumato.projection.space import AnySpace, Space, schema_differences, space_of, told
from sfumato.tables.schema import Schema


class InSpace(Recipe, Protocol):
    """A recipe of a mechanism that can be in a shared space.

    space   : the space, or its file, which is read when the recipe is made.
    columns : those of the space that the owner holds, where they are not all.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # fields of the recipes: a dataclass would take a property here for their default

        @property
        def space(self) -> AnySpace:
            """The shared space, if any."""
            ...

        @property
        def columns(self) -> Sequence[str] | None:
            """The columns that the owner holds, where they are not all."""
            ...

    @property
    def place(self) -> tuple[Space | None, Sequence[str] | None]:
        """A recipe's shared space, if it has one, and the columns of it that the owner holds, if not all."""
        assert not isinstance(self.space, str | Path)  # read when the recipe was made
        return self.space, self.columns

    def schema_for(self, schema: Schema | None) -> Schema | None:
        """The schema of a release in a shared space: the space's, or of the owner's part; else the given one."""
        return schema_in(*self.place, schema)


def take_place(recipe: InSpace, *settings: str) -> None:
    """Settle a recipe of a mechanism that was just made: read its space, and take these settings from it.

    Refused: columns that the space does not have, and settings that are stated and not the space's.
    """
    space, columns = space_of(recipe.space), recipe.columns
    if space is None and columns is not None:
        raise ParameterError("columns are those of a shared space that an owner holds: give the space too")
    found: dict[str, Any] = {"space": space, "columns": None if columns is None else tuple(columns)}
    if space is not None:
        space.part(columns)
        for name in settings:
            given, known = getattr(recipe, name), space.family if name == "projection" else getattr(space, name)
            if given is not None and given != known:
                raise ParameterError(
                    f"the space has {name}={known!r}, got {name}={given!r}: leave it out, the space says it"
                )
            found[name] = known
    for name, value in found.items():
        object.__setattr__(recipe, name, value)


def schema_needed(recipe: InSpace, schema: Schema | None) -> Schema:
    """The schema that a mechanism is prepared for, given or its space's; refused where there is neither."""
    found = recipe.schema_for(schema)
    if found is None:
        raise ParameterError(f"{type(recipe).__name__} needs a schema, or a space, which has one")
    return found


def check_fixed(space: Space | None, guarantee: Guarantee) -> None:
    """Refuse a guarantee that rests on a fresh projection, for a mechanism in a shared space."""
    if space is not None and guarantee.projection == "fresh":
        raise ParameterError(
            "projection='fresh' is refused in a shared space: its projection is known before the data are fixed, and "
            "serves several releases, so nothing may rest on its being new: use projection='fixed'"
        )


def schema_in(space: Space | None, columns: Sequence[str] | None, schema: Schema | None) -> Schema | None:
    """The schema of a mechanism's release: its space's, or of the part that the owner holds; else the one given.

    One that is given beside a space must be the space's, of all columns or of those that the owner holds.
    """
    if space is None:
        return schema
    part = space.part(columns).schema
    if schema is not None and schema.to_dict() != space.schema.to_dict():
        different = schema_differences(part, schema)
        if different:
            raise ParameterError(f"the schema is not that of the space: {told(different)}")
    return part


def lattice_in(space: Space, columns: Sequence[str] | None) -> LatticeProjection:
    """The projection of a mechanism in a space, as integers: rows of the joint one for the columns of a part.

    Width, grid and unit are those of the joint projection. So the exact images of the parts of a record add up to the
    exact image of the record, to the bit.
    """
    encoding = space.schema.encoding
    assert space.family is not None and space.dimension is not None and space.seed is not None  # noqa: PT018 - settled
    drawn = Projection(
        family=space.family, dim_in=encoding.dim, dim_out=space.dimension, seed=space.seed, sparsity=space.sparsity
    )
    bits = input_bits(encoding.dim)
    whole = drawn.on_lattice(encoding.ranges, input_bits=bits, projection_bits=bits + 1)
    if columns is None:
        return whole
    part = whole.part(space.part(columns).rows)
    if not np.any(abs(part.entries).max() > 0):
        raise ParameterError(
            "the space's projection is zero on these columns, so a release would show nothing of them: use a space "
            "with another seed, or more even widths"
        )
    return part


def space_facts(space: Space | None, columns: Sequence[str] | None) -> Facts:
    """What the manifest of a mechanism's release says of its space; nothing where there is none.

    A part names its columns, in the order of the schema, and has the joint schema too, so that a reader can check it.
    """
    if space is None:
        return {}
    facts: Facts = {"digest": space.digest, **space.facts}
    if columns is not None:
        held = [column.name for column in space.part(columns).schema.data_columns]
        facts |= {"columns": held, "schema": space.schema.to_dict()}
    return {"space": facts}
