"""``sfumato show`` and ``sfumato estimate``: what a release holds, and questions with error bars."""

import math
from typing import Any

from sfumato import untrusted
from sfumato.commands.console.options import add_folder, add_level, command, subcommands, tell

_LISTED = 30  # entries of a table that are printed


def add_show(commands: Any) -> None:
    """``sfumato show``: its options. Says what a release holds, before estimates are asked of it."""
    text = "Show what a release contains and guarantees."
    add_folder(command(commands, "show", text, "sfumato show people.release", _show))


def _show(options: Any) -> None:
    from sfumato.fileformat.plain_words import summary
    from sfumato.releases.release import load

    manifest = load(options.release).manifest
    tell(options, manifest, summary(manifest))


def add_estimate(commands: Any) -> None:
    """``sfumato estimate``, with one subcommand per question."""
    text = "Estimate counts, distances, clusters, correlations, regressions and cuts from a release. Costs no privacy."
    questions = subcommands(commands, "estimate", "QUESTION", text, "sfumato estimate distance people.release 3 17")
    text = "Estimate for how many records a question holds, from the noisy counts behind a synthetic table."
    count = command(questions, "count", text, 'sfumato estimate count people.release "age >= 40 and smoker"', _count)
    add_folder(count)
    count.add_argument("question", metavar="QUESTION", help='Condition on a record, such as "age >= 40 and smoker".')
    add_level(count)
    _add_between_records(questions)
    _add_about_columns(questions)
    text = "Estimate the weight of the edges between a set of vertices and the rest of a graph."
    cut = command(questions, "cut", text, "sfumato estimate cut graph.release 1 2 3", _cut)
    add_folder(cut)
    cut.add_argument("vertices", type=int, nargs="+", metavar="VERTEX", help="Vertices of the set, numbered from 0.")
    add_level(cut)


def _add_between_records(questions: Any) -> None:
    text = "Estimate the squared distance between two records, with its standard error and confidence interval."
    distance = command(questions, "distance", text, "sfumato estimate distance people.release 3 17", _distance)
    add_folder(distance)
    distance.add_argument("first", type=int, metavar="RECORD", help="Number of a record, from 0.")
    distance.add_argument("second", type=int, metavar="RECORD", help="Number of another record.")
    add_level(distance)
    text = (
        "List the records that appear nearest to a record. Of a sketch, they are ranked under a prior that is learned "
        "from the release. Without one, the smallest of many noisy distances tend to be too small."
    )
    nearest = command(questions, "nearest", text, "sfumato estimate nearest people.release 3 --k 10", _nearest)
    add_folder(nearest)
    nearest.add_argument("record", type=int, metavar="RECORD", help="Number of a record, from 0.")
    nearest.add_argument("--k", type=int, default=10, metavar="N", help="Number of neighbours (default 10).")
    _add_prior(nearest, "learned")
    add_level(nearest, "all records together; credible intervals hold for each, however it was chosen")
    text = "Cluster the records by k-means and show the sizes of the clusters."
    cluster = command(questions, "cluster", text, "sfumato estimate cluster people.release 5", _cluster)
    add_folder(cluster)
    cluster.add_argument("clusters", type=int, metavar="K", help="Number of clusters.")
    _add_prior(cluster, "none")
    _add_by_labels(questions)


def _add_by_labels(questions: Any) -> None:
    """The questions that are answered by records whose labels are public."""
    for name, text in (
        (
            "classify",
            "Guess the class of the other records of a sketch by the nearest of those whose classes are public.",
        ),
        (
            "regress",
            "Guess a number for the other records of a sketch by the nearest of those whose numbers are public.",
        ),
    ):
        asked = command(questions, name, text, f"sfumato estimate {name} people.release labels.csv", _by_labels)
        add_folder(asked)
        asked.add_argument(
            "labels", metavar="LABELS", help="CSV file of public labels: a line with the columns record and label each."
        )
        asked.add_argument("--k", type=int, default=10, metavar="N", help="Number of neighbours (default 10).")
        _add_posterior(asked)
        asked.set_defaults(question=name)


def _add_prior(parser: Any, default: str) -> None:
    parser.add_argument(
        "--prior",
        choices=("learned", "none"),
        help=f"Prior of the records of a sketch: learned from the release, or none (default: {default}).",
    )
    _add_posterior(parser)


