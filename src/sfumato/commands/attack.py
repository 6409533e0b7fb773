"""``sfumato attack``: what attacks make of releases, against epsilon, beside guessing and beside no privacy at all."""

import argparse
from typing import TYPE_CHECKING, Any

from sfumato.commands.options import SCHEMA, add_dialect, add_plot, command, schema_of, subcommands, table, tell
from sfumato.errors import MissingDependency, ParameterError

if TYPE_CHECKING:
    from sfumato.attacks.curves import Curve
    from sfumato.attacks.example_data import TargetTable

_RECONSTRUCTION = "sfumato attack reconstruction --epsilons 1 16 256 --plot attack.svg"


def add_attack(commands: Any) -> None:
    """``sfumato attack``: its options."""
    text = "Attack releases and show the success rate of the attacker for each epsilon."
    kinds = subcommands(commands, "attack", "ATTACK", text, _RECONSTRUCTION)
    _add_reconstruction(kinds)
    _add_membership(kinds)
    _add_linkage(kinds)


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
    text = "Infer which records were in the data behind synthetic records. By shadow models and by likelihood ratios."
    parser = command(kinds, "membership", text, "sfumato attack membership --epsilons 1 8 --repeats 4", _membership)
    _add_data(parser, "handwritten digits")
    parser.add_argument("--label", metavar="COLUMN", help="Column of class labels (needs --data).")
    parser.add_argument(
        "--dimension", type=int, metavar="N", help="Numbers per synthetic record (default 32, or all columns if fewer)."
    )
    parser.add_argument(
        "--delta", type=float, default=1e-6, metavar="DELTA", help="Delta of the releases (default 1e-6)."
    )
    parser.add_argument(
        "--pool",
        type=int,
        metavar="N",
        help="Candidate records, half of which are members (default 800, or half of all if fewer).",
    )
    parser.add_argument(
        "--shadows", type=int, default=4, metavar="N", help="Releases that the attacker trains on (default 4)."
    )
    _add_runs(parser, [0.5, 1.5, 8.0, 64.0, 1000.0], 4)


def _add_linkage(kinds: Any) -> None:
    text = (
        "Find the record of a user of whom a few flags are known. In noisy records, sketches and randomized response."
    )
    parser = command(kinds, "linkage", text, "sfumato attack linkage --known 4 --epsilons 0.5 2 8", _linkage)
    _add_data(parser, "500 generated users with 294 flags")
    _add_unit(parser, "attribute")
    parser.add_argument(
        "--known", type=int, default=4, metavar="N", help="Flags known of each user, all set (default 4)."
    )
    parser.add_argument("--targets", type=int, default=100, metavar="N", help="Users to look for (default 100).")
    parser.add_argument(
        "--dimension", type=int, default=64, metavar="N", help="Numbers per record in a sketch (default 64)."
    )
    _add_runs(parser, [0.5, 1.0, 2.0, 4.0, 8.0], 2)


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


def _membership(options: Any) -> None:
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
    case = _given(options)
    import numpy as np

    from sfumato.attacks import example_data, linkage

    chosen = case or example_data.users(500, np.random.default_rng(options.seed))
    bits = linkage.true_bits(chosen)
    knowledge = linkage.Knowledge.of(bits, known=options.known, targets=options.targets, seed=options.seed)
    runs = {"unit": options.unit, "dimension": options.dimension, "repeats": options.repeats}
    _told(options, "linkage", linkage.curves(chosen, options.epsilons, knowledge, **runs))
