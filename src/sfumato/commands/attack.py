"""``sfumato attack``: what attacks make of releases, against epsilon, beside guessing and beside no privacy at all."""

import argparse
from typing import TYPE_CHECKING, Any

from sfumato.commands.options import add_plot, command, tell
from sfumato.errors import MissingDependency, ParameterError

if TYPE_CHECKING:
    from sfumato.attacks.curves import Curve
    from sfumato.attacks.example_data import TargetTable


def add_attack(commands: Any) -> None:
    """``sfumato attack``."""
    attacks = commands.add_parser("attack", help="Attack releases, and see what epsilon leaves to an attacker.")
    kinds = attacks.add_subparsers(required=True, metavar="ATTACK")
    _add_reconstruction(kinds)
    _add_membership(kinds)
    _add_linkage(kinds)


def _add_reconstruction(kinds: Any) -> None:
    text = (
        "Recover columns by ICA, known pairs and the public P, and bits by their likelihood: from sketches, and bare."
    )
    example = "sfumato attack reconstruction --epsilons 1 16 256 --plot attack.svg"
    parser = command(kinds, "reconstruction", text, example, _reconstruction)
    _add_data(parser, "pixels of handwritten digits, and made-up bits")
    parser.add_argument(
        "--unit", choices=("attribute", "record"), default="record", help="for columns (default record)"
    )
    _add_runs(parser, [1.0, 4.0, 16.0, 64.0, 256.0], 3)


def _add_membership(kinds: Any) -> None:
    text = "Tell who was among the records behind synthetic rows, by shadow models and by likelihoods."
    parser = command(kinds, "membership", text, "sfumato attack membership --epsilons 1 8 --repeats 4", _membership)
    _add_data(parser, "handwritten digits")
    parser.add_argument("--label", help="column of classes (with --data)")
    parser.add_argument("--dimension", type=int, help="numbers per synthetic row (default 32, or all columns)")
    parser.add_argument("--delta", type=float, default=1e-6, help="default 1e-6")
    parser.add_argument("--pool", type=int, help="records half of which are in (default 800, or half of all)")
    parser.add_argument("--shadows", type=int, default=4, help="releases the attacker learns from (default 4)")
    _add_runs(parser, [0.5, 1.5, 8.0, 64.0, 1000.0], 4)


def _add_linkage(kinds: Any) -> None:
    text = "Find the rows of users of whom a few bits are known: behind noise, in sketches, in randomized answers."
    parser = command(kinds, "linkage", text, "sfumato attack linkage --known 4 --epsilons 0.5 2 8", _linkage)
    _add_data(parser, "500 made-up users of 294 flags")
    parser.add_argument("--unit", choices=("attribute", "record"), default="attribute", help="default attribute")
    parser.add_argument("--known", type=int, default=4, help="how many true flags are known of a user (default 4)")
    parser.add_argument("--targets", type=int, default=100, help="how many users are looked for (default 100)")
    parser.add_argument("--dimension", type=int, default=64, help="numbers per record of a sketch (default 64)")
    _add_runs(parser, [0.5, 1.0, 2.0, 4.0, 8.0], 2)


def _add_data(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument("--data", help=f"attack this table; what is printed is then not private (default: {default})")
    parser.add_argument("--schema", help="schema file (TOML) of the data")


def _add_runs(parser: argparse.ArgumentParser, epsilons: list[float], repeats: int) -> None:
    shown = " ".join(f"{e:g}" for e in epsilons)
    parser.add_argument("--epsilons", type=float, nargs="+", default=epsilons, help=f"default {shown}")
    parser.add_argument("--repeats", type=int, default=repeats, help=f"releases for each epsilon (default {repeats})")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the attacker's choices and public projections (default 0)"
    )
    add_plot(parser, "also draw the curves")


def _given(options: Any) -> "TargetTable | None":
    """The case that the options name, once they are known to be sound."""
    from importlib.util import find_spec

    from sfumato import check

    if find_spec("sklearn") is None:
        raise MissingDependency("attacks need scikit-learn: pip install 'sfumato[sklearn]'")
    check.positive(**{f"epsilons[{i}]": epsilon for i, epsilon in enumerate(options.epsilons)})
    check.whole(1, repeats=options.repeats)
    check.whole(0, seed=options.seed)
    if (options.data is None) != (options.schema is None):
        raise ParameterError("--data and --schema go together: the schema says what the data may be")
    if options.data is None:
        return None
    from sfumato.attacks.example_data import TargetTable
    from sfumato.tables.schema import Schema

    return TargetTable.read(options.data, Schema.read(options.schema))


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
        raise ParameterError("--data needs --label, the column of classes")
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
