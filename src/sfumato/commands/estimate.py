"""``sfumato show`` and ``sfumato estimate``: what a release holds, and questions with error bars."""

import math
from typing import Any

from sfumato import untrusted
from sfumato.commands.console.estimates import LISTED, method_of, print_bar
from sfumato.commands.console.options import add_folder, add_level, command, subcommands, tell
from sfumato.commands.console.records import add_releases, joined_of
from sfumato.commands.similar import add_between_records


def add_show(commands: Any) -> None:
    """``sfumato show``: its options. Says what a release holds, before estimates are asked of it."""
    text = "Show what a release contains and guarantees, or what several sketches of one shared space do together."
    add_releases(command(commands, "show", text, "sfumato show people.release", _show))


def _show(options: Any) -> None:
    from sfumato.fileformat.plain_words import summary
    from sfumato.releases.release import load

    if len(options.release) > 1:
        joined = joined_of(options)
        tell(options, joined.manifest, joined.describe())
        return
    manifest = load(options.release[0]).manifest
    tell(options, manifest, summary(manifest))


def add_estimate(commands: Any) -> None:
    """``sfumato estimate``, with one subcommand per question."""
    text = "Estimate counts, distances, clusters, correlations, regressions and cuts from a release. Costs no privacy."
    questions = subcommands(commands, "estimate", "QUESTION", text, "sfumato estimate distance people.release 3 17")
    text = "Estimate for how many records a question holds, from noisy counts: a histogram, or those behind a table."
    count = command(questions, "count", text, 'sfumato estimate count people.release "age >= 40 and smoker"', _count)
    add_folder(count)
    count.add_argument("question", metavar="QUESTION", help='Condition on a record, such as "age >= 40 and smoker".')
    add_level(count)
    add_between_records(questions)
    _add_about_columns(questions)
    text = "Estimate the weight of the edges between a set of vertices and the rest of a graph."
    cut = command(questions, "cut", text, "sfumato estimate cut graph.release 1 2 3", _cut)
    add_folder(cut)
    cut.add_argument("vertices", type=int, nargs="+", metavar="VERTEX", help="Vertices of the set, numbered from 0.")
    add_level(cut)


def _add_about_columns(questions: Any) -> None:
    _add_moments(questions)
    text = "Estimate the variance of a column, or of a weighted sum of columns, in their own units."
    variance = command(
        questions, "variance", text, "sfumato estimate variance people.release age=1 income=-0.5", _variance
    )
    add_folder(variance)
    variance.add_argument(
        "direction", nargs="+", metavar="COLUMN=WEIGHT", help="Encoded column and its weight (default weight 1)."
    )
    add_level(variance)
    text = "Estimate the principal components: the directions of largest variance."
    components = command(questions, "components", text, "sfumato estimate components people.release 3", _components)
    add_folder(components)
    components.add_argument("count", type=int, metavar="N", help="Number of components.")
    add_level(components, "all intervals together")


def _add_moments(questions: Any) -> None:
    """The questions that tables answer: covariances, correlations, regressions."""
    for name, text in (
        ("correlation", "Estimate the correlations of the columns, the strongest first."),
        ("covariance", "Estimate the variances and covariances of the columns, in their own units."),
    ):
        table = command(questions, name, text, f"sfumato estimate {name} people.release age income", _moments)
        add_folder(table)
        table.add_argument("columns", nargs="*", metavar="COLUMN", help="Columns to estimate for (default: all).")
        table.add_argument(
            "--simultaneous", action="store_true", help="Intervals that hold for all entries at once, so wider ones."
        )
        table.add_argument(
            "--most",
            type=int,
            default=LISTED,
            metavar="N",
            help=f"Entries to print (default {LISTED}; JSON has all).",
        )
        add_level(table)
        table.set_defaults(question=name)
    text = "Estimate a linear regression of one column on others, in their own units."
    example = "sfumato estimate regression people.release income age hours"
    regression = command(questions, "regression", text, example, _regression)
    add_folder(regression)
    regression.add_argument("target", metavar="TARGET", help="Encoded column to explain.")
    regression.add_argument(
        "features",
        nargs="*",
        metavar="FEATURE",
        help="Columns to explain it by. A category stands for its values but the first (default: all others).",
    )
    regression.add_argument(
        "--ridge", type=float, default=0.0, metavar="R", help="Ridge, in squared weighted units (default 0)."
    )
    add_level(regression)