def _add_posterior(parser: Any) -> None:
    parser.add_argument(
        "--posterior",
        metavar="FILE",
        help="File that keeps the prior learned from the release: used if it is there, and written if not.",
    )


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
            default=_LISTED,
            metavar="N",
            help=f"Entries to print (default {_LISTED}; JSON has all).",
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

    ask = _ask(options, options.question)
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

    found = _ask(options, "regression")(options.target, options.features or None, ridge=options.ridge)
    entries = found.table(options.level).to_pylist()
    head = ["term", "coefficient", "standard error", f"{options.level:.0%} from", "to"]
    rows = [[untrusted.line(entry["term"], 40), *_numbers(entry)] for entry in entries]
    unit, covers = found.coefficients.unit, found.coefficients.covers
    words = [f"Unit: {unit}. Error sources: {covers}.", *found.notes]
    facts = {"target": found.target, "terms": entries, "unit": unit, "covers": covers, "notes": list(found.notes)}
    tell(options, facts, "\n".join([*in_columns([head, *rows]), *words]))


def _ask(options: Any, question: str) -> Any:
    """The release's method for an estimate, which not every kind can give."""
    from sfumato.errors import ReleaseError
    from sfumato.releases.release import load
    from sfumato.report.extreme import check_computable

    release = load(options.release)
    check_computable(release)
    if not hasattr(release, question):
        kind = release.manifest["kind"]
        raise ReleaseError(f"{options.release} is a release of kind {kind!r}, which cannot estimate {question}")
    return getattr(release, question)


def _bar(options: Any, name: str, found: Any) -> None:
    """Print one estimate with its error and interval."""
    low, high = (float(x) for x in found.interval(options.level))
    facts = {"value": float(found.value), "standard_error": float(found.standard_error), "low": low, "high": high}
    text = f"{name}: {facts['value']:.6g} +- {facts['standard_error']:.3g}"
    text = f"{text} ({options.level:.0%}: {low:.6g} to {high:.6g})"
    lines = [text, *_hidden(found, low, high), f"Unit: {found.unit}.", f"Error sources: {found.covers}."]
    tell(options, facts | {"unit": found.unit, "covers": found.covers}, "\n".join(lines))


def _hidden(found: Any, low: Any, high: Any) -> list[str]:
    """Say so where the interval of an estimate excludes nothing."""
    from sfumato.intervals.estimate import HIDDEN

    return [HIDDEN] if found.quantity.filled_by(low, high) else []


def _variance(options: Any) -> None:
    from sfumato.errors import ParameterError

    parts = [part.rpartition("=") if "=" in part else (part, "=", "1") for part in options.direction]
    try:
        direction = {name: float(weight) for name, _, weight in parts}
    except ValueError:
        raise ParameterError("a direction is a list of columns with weights, such as age=1 income=-0.5") from None
    ask = _ask(options, "variance")
    _bar(options, f"Variance about {ask.__self__.about}", ask(direction))


def _components(options: Any) -> None:
    release_components = _ask(options, "principal_components")
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
    _bar(options, "Count", _ask(options, "count")(options.question))


def _cut(options: Any) -> None:
    _bar(options, "Cut", _ask(options, "cut")(options.vertices))


def _distance(options: Any) -> None:
    _bar(options, "Squared distance", _ask(options, "distance")(options.first, options.second))


def _nearest(options: Any) -> None:
    found = _found_nearest(options)
    squared, columns = found.distances, ("record", "squared_distance", "low", "high")
    numbers = [part.tolist() for part in (found.indices, squared.value, *squared.interval(options.level))]
    facts = [dict(zip(columns, row, strict=True)) for row in zip(*numbers, strict=True)]
    level = f"{options.level:.0%}" + " credible" * (squared.kind == "credible")
    lines = [
        f"{record:10}   squared distance {value:.6g} ({level}: {low:.6g} to {high:.6g})"
        for record, value, low, high in zip(*numbers, strict=True)
    ]
    lines += _hidden(squared, *numbers[2:])
    said: dict[str, Any] = {"unit": squared.unit, "covers": squared.covers, "intervals": squared.kind}
    if found.expected is not None:
        said["expected"] = _expected(found.expected)
        lines.append(_expectation(said["expected"], options.k))
    elif options.prior == "learned":
        lines.append("Ranked by the released numbers: no prior could be learned from them that ranks better.")
    lines += [f"Unit: {squared.unit}.", f"Error sources: {squared.covers}."]
    tell(options, {"nearest": facts} | said, "\n".join(lines))


