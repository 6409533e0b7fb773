"""``sfumato attack``: what attacks make of releases, against epsilon, beside guessing and beside no privacy at all."""

import argparse
from typing import TYPE_CHECKING, Any

from sfumato.commands.console.options import SCHEMA, add_dialect, add_plot, command, schema_of, subcommands, table, tell
from sfumato.errors import MissingDependency, ParameterError

if TYPE_CHECKING:
    from sfumato.attacks.curves import Curve
    from sfumato.attacks.example_data import TargetTable
    from sfumato.attacks.table_game import TableGame

_RECONSTRUCTION = "sfumato attack reconstruction --epsilons 1 16 256 --plot attack.svg"


def add_attack(commands: Any) -> None:
    """``sfumato attack``: its options."""
    text = "Attack releases and show the success rate of the attacker for each epsilon."
    kinds = subcommands(commands, "attack", "ATTACK", text, _RECONSTRUCTION)
    _add_reconstruction(kinds)
    _add_membership(kinds)
    _add_linkage(kinds)
    _add_attributes(kinds)


def _add_reconstruction(kinds: Any) -> None:
    text = (
        "Recover the data from sketches. Columns by independent component analysis, known records and the public "
        "projection; flags by maximum likelihood."
    )
    parser = command(kinds, "reconstruction", text, _RECONSTRUCTION, _reconstruction)
    _add_data(parser, "pixels of handwritten digits, and random flags")
    _add_unit(parser, "record")
    _add_runs(parser, [1.0, 4.0, 16.0, 64.0, 256.0], 3)


def _add_membership(kinds: Any) -> None:
    text = "Infer which records were in the data behind synthetic records, or behind a synthetic table."
    parser = command(kinds, "membership", text, "sfumato attack membership --epsilons 1 8 --repeats 4", _membership)
    _add_data(parser, "handwritten digits; with --table, 1600 generated people")
    _add_table(parser, "synthetic records")
    parser.add_argument("--label", metavar="COLUMN", help="Column of class labels (needs --data).")
    parser.add_argument(
        "--dimension", type=int, metavar="N", help="Numbers per synthetic record (default 32, or all columns if fewer)."
    )
    _add_pool(parser)
    parser.add_argument(
        "--shadows", type=int, default=4, metavar="N", help="Releases that the attacker trains on (default 4)."
    )
    _add_runs(parser, [0.5, 1.5, 8.0, 64.0, 1000.0], 4)


def _add_linkage(kinds: Any) -> None:
    text = (
        "Find the record of a user of whom a few flags are known. In noisy records, sketches and randomized response. "
        "With --table, find out the other columns of a person from the nearest row of a synthetic table."
    )
    parser = command(kinds, "linkage", text, "sfumato attack linkage --known 4 --epsilons 0.5 2 8", _linkage)
    _add_data(parser, "500 generated users with 294 flags; with --table, 1600 generated people")
    _add_table(parser, "sketches and randomized response")
    _add_unit(parser, "attribute")
    _add_pool(parser, " (needs --table)")
    parser.add_argument(
        "--known", type=int, default=4, metavar="N", help="Flags, or columns, known of each user (default 4)."
    )
    parser.add_argument("--targets", type=int, default=100, metavar="N", help="Users to look for (default 100).")
    parser.add_argument(
        "--dimension", type=int, default=64, metavar="N", help="Numbers per record in a sketch (default 64)."
    )
    _add_runs(parser, [0.5, 1.0, 2.0, 4.0, 8.0], 2)


def _add_attributes(kinds: Any) -> None:
    text = "Infer one column of a record from the others, with a model trained on a synthetic table."
    example = "sfumato attack attributes --epsilons 1 16 --repeats 4"
    parser = command(kinds, "attributes", text, example, _attributes)
    _add_data(parser, "1600 generated people")
    parser.add_argument("--column", metavar="COLUMN", help="Column to infer (needs --data; default: the last one).")
    _add_pool(parser)
    _add_runs(parser, [0.5, 1.0, 4.0, 16.0, 64.0], 4)


def _add_table(parser: argparse.ArgumentParser, other: str) -> None:
    parser.add_argument("--table", action="store_true", help=f"Attack synthetic tables instead of {other}.")


def _add_pool(parser: argparse.ArgumentParser, only: str = "") -> None:
    parser.add_argument(
        "--delta", type=float, default=1e-6, metavar="DELTA", help=f"Delta of the releases{only} (default 1e-6)."
    )
    parser.add_argument(
        "--pool",
        type=int,
        metavar="N",
        help=f"Candidate records, half of which are members{only} (default 800, or half of all if fewer).",
    )


def _add_data(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--data", metavar="TABLE", help=f"Table to attack. The output is then NOT PRIVATE (default: {default})."
    )
    parser.add_argument("--schema", metavar="FILE", help=SCHEMA)
    add_dialect(parser)


def _add_unit(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--unit",
        choices=("attribute", "record"),
        default=default,
        help=f"What is protected: one value of a record (attribute) or one record (default {default}).",
    )


