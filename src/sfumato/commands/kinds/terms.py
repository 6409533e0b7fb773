"""What options of a release stand for: recipe, schema and guarantee, and the options that several kinds share."""

import argparse
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sfumato import defaults
from sfumato.commands.console.options import guarantee_of, schema_of, table
from sfumato.errors import ParameterError, SchemaError

if TYPE_CHECKING:
    from sfumato.mechanisms.base import Recipe
    from sfumato.planning.planner import Plan
    from sfumato.privacy.guarantee import Guarantee
    from sfumato.tables.schema import Schema

NOISES = ("laplace", "gaussian")
BY_DELTA = "(default gaussian if delta > 0, else laplace)."
BY_PREDICTION = "(default: the one that is predicted to deviate less)."


@dataclasses.dataclass(frozen=True, slots=True)
class Terms:
    """Recipe, schema and guarantee that options stand for. ``plan``: by which the mechanism was chosen, if by one."""

    schema: "Schema | None"
    mechanism: "Recipe"
    guarantee: "Guarantee"
    plan: "Plan | None" = None


@dataclasses.dataclass(frozen=True, slots=True)
class KindOptions:
    """Options and recipe of one kind of release. ``example``: options after its name, without --out."""

    name: str
    text: str
    example: str
    add: Callable[[argparse.ArgumentParser], None]
    terms: Callable[[Any], Terms]


def terms_of(options: Any, mechanism: "Recipe") -> Terms:
    """The recipe with the schema and the guarantee that options state; a recipe in a shared space has its schema."""
    schema = mechanism.schema_for(_given_schema(options))
    if schema is not None and getattr(options, "space", None) is not None and options.columns is None:
        _check_all_held(options, schema)
    return Terms(schema, mechanism, guarantee_of(options))


def _check_all_held(options: Any, schema: "Schema") -> None:
    """Refuse a table that lacks columns of a shared space, with what to say if its owner holds the others alone."""
    from sfumato.files.open_table import open_table
    from sfumato.tables.columns import source_names

    source = open_table(table(options), schema)
    try:
        source.check_columns(schema.source_names)
    except SchemaError as error:
        there = set(source.schema.names)
        held = [column.name for column in schema.data_columns if there.issuperset(source_names(column))]
        if not held or schema.norm is not None:
            raise
        raise SchemaError(f"{error}; if you hold only some of them: --columns {','.join(held)}") from None


def _given_schema(options: Any) -> "Schema | None":
    """The schema of a release that options name; without one, there must be a space."""
    if options.schema is None and options.space is None:
        raise ParameterError("--schema is missing: a release needs one, or a --space, which has one")
    return None if options.schema is None else schema_of(options)


def add_anyway(parser: argparse.ArgumentParser) -> None:
    """The option --anyway."""
    parser.add_argument("--anyway", action="store_true", help="Release it even if the plan says that it is hopeless.")


def check_hopeful(terms: Terms, *, anyway: bool) -> None:
    """Refuse a release that its plan says is hopeless, before anything is charged or read."""
    if terms.plan is not None and terms.plan.hopeless and not anyway:
        raise ParameterError(f"{terms.plan.verdict} Nothing was spent; to release it anyway, add --anyway")


def add_dimension(parser: argparse.ArgumentParser, text: str, *, required: bool = False) -> None:
    """The option --dimension."""
    parser.add_argument("--dimension", type=int, required=required, metavar="N", help=text)


def add_noise(parser: argparse.ArgumentParser, default: str, choices: tuple[str, ...] = NOISES) -> None:
    """The option --noise."""
    parser.add_argument("--noise", choices=choices, default=defaults.NOISE, help=f"Noise distribution {default}")