def _found_nearest(options: Any) -> Any:
    """The nearest records, under the prior that was asked for; only sketches have one."""
    from sfumato.errors import ReleaseError
    from sfumato.releases.sketch import SketchRelease

    ask = _ask(options, "nearest")
    if isinstance(ask.__self__, SketchRelease):
        if options.posterior and options.prior != "none":
            _kept_posterior(ask.__self__, options.posterior)
        return ask(options.record, options.k, options.prior or "learned")
    if options.prior == "learned" or options.posterior:
        kind = ask.__self__.manifest["kind"]
        raise ReleaseError(f"{options.release} is a release of kind {kind!r}, of which no prior is learned")
    return ask(options.record, options.k)


def _learned(options: Any) -> Any:
    """The posterior of a sketch, from the file that was named or learned now."""
    ask = _ask(options, "posterior")
    return _kept_posterior(ask.__self__, options.posterior) if options.posterior else ask()


def _kept_posterior(release: Any, file: str) -> Any:
    """The posterior of a release by the prior that a file keeps; learned, and kept there, if there is no file yet."""
    from pathlib import Path

    path = Path(file)
    if path.exists() or path.is_symlink():
        return release.posterior(path)
    found = release.posterior()
    if found.learned:
        found.save(path)
    return found


def _expected(found: Any) -> dict[str, float]:
    """Expected numbers of true neighbours, for JSON."""
    return {name: float(getattr(found, name)[0]) for name in ("among_k", "among_2k", "among_10k")}


def _expectation(expected: dict[str, float], k: int) -> str:
    numbers = [f"{value:.1f}" for value in expected.values()]
    return (
        f"Expected among the truly nearest {k}: {numbers[0]} of these {k}; among {2 * k}: {numbers[1]}; "
        f"among {10 * k}: {numbers[2]}."
    )


def _cluster(options: Any) -> None:
    ask = _ask(options, "cluster")
    if options.prior == "learned" or (options.posterior and options.prior is None):
        ask = _learned(options).cluster
    found = ask(options.clusters)
    sizes = [int((found.labels == group).sum()) for group in range(options.clusters)]
    text = "\n".join(f"Cluster {i}: {size:,} records" for i, size in enumerate(sizes))
    tell(options, {"labels": found.labels.tolist(), "sizes": sizes}, text)


def _by_labels(options: Any) -> None:
    """Guesses for all records without a label; of few of them, as text."""
    import numpy as np

    posterior, (known, labels) = _learned(options), _labelled(options)
    others = np.setdiff1d(np.arange(len(posterior.rows)), known)
    found = getattr(posterior, options.question)(others, known, labels, options.k)
    pairs = list(zip(others.tolist(), found.tolist(), strict=True))
    lines = [f"{record:10}   {untrusted.line(guess, 40)}" for record, guess in pairs[:_LISTED]]
    more = [f"{len(pairs) - len(lines)} more records (--json has all)."] if len(lines) < len(pairs) else []
    said = f"By the {options.k} nearest of {len(known):,} records with public labels. No error bars."
    tell(options, {"guesses": [{"record": r, "label": g} for r, g in pairs]}, "\n".join([*lines, *more, said]))


def _labelled(options: Any) -> tuple[Any, Any]:
    """Records and their public labels, from the file that was named."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv as pc

    from sfumato.errors import ParameterError

    try:
        table = pc.read_csv(options.labels)
        records, labels = (np.asarray(table.column(name).to_pylist()) for name in ("record", "label"))
    except (pa.ArrowException, OSError, KeyError):
        raise ParameterError(f"{options.labels} must be a CSV file with the columns record and label") from None
    if (
        records.dtype.kind not in "iu"
        or labels.dtype == object
        or (options.question == "regress" and labels.dtype.kind not in "iuf")
    ):
        raise ParameterError(
            f"{options.labels}: records are numbers from 0, and labels are there for each of them, all of one kind"
        )
    return records, labels
