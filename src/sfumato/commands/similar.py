"""Questions of ``sfumato estimate`` about records: distances, the nearest, clusters, and guesses by public labels."""

from typing import Any

from sfumato import untrusted
from sfumato.commands.console.estimates import LISTED, hidden, method_of, print_bar
from sfumato.commands.console.options import add_folder, add_level, command, finite, tell


def add_between_records(questions: Any) -> None:
    """Questions about records, for the parser of estimates."""
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
        if name == "regress":
            add_level(asked)
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


def _distance(options: Any) -> None:
    print_bar(options, "Squared distance", method_of(options, "distance")(options.first, options.second))


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
    lines += hidden(squared, *numbers[2:])
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

    ask = method_of(options, "nearest")
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
    ask = method_of(options, "posterior")
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
    ask = method_of(options, "cluster")
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
    lines = [f"{record:10}   {untrusted.line(guess, 40)}" for record, guess in pairs[:LISTED]]
    more = [f"{len(pairs) - len(lines)} more records (--json has all)."] if len(lines) < len(pairs) else []
    facts, checked = _checked(posterior, options, known, labels)
    said = f"By the {options.k} nearest of {len(known):,} records with public labels. {checked}"
    guesses = [{"record": r, "label": g} for r, g in pairs]
    tell(options, {"guesses": guesses, **facts}, "\n".join([*lines, *more, said]))


def _checked(posterior: Any, options: Any, known: Any, labels: Any) -> tuple[dict[str, Any], str]:
    """How right such guesses are, by labelled records that are guessed by the others: as facts and in words."""
    sampled = "if the labelled records are a random sample of all"
    if options.question == "classify":
        right = posterior.share_right(known, labels, options.k)
        told = f"Of these, {right:.1%} are guessed right by the others; so are other records, {sampled}."
        return {"right": right}, told
    within = posterior.within(known, labels, options.k, options.level)
    told = f"Of other records, {options.level:.0%} are guessed to within {within:.4g}, {sampled}."
    return {"within": finite(within), "level": options.level}, told


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
