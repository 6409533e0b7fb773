"""``sfumato show`` and ``sfumato estimate``: what a release holds, and questions with error bars."""

from typing import Any

from sfumato import untrusted
from sfumato.commands.options import command, tell


def add_show(commands: Any) -> None:
    """``sfumato show``."""
    parser = command(commands, "show", "Say what a release holds and promises.", "sfumato show people.release", _show)
    parser.add_argument("release", help="release folder")


def _show(options: Any) -> None:
    from sfumato.fileformat.plain_words import summary
    from sfumato.releases.release import load

    manifest = load(options.release).manifest
    tell(options, manifest, summary(manifest))


def add_estimate(commands: Any) -> None:
    """``sfumato estimate``."""
    questions = commands.add_parser("estimate", help="Ask a release, with error bars.").add_subparsers(
        required=True, metavar="QUESTION"
    )
    text = "Squared distance between two records, with its standard error and an interval."
    distance = command(questions, "distance", text, "sfumato estimate distance people.release 3 17", _distance)
    distance.add_argument("release", help="release folder")
    distance.add_argument("first", type=int, help="position of a record")
    distance.add_argument("second", type=int, help="position of another")
    distance.add_argument("--level", type=float, default=0.95, help="of the interval (default 0.95)")
    text = "The records that look nearest to one; the smallest of many noisy distances look smaller than they are."
    nearest = command(questions, "nearest", text, "sfumato estimate nearest people.release 3 --k 10", _nearest)
    nearest.add_argument("release", help="release folder")
    nearest.add_argument("record", type=int, help="position of a record")
    nearest.add_argument("--k", type=int, default=10, help="how many (default 10)")
    text = "Group the records by k-means."
    cluster = command(questions, "cluster", text, "sfumato estimate cluster people.release 5", _cluster)
    cluster.add_argument("release", help="release folder")
    cluster.add_argument("clusters", type=int, help="how many groups")
    text = "The variance of the records along a direction: columns and their weights."
    variance = command(
        questions, "variance", text, "sfumato estimate variance people.release age=1 income=-0.5", _variance
    )
    variance.add_argument("release", help="release folder")
    variance.add_argument("direction", nargs="+", help="encoded columns, each with =weight (default 1)")
    variance.add_argument("--level", type=float, default=0.95, help="of the interval (default 0.95)")
    text = "The directions of largest variance."
    components = command(questions, "components", text, "sfumato estimate components people.release 3", _components)
    components.add_argument("release", help="release folder")
    components.add_argument("count", type=int, help="how many")
    components.add_argument("--level", type=float, default=0.95, help="of the intervals, all at once (default 0.95)")
    text = "The weight of the edges between some vertices of a graph and the others."
    cut = command(questions, "cut", text, "sfumato estimate cut graph.release 1 2 3", _cut)
    cut.add_argument("release", help="release folder")
    cut.add_argument("vertices", type=int, nargs="+", help="the vertices on one side")
    cut.add_argument("--level", type=float, default=0.95, help="of the interval (default 0.95)")


def _ask(options: Any, question: str) -> Any:
    """The release's method for a question, which not every kind can answer."""
    from sfumato.errors import ReleaseError
    from sfumato.releases.release import load
    from sfumato.report.extreme import check_computable

    release = load(options.release)
    check_computable(release)
    if not hasattr(release, question):
        raise ReleaseError(f"{options.release} is a release of kind {release.manifest['kind']!r}: it has no {question}")
    return getattr(release, question)


def _bar(options: Any, name: str, found: Any) -> None:
    """One estimate with its error and interval."""
    low, high = (float(x) for x in found.interval(options.level))
    facts = {"value": float(found.value), "standard_error": float(found.standard_error), "low": low, "high": high}
    text = f"{name} {facts['value']:.6g} +- {facts['standard_error']:.3g}"
    text = f"{text} ({options.level:.0%}: {low:.6g} to {high:.6g})"
    tell(options, facts | {"covers": found.covers}, f"{text}\nError sources: {found.covers}.")


def _variance(options: Any) -> None:
    from sfumato.errors import ParameterError

    parts = [part.rpartition("=") if "=" in part else (part, "=", "1") for part in options.direction]
    try:
        direction = {name: float(weight) for name, _, weight in parts}
    except ValueError:
        raise ParameterError("a direction is columns with weights, such as age=1 income=-0.5") from None
    ask = _ask(options, "variance")
    _bar(options, f"variance about {ask.__self__.about}", ask(direction))


def _components(options: Any) -> None:
    release_components = _ask(options, "principal_components")
    found = release_components(options.count)
    names = release_components.__self__.names
    lows, highs = found.variances.interval(options.level)
    about = release_components.__self__.about
    facts: list[dict[str, Any]] = []
    lines = [f"variances about {about}, in the schema's weighted units; the intervals hold all at once"]
    for i, value in enumerate(found.variances.value):
        weights = dict(zip(names, map(float, found.vectors[:, i]), strict=True))
        facts.append({"variance": float(value), "low": float(lows[i]), "high": float(highs[i]), "weights": weights})
        largest = sorted(weights, key=lambda name: -abs(weights[name]))[:4]
        lean = ", ".join(f"{untrusted.line(name)} {weights[name]:+.2f}" for name in largest)
        lines.append(f"variance {value:.6g} ({options.level:.0%}: {lows[i]:.6g} to {highs[i]:.6g}) along {lean}")
    tell(options, {"about": about, "components": facts}, "\n".join(lines))


def _cut(options: Any) -> None:
    _bar(options, "cut", _ask(options, "cut")(options.vertices))


def _distance(options: Any) -> None:
    _bar(options, "squared distance", _ask(options, "distance")(options.first, options.second))


def _nearest(options: Any) -> None:
    found = _ask(options, "nearest")(options.record, options.k)
    pairs = [(int(i), float(d)) for i, d in zip(found.indices, found.distances.value, strict=True)]
    text = "\n".join(f"{i:10}   squared distance {d:.6g}" for i, d in pairs)
    tell(options, {"nearest": [{"record": i, "squared_distance": d} for i, d in pairs]}, text)


def _cluster(options: Any) -> None:
    found = _ask(options, "cluster")(options.clusters)
    sizes = [int((found.labels == group).sum()) for group in range(options.clusters)]
    text = "\n".join(f"group {i}: {size:,} records" for i, size in enumerate(sizes))
    tell(options, {"labels": found.labels.tolist(), "sizes": sizes}, text)
