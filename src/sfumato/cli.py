"""The command line: parse, call, print. Exit code 0: done; 2: refused, with one line on stderr.

Modules are imported by the commands that need them, so that help is quick and an interrupt is always caught.
"""

import argparse
import json
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any, NoReturn

from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from sfumato.manifest import Manifest


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, _stop)
        options = _parser().parse_args(arguments)
        options.run(options)
        sys.stdout.flush()
    except SfumatoError as error:
        return _refuse(str(error))
    except (KeyboardInterrupt, _Stopped):
        return _refuse("interrupted; nothing was left behind")
    except MemoryError:
        return _refuse("there is not enough memory for this: lower the dimension")
    except OSError as error:
        return _refuse(f"{error.filename or 'the output'}: {error.strerror or type(error).__name__}")
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _refuse(reason: str) -> int:
    print(f"sfumato: {reason}", file=sys.stderr)
    return 2


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, like all others."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"sfumato: {message} (see {self.prog} --help)\n")


class _Stopped(BaseException):
    """Somebody asked this process to end."""


def _stop(_number: int, _frame: object) -> None:
    raise _Stopped


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="sfumato", description="Publish data under differential privacy through random projections.")
    parser.add_argument("--version", action="version", version=metadata.version("sfumato"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_schema(commands)
    _add_check(commands)
    _add_release(commands)
    _add_show(commands)
    _add_estimate(commands)
    return parser


def _command(commands: Any, name: str, text: str, example: str, run: Callable[[Any], None]) -> argparse.ArgumentParser:
    """A subcommand with an example in its help and --json for machines."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=text,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.set_defaults(run=run)
    return parser


def _tell(options: Any, facts: dict[str, Any], text: str) -> None:
    print(json.dumps(facts, indent=2) if options.json else text)


# ---- schema and check -----------------------------------------------------------------------------------------------


def _add_schema(commands: Any) -> None:
    parser = _command(
        commands,
        "schema",
        "Draft a schema from the names and types of a table's columns; bounds are left for you to fill in.",
        "sfumato schema people.csv > people.toml",
        _schema,
    )
    parser.add_argument("data", help="CSV or Parquet file")
    parser.add_argument(
        "--bounds-from-data",
        action="store_true",
        help="take bounds from the data; NOT PRIVATE, outside every guarantee, and recorded in each manifest",
    )


def _schema(options: Any) -> None:
    from sfumato.schema import bounded_by_data, draft
    from sfumato.tables import open_table

    table = open_table(options.data)
    if options.bounds_from_data:
        text = bounded_by_data(table.schema, table.blocks(table.schema.names, 1 << 16)).to_toml()
        print("sfumato: NOT PRIVATE: these bounds are cells of the data", file=sys.stderr)
    else:
        text = draft(table.schema)
    _tell(options, {"schema": text}, text.rstrip("\n"))


def _add_check(commands: Any) -> None:
    parser = _command(
        commands,
        "check",
        "Compare a table with a schema. What this prints is NOT private: it counts cells of the data.",
        "sfumato check people.csv --schema people.toml",
        _check,
    )
    parser.add_argument("data", help="CSV or Parquet file")
    parser.add_argument("--schema", required=True, help="schema file (TOML)")


def _check(options: Any) -> None:
    from sfumato.schema import Schema, compare
    from sfumato.tables import open_table

    schema = Schema.read(options.schema)
    names = [column.name for column in schema.data_columns]
    findings = compare(schema, open_table(options.data, schema).blocks(names, 1 << 16))
    warning = "NOT PRIVATE: this output counts cells of the data. Do not share it."
    lines = [f"  {f.column}: {f.problem} in {f.count} cells" for f in findings] or ["  every cell fits the schema"]
    facts = {
        "private": False,
        "findings": [{"column": f.column, "problem": f.problem, "count": f.count} for f in findings],
    }
    _tell(options, facts, "\n".join([warning, *lines, warning]))


# ---- release --------------------------------------------------------------------------------------------------------


def _add_release(commands: Any) -> None:
    kinds = commands.add_parser("release", help="Make a private release of a table.").add_subparsers(
        required=True, metavar="KIND"
    )
    parser = _command(
        kinds,
        "sketch",
        "Turn every record into a few noisy numbers that keep the distances between records.",
        "sfumato release sketch people.csv --schema people.toml --epsilon 1 --unit attribute --dimension 32 "
        "--out people.release",
        _release_sketch,
    )
    parser.add_argument("data", help="CSV or Parquet file, or a folder of Parquet files")
    parser.add_argument("--schema", required=True, help="schema file (TOML)")
    parser.add_argument("--out", required=True, help="folder to make")
    parser.add_argument(
        "--epsilon", type=float, required=True, help="probabilities change by a factor of at most e^epsilon"
    )
    parser.add_argument("--delta", type=float, default=0.0, help="and beyond that by at most delta (default 0)")
    parser.add_argument(
        "--unit", choices=("attribute", "record"), default="record", help="what is protected (default record)"
    )
    parser.add_argument("--group", type=int, default=1, help="most rows one person owns (default 1)")
    parser.add_argument(
        "--change", choices=("box", "l1", "l2"), help="how a record may change (default: within bounds)"
    )
    parser.add_argument("--radius", type=float, help="radius of an l1 or l2 change, in weighted units")
    parser.add_argument(
        "--fresh", action="store_true", help="rest the guarantee on a projection drawn for this release"
    )
    parser.add_argument("--dimension", type=int, help="numbers per record (default: no projection)")
    parser.add_argument(
        "--projection", help="identity, gaussian, rademacher, achlioptas, sparse (default), orthonormal"
    )
    parser.add_argument("--noise", choices=("laplace", "gaussian"), default="laplace", help="default laplace")
    parser.add_argument("--sparsity", type=int, help="entries per row of a sparse projection (default 1)")
    parser.add_argument("--seed", type=int, help="public seed of the projection (default: drawn)")
    parser.add_argument("--keep-projection", action="store_true", help="do not publish the projection")


def _release_sketch(options: Any) -> None:
    from sfumato.errors import ParameterError
    from sfumato.guarantee import Change, Guarantee
    from sfumato.mechanisms.sketch import Sketch
    from sfumato.pipeline import release_to
    from sfumato.progress import ProgressLine
    from sfumato.schema import Schema
    from sfumato.tables import open_table

    if options.radius is not None and options.change is None:
        raise ParameterError(f"--radius {options.radius} needs --change l1 or --change l2")
    change = None if options.change is None else Change(options.change, options.radius)
    guarantee = Guarantee(
        epsilon=options.epsilon,
        delta=options.delta,
        unit=options.unit,
        group=options.group,
        change=change,
        projection="fresh" if options.fresh else "fixed",
    )
    sketch = Sketch(
        dimension=options.dimension,
        projection=options.projection,
        noise=options.noise,
        sparsity=options.sparsity,
        seed=options.seed,
        publish_projection=not options.keep_projection,
    )
    schema = Schema.read(options.schema)
    with ProgressLine(open_table(options.data, schema).rows) as progress:
        made = release_to(
            options.out, options.data, schema=schema, mechanism=sketch, guarantee=guarantee, progress=progress
        )
    _tell(options, {"release": options.out, "manifest": made}, f"{_summary(made)}\nwritten to {options.out}")


# ---- show and estimate ----------------------------------------------------------------------------------------------


def _add_show(commands: Any) -> None:
    parser = _command(commands, "show", "Say what a release holds and promises.", "sfumato show people.release", _show)
    parser.add_argument("release", help="release folder")


def _show(options: Any) -> None:
    from sfumato.releases.loading import load

    manifest = load(options.release).manifest
    _tell(options, manifest, _summary(manifest))


def _summary(manifest: "Manifest") -> str:
    from sfumato.manifest import contents, moves, read_guarantee

    lines = [
        contents(manifest),
        read_guarantee(manifest["guarantee"]).describe(),
        moves(manifest),
        *(f"warning: {line}" for line in manifest["warnings"]),
    ]
    return "\n".join(lines)


def _add_estimate(commands: Any) -> None:
    questions = commands.add_parser("estimate", help="Ask a release, with error bars.").add_subparsers(
        required=True, metavar="QUESTION"
    )
    text = "Squared distance between two records, with its standard error and an interval."
    distance = _command(questions, "distance", text, "sfumato estimate distance people.release 3 17", _distance)
    distance.add_argument("release", help="release folder")
    distance.add_argument("first", type=int, help="position of a record")
    distance.add_argument("second", type=int, help="position of another")
    distance.add_argument("--level", type=float, default=0.95, help="of the interval (default 0.95)")
    text = "The records that look nearest to one."
    nearest = _command(questions, "nearest", text, "sfumato estimate nearest people.release 3 --k 10", _nearest)
    nearest.add_argument("release", help="release folder")
    nearest.add_argument("record", type=int, help="position of a record")
    nearest.add_argument("--k", type=int, default=10, help="how many (default 10)")
    text = "Group the records by k-means."
    cluster = _command(questions, "cluster", text, "sfumato estimate cluster people.release 5", _cluster)
    cluster.add_argument("release", help="release folder")
    cluster.add_argument("clusters", type=int, help="how many groups")


def _distance(options: Any) -> None:
    from sfumato.releases.loading import load

    found = load(options.release).distance(options.first, options.second)
    low, high = (float(x) for x in found.interval(options.level))
    facts = {"value": float(found.value), "standard_error": float(found.standard_error), "low": low, "high": high}
    bar = f"{facts['value']:.6g} +- {facts['standard_error']:.3g}"
    text = f"squared distance {bar} ({options.level:.0%}: {low:.6g} to {high:.6g})"
    _tell(options, facts | {"covers": found.covers}, f"{text}\n{found.covers}")


def _nearest(options: Any) -> None:
    from sfumato.releases.loading import load

    found = load(options.release).nearest(options.record, options.k)
    pairs = [(int(i), float(d)) for i, d in zip(found.indices, found.distances.value, strict=True)]
    text = "\n".join(f"{i:10}   squared distance {d:.6g}" for i, d in pairs)
    _tell(options, {"nearest": [{"record": i, "squared_distance": d} for i, d in pairs]}, text)


def _cluster(options: Any) -> None:
    from sfumato.releases.loading import load

    found = load(options.release).cluster(options.clusters)
    sizes = [int((found.labels == group).sum()) for group in range(options.clusters)]
    text = "\n".join(f"group {i}: {size:,} records" for i, size in enumerate(sizes))
    _tell(options, {"labels": found.labels.tolist(), "sizes": sizes}, text)


def entry() -> None:
    """The console script."""
    sys.exit(main())


if __name__ == "__main__":
    entry()