def _moments(options: Any) -> None:
    """A covariance or correlation table, an entry a line."""
    from sfumato.estimation.moment_table import in_columns

    ask = method_of(options, options.question)
    found = ask()
    if options.columns:
        found = found.select(ask.__self__.encoded(options.columns))
    entries = found.table(options.level, simultaneous=options.simultaneous).to_pylist()
    if options.question == "correlation":
        entries = [entry for entry in entries if entry["row"] != entry["column"]]
        entries.sort(key=lambda entry: -abs(entry["value"]) if not math.isnan(entry["value"]) else 1.0)
    head = ["columns", options.question, "standard error", f"{options.level:.0%} from", "to"]
    rows = [
        [f"{untrusted.line(e['row'], 40)}, {untrusted.line(e['column'], 40)}", *_numbers(e)]
        for e in entries[: max(options.most, 0)]
    ]
    more = [f"{len(entries) - len(rows)} more entries (--most N prints more)."] if len(rows) < len(entries) else []
    at_once = "Intervals hold for all entries at once. " if options.simultaneous else ""
    words = [f"{at_once}Unit: {found.unit}. Error sources: {found.found.covers}.", str(found.changed), *found.notes]
    facts = {"entries": [_finite(entry) for entry in entries], "unit": found.unit, "covers": found.found.covers}
    repair = {"eigenvalues": found.changed.eigenvalues, "largest": found.changed.largest, "norm": found.changed.norm}
    said = {"repair": repair, "notes": list(found.notes)}
    tell(options, facts | said, "\n".join([*in_columns([head, *rows]), *more, *words]))


def _numbers(entry: dict[str, Any]) -> list[str]:
    """The numbers of an estimate as a line of a table prints them."""
    return [f"{value:.4g}" for value in entry.values() if isinstance(value, float)]


def _finite(entry: dict[str, Any]) -> dict[str, Any]:
    """An estimate for JSON, which has no nan."""
    return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in entry.items()}


def _regression(options: Any) -> None:
    from sfumato.estimation.moment_table import in_columns

    found = method_of(options, "regression")(options.target, options.features or None, ridge=options.ridge)
    entries = found.table(options.level).to_pylist()
    head = ["term", "coefficient", "standard error", f"{options.level:.0%} from", "to"]
    rows = [[untrusted.line(entry["term"], 40), *_numbers(entry)] for entry in entries]
    unit, covers = found.coefficients.unit, found.coefficients.covers
    words = [f"Unit: {unit}. Error sources: {covers}.", *found.notes]
    facts = {"target": found.target, "terms": entries, "unit": unit, "covers": covers, "notes": list(found.notes)}
    tell(options, facts, "\n".join([*in_columns([head, *rows]), *words]))


def _variance(options: Any) -> None:
    from sfumato.errors import ParameterError

    parts = [part.rpartition("=") if "=" in part else (part, "=", "1") for part in options.direction]
    try:
        direction = {name: float(weight) for name, _, weight in parts}
    except ValueError:
        raise ParameterError("a direction is a list of columns with weights, such as age=1 income=-0.5") from None
    ask = method_of(options, "variance")
    print_bar(options, f"Variance about {ask.__self__.about}", ask(direction))


def _components(options: Any) -> None:
    release_components = method_of(options, "principal_components")
    found = release_components(options.count)
    names = release_components.__self__.names
    lows, highs = found.variances.interval(options.level)
    about = release_components.__self__.about
    facts: list[dict[str, Any]] = []
    lines = [f"Unit: {found.variances.unit}. Intervals are simultaneous."]
    for i, value in enumerate(found.variances.value):
        weights = dict(zip(names, map(float, found.vectors[:, i]), strict=True))
        facts.append({"variance": float(value), "low": float(lows[i]), "high": float(highs[i]), "weights": weights})
        largest = sorted(weights, key=lambda name: -abs(weights[name]))[:4]
        lean = ", ".join(f"{untrusted.line(name)} {weights[name]:+.2f}" for name in largest)
        bar = f"{value:.6g} ({options.level:.0%}: {lows[i]:.6g} to {highs[i]:.6g})"
        lines.append(f"Component {i + 1}: variance {bar}, along {lean}")
    said = {"about": about, "unit": found.variances.unit}
    tell(options, said | {"components": facts}, "\n".join(lines))


def _count(options: Any) -> None:
    print_bar(options, "Count", method_of(options, "count")(options.question))


def _cut(options: Any) -> None:
    print_bar(options, "Cut", method_of(options, "cut")(options.vertices))