def _add_runs(parser: argparse.ArgumentParser, epsilons: list[float], repeats: int) -> None:
    shown = " ".join(f"{e:g}" for e in epsilons)
    parser.add_argument(
        "--epsilons",
        type=float,
        nargs="+",
        default=epsilons,
        metavar="EPSILON",
        help=f"Epsilons of the releases (default {shown}).",
    )
    parser.add_argument(
        "--repeats", type=int, default=repeats, metavar="N", help=f"Releases for each epsilon (default {repeats})."
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="SEED", help="Seed of the attacker and public projections (default 0)."
    )
    add_plot(parser, "success against epsilon")


def _given(options: Any) -> "TargetTable | None":
    """The case to attack that the options name, once they are known to be sound."""
    from importlib.util import find_spec

    from sfumato import check

    if find_spec("sklearn") is None:
        raise MissingDependency("attacks need scikit-learn: pip install 'sfumato[sklearn]'")
    check.positive(**{f"epsilons[{i}]": epsilon for i, epsilon in enumerate(options.epsilons)})
    check.whole(1, repeats=options.repeats)
    check.whole(0, seed=options.seed)
    if (options.data is None) != (options.schema is None):
        raise ParameterError("--data and --schema are needed together")
    if options.data is None:
        return None
    from sfumato.attacks.example_data import TargetTable

    return TargetTable.read(table(options), schema_of(options))


def _told(options: Any, name: str, curves: "list[Curve]") -> None:
    from sfumato.attacks.curves import table

    if options.plot is not None:
        from sfumato.report.plots import draw_attacks

        draw_attacks(options.plot, f"{name}: success against epsilon", curves)
    tell(options, {"attack": name, "curves": [curve.to_dict() for curve in curves]}, table(curves))


def _reconstruction(options: Any) -> None:
    case = _given(options)
    import numpy as np

    from sfumato.attacks import example_data, reconstruction

    runs = {"repeats": options.repeats, "seed": options.seed}
    curves = reconstruction.columns(case or example_data.pixels(), options.epsilons, unit=options.unit, **runs)
    bits = example_data.fair_bits(300, 10, np.random.default_rng(options.seed)) if case is None else case
    if reconstruction.guessable(bits):
        curves += reconstruction.bits(bits, options.epsilons, **runs)
    _told(options, "reconstruction", curves)


def _table_game(options: Any, label: str | None = None) -> "TableGame":
    """The game of a synthetic table that the options name."""
    case = _given(options)
    import numpy as np

    from sfumato.attacks import example_data
    from sfumato.attacks.table_game import TableGame
    from sfumato.mechanisms.table.recipe import Table

    chosen = case or example_data.people(1600, np.random.default_rng(options.seed))
    pool = options.pool or min(800, chosen.rows // 2)
    return TableGame.of(chosen, Table(label=label), pool=pool, delta=options.delta, seed=options.seed)


def _attributes(options: Any) -> None:
    game = _table_game(options, options.column)
    from sfumato.attacks import attribute_inference

    column = options.column or game.case.schema.data_columns[-1].name
    runs = {"runs": options.repeats, "seed": options.seed}
    _told(options, "attributes", attribute_inference.curves(game, column, options.epsilons, **runs))


def _table_membership(options: Any) -> None:
    game = _table_game(options, options.label)
    from sfumato.attacks import table_membership

    runs = {"shadows": options.shadows, "runs": options.repeats, "seed": options.seed}
    _told(options, "membership", table_membership.curves(game, options.epsilons, **runs))


def _table_linkage(options: Any) -> None:
    game = _table_game(options)
    from sfumato.attacks import linkage

    runs = {"runs": options.repeats, "seed": options.seed}
    _told(options, "linkage", linkage.table_curves(game, options.known, options.epsilons, **runs))


def _membership(options: Any) -> None:
    (_table_membership if options.table else _row_membership)(options)


def _row_membership(options: Any) -> None:
    case = _given(options)
    from sfumato.attacks import example_data, membership
    from sfumato.tables.labels import Labelled

    if case is not None and options.label is None:
        raise ParameterError("--data needs --label, the column of class labels")
    chosen, label = (example_data.digits(), "digit") if case is None else (case, options.label)
    columns = Labelled.of(chosen.schema, label, "classes").others.encoding.dim
    game = membership.Game.of(
        chosen,
        label,
        dimension=options.dimension or min(32, columns),
        pool=options.pool or min(800, chosen.rows // 2),
        delta=options.delta,
        seed=options.seed,
    )
    runs = {"shadows": options.shadows, "runs": options.repeats, "seed": options.seed}
    _told(options, "membership", membership.curves(game, options.epsilons, **runs))


def _linkage(options: Any) -> None:
    (_table_linkage if options.table else _row_linkage)(options)


def _row_linkage(options: Any) -> None:
    case = _given(options)
    import numpy as np

    from sfumato.attacks import example_data, linkage

    chosen = case or example_data.users(500, np.random.default_rng(options.seed))
    bits = linkage.true_bits(chosen)
    knowledge = linkage.Knowledge.of(bits, known=options.known, targets=options.targets, seed=options.seed)
    runs = {"unit": options.unit, "dimension": options.dimension, "repeats": options.repeats}
    _told(options, "linkage", linkage.curves(chosen, options.epsilons, knowledge, **runs))
