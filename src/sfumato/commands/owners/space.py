"""``sfumato space``: a schema and a projection that several owners agree on, made or shown."""

from typing import Any

from sfumato.commands.console.options import SCHEMA, command, tell
from sfumato.errors import ParameterError

_MAKES = ("schema", "family", "dimension", "sparsity", "seed", "out")


def add_space(commands: Any) -> None:
    """``sfumato space``: its options."""
    parser = command(
        commands,
        "space",
        "Make a shared space, or show one. Releases of several owners in the same space can be compared. A space is a "
        "public file: schema, projection and seed. It reads no data and spends no budget.",
        "sfumato space --schema people.toml --dimension 64 --out cohort.space",
        _space,
    )
    parser.set_defaults(stands="the space was made")
    parser.add_argument("space", metavar="FILE", nargs="?", help="Space to show.")
    parser.add_argument("--schema", metavar="FILE", help=f"To make one: {SCHEMA[:1].lower()}{SCHEMA[1:]}")
    parser.add_argument(
        "--dimension", type=int, metavar="N", help="Numbers per record (default: as many as there are encoded columns)."
    )
    parser.add_argument(
        "--family",
        metavar="FAMILY",
        help="Projection: identity, gaussian, rademacher, achlioptas, sparse or orthonormal (default sparse, or "
        "identity without a dimension).",
    )
    parser.add_argument(
        "--sparsity", type=int, metavar="N", help="Nonzero entries per row of a sparse projection (default 1)."
    )
    parser.add_argument("--seed", type=int, metavar="SEED", help="Public seed of the projection (default: random).")
    parser.add_argument("--out", metavar="FILE", help="New file for the space.")


def _space(options: Any) -> None:
    from sfumato.projection.space import Space

    given = [f"--{name}" for name in _MAKES if getattr(options, name) is not None]
    if options.space is not None:
        if given:
            raise ParameterError(f"{given[0]} is for making a space: leave it out to show {options.space}")
        found = Space.read(options.space)
        tell(options, found.to_dict(), found.describe())
        return
    if options.schema is None or options.out is None:
        raise ParameterError("name a space to show, or give --schema and --out to make one")
    made = _made(options)
    made.save(options.out)
    lines = [made.describe(), *_wide(made), f"Space written to {options.out}"]
    tell(options, {"space": options.out} | made.to_dict(), "\n".join(lines))


def _wide(made: Any) -> list[str]:
    """A word on a space with a projection that makes nothing smaller."""
    if made.family == "identity" or made.dimension < made.schema.encoding.dim:
        return []
    return ["It has as many numbers as columns or more: leave --dimension out to keep columns as they are."]


def _made(options: Any) -> Any:
    from sfumato.projection.space import Space
    from sfumato.tables.schema import Schema

    return Space(Schema.read(options.schema), options.family, options.dimension, options.seed, options.sparsity)
