"""The arguments of a release as people give them: mechanisms by name, and errors that name the argument."""

from importlib import import_module
from typing import Any, TypeAlias, cast

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.files.open_table import open_table
from sfumato.mechanisms.base import Recipe
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.schema import Schema

Mechanism: TypeAlias = Recipe | str  # a recipe, or the name of one as ``sfumato release`` has it

_NAMED = {  # modules are loaded when they are named
    "table": ("table.recipe", "Table"),
    "sketch": ("sketch", "Sketch"),
    "synthetic": ("synthetic.recipe", "Synthetic"),
    "covariance": ("covariance", "Covariance"),
    "histogram": ("histogram", "Histogram"),
    "responses": ("responses", "RandomizedResponse"),
    "distances": ("distances", "NoisyDistances"),
}
_NOISY = ("synthetic", "covariance", "histogram", "distances")  # whose noise is Gaussian if delta allows it
_NEED_SETTINGS = {
    "components": "Components(dimension=...)",
    "graph": "GraphSketch(rows=...), EdgeNoise() or EdgeResponse()",
}


def recipe_of(mechanism: Mechanism, data: Any, schema: Schema | None, guarantee: Guarantee) -> tuple[Recipe, Guarantee]:
    """The recipe of a release, and its guarantee: by name, what ``sfumato release`` makes without further options.

    A sketch by name is the one that a plan puts first, whose guarantee may be for a fresh projection. Of the data, no
    more is used than the number of rows, and only where that is public.
    """
    if isinstance(mechanism, str):
        return _named(mechanism, data, schema, guarantee)
    if isinstance(mechanism, type) or not hasattr(mechanism, "prepare"):
        given = mechanism.__name__ if isinstance(mechanism, type) else f"an object of type {type(mechanism).__name__}"
        example = f"{given}(...)" if isinstance(mechanism, type) else "Table()"
        names = ", ".join(map(repr, _NAMED))
        raise ParameterError(f"mechanism must be a recipe such as {example}, or one of {names}, got {given}")
    return mechanism, guarantee


def schema_for(mechanism: Mechanism, schema: Schema | None) -> Schema | None:
    """The schema of a release: that of the recipe's shared space, where it is in one; else the argument."""
    if isinstance(mechanism, str | type) or not hasattr(mechanism, "schema_for"):
        return schema
    return mechanism.schema_for(schema)


def _named(name: str, data: Any, schema: Schema | None, guarantee: Guarantee) -> tuple[Recipe, Guarantee]:
    if name in _NEED_SETTINGS:
        raise ParameterError(f"mechanism={name!r} needs settings: give mechanism={_NEED_SETTINGS[name]}")
    check.one_of(_NAMED, mechanism=name)
    if schema is None:
        raise ParameterError(f"mechanism={name!r} needs a schema")
    module, made = _NAMED[name]
    recipe = getattr(import_module(f"sfumato.mechanisms.{module}"), made)
    rows = None if guarantee.neighbours == "add-remove" else open_table(data, schema).rows
    if name == "sketch":
        return _planned(recipe, schema, guarantee, rows)
    settings: dict[str, Any] = {}
    if name in _NOISY:
        settings["noise"] = "gaussian" if guarantee.delta > 0 else "laplace"
    if name == "synthetic":
        settings["expected_rows"] = rows or None
    return cast("Recipe", recipe(**settings)), guarantee


def _planned(recipe: type[Recipe], schema: Schema, guarantee: Guarantee, rows: int | None) -> tuple[Recipe, Guarantee]:
    """The recipe that a plan puts first among those of a class."""
    from sfumato.planning.planner import plan  # noqa: PLC0415 - much to load where no plan is made

    best = plan(schema=schema, guarantee=guarantee, rows=rows).only(lambda o: isinstance(o.mechanism, recipe)).best
    return best.mechanism, best.guarantee
