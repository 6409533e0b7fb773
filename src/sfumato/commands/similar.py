"""Questions of ``sfumato estimate`` about records: distances, the nearest, clusters, and guesses by public labels."""

import argparse
from typing import Any

from sfumato import untrusted
from sfumato.commands.console.estimates import LISTED, hidden, method_of, print_bar
from sfumato.commands.console.options import add_folder, add_level, command, finite, tell
from sfumato.commands.console.records import AskedRecords, add_record, add_releases

_PAIRS = {  # questions about two records: the method, what is printed, and what it is, for help
    "distance": ("distance", "Squared distance", "squared distance between two records"),
    "inner-product": ("inner_product", "Inner product", "inner product of two records"),
    "cosine": ("cosine", "Cosine", "cosine of the angle between two records"),
    "hamming": ("hamming", "Hamming distance", "number of flags in which two records differ"),
    "jaccard": ("jaccard", "Jaccard similarity", "Jaccard similarity of the flags of two records"),
}


def add_between_records(questions: Any) -> None:
    """Questions about records, for the parser of estimates."""
    for name, (_, _, what) in _PAIRS.items():
        text = f"Estimate the {what}, with its standard error and confidence interval."
        pair = command(questions, name, text, f"sfumato estimate {name} people.release 3 17", _pair)
        add_releases(pair)
        add_record(pair, "first", "a record")
        add_record(pair, "second", "another record")
        add_level(pair)
        pair.set_defaults(question=name)
    text = (
        "List the records that appear nearest to a record. Of a sketch, they are ranked under a prior that is learned "
        "from the release. Without one, the smallest of many noisy distances tend to be too small."
    )
    nearest = command(questions, "nearest", text, "sfumato estimate nearest people.release 3 --k 10", _nearest)
    add_releases(nearest)
    add_record(nearest, "record", "a record")
    nearest.add_argument("--among", metavar="OWNER", help="Of several releases, the owner of whose records to choose.")
    nearest.add_argument("--k", type=int, default=10, metavar="N", help="Number of neighbours (default 10).")
    _add_prior(nearest, "learned")
    add_level(nearest, "all records together; credible intervals hold for each, however it was chosen")
    text = "Cluster the records by k-means and show the sizes of the clusters."
    cluster = command(questions, "cluster", text, "sfumato estimate cluster people.release 5", _cluster)
    add_releases(cluster)
    cluster.add_argument("clusters", type=_clusters, metavar="K", help="Number of clusters.")
    _add_prior(cluster, "none")
    _add_by_labels(questions)


def _clusters(text: str) -> int:
    """The number of clusters out of the last word of the command line."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"the number of clusters is missing: it comes last, after the releases, got {text!r}"
        ) from None


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


def _pair(options: Any) -> None:
    """One estimate about two records."""
    method, title, _ = _PAIRS[options.question]
    asked = AskedRecords(options, method)
    found = asked.ask(asked.place(options.first), asked.place(options.second))
    if method != "distance":  # which is of two records; others are of any number of pairs
        from sfumato.owners.pairs import single

        found = single(found)
    print_bar(options, title, found)


def _nearest(options: Any) -> None:
    asked = AskedRecords(options, "nearest")
    found = _found_nearest(options, asked)
    squared, names = found.distances, asked.names(found.indices)
    numbers = [part.tolist() for part in (squared.value, *squared.interval(options.level))]
    facts = [
        {**({} if name.owner is None else {"owner": name.owner}), "record": name.number}
        | dict(zip(("squared_distance", "low", "high"), row, strict=True))
        for name, row in zip(names, zip(*numbers, strict=True), strict=True)
    ]
    level = f"{options.level:.0%}" + " credible" * (squared.kind == "credible")
    lines = [
        f"{untrusted.line(str(name), 40):>10}   squared distance {value:.6g} ({level}: {low:.6g} to {high:.6g})"
        for name, value, low, high in zip(names, *numbers, strict=True)
    ]
    lines += hidden(squared, *numbers[1:])
    said: dict[str, Any] = {"unit": squared.unit, "covers": squared.covers, "intervals": squared.kind}
    if found.expected is not None:
        said["expected"] = _expected(found.expected)
        lines.append(_expectation(said["expected"], options.k))
    elif options.prior == "learned":
        lines.append("Ranked by the released numbers: no prior could be learned from them that ranks better.")
    if found.note:
        said["note"] = found.note
        lines.append(untrusted.line(found.note, 1000))
    lines += [f"Unit: {squared.unit}.", f"Error sources: {squared.covers}."]
    tell(options, {"nearest": facts} | said, "\n".join(lines))


def _found_nearest(options: Any, asked: AskedRecords) -> Any:
    """The nearest records, under the prior that was asked for; only sketches have one, each by itself."""
    from sfumato.errors import ParameterError, ReleaseError
    from sfumato.releases.sketch import SketchRelease

    ask, record = asked.ask, asked.place(options.record)
    if asked.joined is not None:
        _check_no_prior(options)
        return ask(record, options.k, options.among)
    if options.among is not None:
        raise ParameterError(f"--among {options.among} needs several releases")
    if isinstance(ask.__self__, SketchRelease):
        if options.posterior and options.prior != "none":
            _kept_posterior(ask.__self__, options.posterior)
        return ask(record, options.k, options.prior or "learned")
    if options.prior == "learned" or options.posterior:
        kind = ask.__self__.manifest["kind"]
        raise ReleaseError(f"{options.release} is a release of kind {kind!r}, of which no prior is learned")
    return ask(record, options.k)


def _check_no_prior(options: Any) -> None:
    from sfumato.errors import ParameterError

    if options.prior == "learned" or options.posterior:
        raise ParameterError("no prior is learned of several releases: leave out --prior and --posterior")


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
    asked = AskedRecords(options, "cluster")
    ask = asked.ask
    if asked.joined is not None:
        _check_no_prior(options)
    elif options.prior == "learned" or (options.posterior and options.prior is None):
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
