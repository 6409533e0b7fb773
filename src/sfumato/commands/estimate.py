"""``sfumato show`` and ``sfumato estimate``: what a release holds, and questions with error bars."""

from typing import Any

from sfumato import untrusted
from sfumato.commands.options import add_folder, add_level, command, subcommands, tell


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
    text = "Estimate distances, clusters, variances and cuts from a release, with error bars. Costs no privacy."
    questions = subcommands(commands, "estimate", "QUESTION", text, "sfumato estimate distance people.release 3 17")
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
        "List the records that appear nearest to a record. The smallest of many noisy distances tend to be too small."
    )
    nearest = command(questions, "nearest", text, "sfumato estimate nearest people.release 3 --k 10", _nearest)
    add_folder(nearest)
    nearest.add_argument("record", type=int, metavar="RECORD", help="Number of a record, from 0.")
    nearest.add_argument("--k", type=int, default=10, metavar="N", help="Number of neighbours (default 10).")
    add_level(nearest, "all records together")
    text = "Cluster the records by k-means and show the sizes of the clusters."
    cluster = command(questions, "cluster", text, "sfumato estimate cluster people.release 5", _cluster)
    add_folder(cluster)
    cluster.add_argument("clusters", type=int, metavar="K", help="Number of clusters.")


def _add_about_columns(questions: Any) -> None:
    text = "Estimate the variance of a weighted sum of columns."
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


def _cut(options: Any) -> None:
    _bar(options, "Cut", _ask(options, "cut")(options.vertices))


def _distance(options: Any) -> None:
    _bar(options, "Squared distance", _ask(options, "distance")(options.first, options.second))


def _nearest(options: Any) -> None:
    found = _ask(options, "nearest")(options.record, options.k)
    squared, columns = found.distances, ("record", "squared_distance", "low", "high")
    numbers = [part.tolist() for part in (found.indices, squared.value, *squared.interval(options.level))]
    facts = [dict(zip(columns, row, strict=True)) for row in zip(*numbers, strict=True)]
    lines = [
        f"{record:10}   squared distance {value:.6g} ({options.level:.0%}: {low:.6g} to {high:.6g})"
        for record, value, low, high in zip(*numbers, strict=True)
    ]
    lines += _hidden(squared, *numbers[2:])
    lines += [f"Unit: {squared.unit}.", f"Error sources: {squared.covers}."]
    tell(options, {"nearest": facts, "unit": squared.unit, "covers": squared.covers}, "\n".join(lines))


def _cluster(options: Any) -> None:
    found = _ask(options, "cluster")(options.clusters)
    sizes = [int((found.labels == group).sum()) for group in range(options.clusters)]
    text = "\n".join(f"Cluster {i}: {size:,} records" for i, size in enumerate(sizes))
    tell(options, {"labels": found.labels.tolist(), "sizes": sizes}, text)
