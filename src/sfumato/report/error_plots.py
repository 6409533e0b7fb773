"""How the answers of each kind of release err, as plots: by the formulas of its own error bars."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.estimation import quantities
from sfumato.estimation.distance_matrix import widest_squared
from sfumato.fileformat.histogram_kind import deviation as histogram_deviation
from sfumato.fileformat.manifest import TableFacts
from sfumato.intervals import estimate
from sfumato.numerics.types import Floats
from sfumato.releases.covariance import CovarianceRelease
from sfumato.releases.graph import GraphRelease, PairsRelease
from sfumato.releases.histogram import HistogramRelease
from sfumato.releases.synthetic import SyntheticRelease
from sfumato.releases.table import TableRelease
from sfumato.report.numbers import number, percent
from sfumato.report.svg import Bars, Mark, Plot, Trace, colour, shortened

if TYPE_CHECKING:
    from sfumato.releases.release import AnyRelease


_POINTS = 121
_MANY, _SPECTRUM, _COLUMNS = 128, (30, 12), (20, 10)  # eigenvalues and columns shown: of some columns, and of many
SIMULATED = 512  # columns up to which the bounds of eigenvalues are simulated
_DENSITIES = (0.0, 0.1, 0.5)  # of the pairs that a cut separates, how many are edges


def plot(release: "AnyRelease") -> Plot | None:
    """A plot of the errors of a release's answers; None where it gives none with error bars."""
    if isinstance(release, SyntheticRelease | TableRelease | HistogramRelease):
        return None
    if isinstance(release, GraphRelease):
        return _cuts(release)
    if isinstance(release, CovarianceRelease):
        return _spectrum(release)
    return _distances(release)


def said(release: "AnyRelease") -> list[str]:
    """The errors of a release's answers in words, beside their plot."""
    if isinstance(release, SyntheticRelease):
        return _synthetic_words(release)
    if isinstance(release, TableRelease):
        return _table_words(release)
    if isinstance(release, GraphRelease):
        return _cut_words(release)
    if isinstance(release, CovarianceRelease):
        return _covariance_words(release)
    if isinstance(release, HistogramRelease):
        return _histogram_words(release)
    return _distance_words(release)


# ---- distances ------------------------------------------------------------------------------------------------------


def detectable_distance(release: "AnyRelease") -> float:
    """The least distance whose estimate is distinguishable from 0, given the errors of a release."""
    return float(estimate.detectable(release.error_at(0.0), 2))


def _distances(release: "AnyRelease") -> Plot:
    least, widest = detectable_distance(release), math.sqrt(widest_squared(release.schema))
    top = max(widest, 1.12 * least)
    xs = np.linspace(0.0, top, _POINTS)
    errors = np.asarray(release.error_at(xs**2))
    marks: tuple[Mark, ...] = (Mark(least, f"detectable from {number(least, 3)}"),)
    if widest < least:
        marks += (Mark(widest, f"farthest possible: {number(widest, 3)}"),)
    return Plot(
        x_name="true distance between two records",
        y_name="standard error of an estimated squared distance",
        traces=(
            Trace(xs, errors, "standard error of an estimated squared distance"),
            Trace(xs, xs**2, "the squared distance itself", "reference dotted"),
        ),
        marks=marks,
        told=tuple(_told_distance(x, e, least) for x, e in zip(xs, errors, strict=True)),
        first=int(np.searchsorted(xs, min(least, top))),
        x_range=(0.0, top),
        y_range=(0.0, 1.25 * float(errors.max())),
    )


def _told_distance(distance: float, error: float, least: float) -> str:
    squared = distance**2
    share = f", {error / squared:.0%} of it" if squared > error / 10 else ""
    verdict = "" if distance >= least else "; it is indistinguishable from 0"
    return (
        f"At distance {number(distance, 3)} the squared distance is {number(squared, 3)}, and its estimate has a "
        f"standard error of {number(error, 3)}{share}{verdict}."
    )


def _distance_words(release: "AnyRelease") -> list[str]:
    least, widest = detectable_distance(release), math.sqrt(widest_squared(release.schema))
    lines = [
        (
            f"Distances below {number(least, 3)} are indistinguishable from 0: the squared distance is less than 1.96 "
            "standard errors of its estimate."
        ),
        f"By the declared bounds, no distance is above {number(widest, 3)}"
        + (", so every single distance in this release is indistinguishable from 0." if widest < least else "."),
        f"Unit: {quantities.distance_unit(release.schema)}, between records as they were clipped.",
    ]
    if release.manifest["kind"] in ("sketch", "components"):
        lines.append(f"Error sources: {release.geometry.covers}.")
    return lines


# ---- cuts -----------------------------------------------------------------------------------------------------------


def _cuts(release: GraphRelease) -> Plot:
    n = release.vertices
    sides = np.unique(np.rint(np.geomspace(1, max(n // 2, 1), _POINTS)))
    densities = _DENSITIES[:1] if isinstance(release, PairsRelease) and not release.noise.rounded else _DENSITIES
    curves = [np.asarray(release.error_at(density * sides * (n - sides), sides)) for density in densities]
    names = (
        f"a cut of {density:.0%} of the pairs it separates" if density else "an empty cut" for density in densities
    )
    only = ["a cut of any weight"] if len(densities) == 1 else list(names)
    traces = tuple(Trace(sides, e, name, colour(i)) for i, (e, name) in enumerate(zip(curves, only, strict=True)))
    every = np.concatenate(curves)
    return Plot(
        x_name="vertices on the smaller side",
        y_name="standard error of an estimated cut",
        traces=traces,
        told=tuple(_told_cut(n, *each) for each in zip(sides, *curves, strict=True)),
        first=len(sides) // 2,
        x_range=(1.0, max(float(sides[-1]), 1.5)),
        y_range=(float(every.min()) / 1.3, float(every.max()) * 1.3),
        log="xy",
        whole=True,
    )


def _told_cut(vertices: int, side: float, *errors: float) -> str:
    pairs, least = side * (vertices - side), estimate.detectable(errors[0])
    lost = (
        "every cut here is indistinguishable from an empty one"
        if least > pairs
        else f"cuts below {number(least, 3)} are indistinguishable from 0"
    )
    more = (
        ""
        if len(errors) == 1
        else (
            f", {number(errors[1], 3)} for one of {number(_DENSITIES[1] * pairs, 3)} and "
            f"{number(errors[2], 3)} for one of {number(_DENSITIES[2] * pairs, 3)}"
        )
    )
    what = "any cut" if len(errors) == 1 else "an empty cut"
    return (
        f"{number(side)} of {number(vertices)} vertices on one side, {number(pairs)} pairs apart: standard error "
        f"{number(errors[0], 3)} for {what}{more}; {lost}."
    )


_ESTIMATED = (
    " Weights were rounded to 0 or 1 at random, which adds to the error of cuts that are neither empty nor full.",
    " The weight of a cut is its number of pairs with an edge of weight one half or more.",
)


def _cut_words(release: GraphRelease) -> list[str]:
    n = release.vertices
    one, half = (float(estimate.detectable(release.error_at(0.0, side))) for side in (1, max(n // 2, 1)))
    pairs = max(n // 2, 1) * (n - max(n // 2, 1))
    if isinstance(release, PairsRelease):
        errs = "Every pair has its own noise, so a cut errs by the square root of the number of pairs it separates."
        errs += _ESTIMATED[0] * release.noise.rounded + _ESTIMATED[1] * release.thresholded
    else:
        errs = (
            "A cut of a sketch errs by a share of its weight plus a share of what was mixed in; more rows, or more "
            "budget, make both smaller."
        )
    return [
        (
            f"The degree of a single vertex is distinguishable from 0 above {number(one, 3)} (of at most "
            f"{number(n - 1)}), a cut through the middle above a weight of {number(half, 3)} (of at most "
            f"{number(pairs)})."
        ),
        errs,
        "Error bars hold for sets of vertices that were chosen without looking at this release.",
    ]


# ---- covariances ----------------------------------------------------------------------------------------------------


def _spectrum(release: CovarianceRelease) -> Plot:
    shown = min(len(release.names), _SPECTRUM[len(release.names) > _MANY])
    found = release.principal_components(shown)
    values, errors = np.atleast_1d(found.variances.value), np.atleast_1d(found.variances.standard_error)
    simulated = len(release.names) <= SIMULATED
    lows, highs = found.variances.interval(0.95) if simulated else (values - 1.96 * errors, values + 1.96 * errors)
    finite = np.where(np.isfinite(highs), highs, values + 4 * errors)
    low, high = min(0.0, float(values.min())), max(float(finite.max()), float(values.max()))
    leans = [lean(release.names, found.vectors[:, i]) for i in range(shown)]
    told = [
        f"Direction {i + 1} (mostly {leans[i]}): variance {number(v, 3)}, standard error {number(e, 3)}, "
        + (f"between {number(a, 3)} and {number(b, 3)}." if simulated else "interval not computed.")
        for i, (v, e, a, b) in enumerate(zip(values, errors, lows, highs, strict=True))
    ]
    bars = "95% intervals, all at once" if simulated else "1.96 standard errors, each by itself"
    return Plot(
        x_name="direction, the largest variance first",
        y_name=f"variance along each principal direction, with {bars}",
        bars=(Bars(np.arange(1.0, shown + 1), values, np.asarray(lows), finite),),
        marks=(Mark(0.0, "", down=False),) if low < 0 else (),
        told=tuple(told),
        x_range=(0.4, shown + 0.6),
        y_range=(low - 0.04 * (high - low), high + 0.06 * (high - low)),
        whole=True,
    )


def lean(names: Sequence[str], vector: Floats, most: int = 2) -> str:
    """The columns with most weight in a principal direction, and their weights, for the plot of errors of variances."""
    largest = sorted(range(len(names)), key=lambda i: -abs(vector[i]))[:most]
    return ", ".join(f"{shortened(names[i], 30)} {vector[i]:+.2f}" for i in largest)


def column_errors(release: "AnyRelease") -> list[tuple[str, Any]]:
    """The variances of the first columns with their errors, as estimates; nothing for kinds that have none."""
    if not isinstance(release, CovarianceRelease):
        return []
    return [(name, release.variance(name)) for name in release.names[: _COLUMNS[len(release.names) > _MANY]]]


def _covariance_words(release: CovarianceRelease) -> list[str]:
    counted = (
        ""
        if "rows" in release.manifest
        else (f" The number of records is protected: its estimate here is {number(release.records, 4)}.")
    )
    directions, columns = release.principal_components(1).variances.unit, release.variance(release.names[0]).unit
    return [
        f"Unit: {columns}. The picture is in another: {directions}.{counted}",
        (
            "Noise pushes eigenvalues apart: where it rivals the gaps between them, the leading ones look larger than "
            "they are, and the last ones smaller. The intervals allow for that, the standard errors do not."
        ),
        "An error bar covers the noise of the release; nothing else is random. It says nothing about a population.",
    ]


def _histogram_words(release: HistogramRelease) -> list[str]:
    facts = release.manifest["mechanism"]
    found = sorted(histogram_deviation(facts, place) for place in range(len(facts["tables"])))
    spread = number(found[0], 3) if found[0] == found[-1] else f"{number(found[0], 3)} to {number(found[-1], 3)}"
    total = release.total()
    low, high = total.interval(0.95)
    counted = "" if "rows" in release.manifest else f" It is estimated: between {number(low)} and {number(high)}."
    return [
        f"Every count has noise of standard deviation {spread}, whatever it is; a sum of cells has that of each.",
        f"There are about {number(float(total.value))} records.{counted}",
        "An error bar covers the noise of the release; nothing else is random. It says nothing about a population.",
    ]


# ---- synthetic records ----------------------------------------------------------------------------------------------


_STAGES = {
    "one-way": "every column by itself, over fine cells",
    "pair": "pairs of columns, over bins",
    "label pair": "pairs with the label, over bins",
}


def _table_words(release: TableRelease) -> list[str]:
    """What a synthetic table was fitted to: the stages, their shares of the budget, and the noise of each."""
    facts = release.manifest["mechanism"]
    stages = [_stage_words(facts, stage, share) for stage, share in facts["shares"].items()]
    return [
        (
            "Synthetic records have no error bars. They are drawn from a model of counts, so relations that are in no "
            "table of these are not in them. release.count(...) answers from the counts themselves, with error bars."
        ),
        f"The budget, stage by stage: {'; '.join(stages)}.",
        (
            f"Noise is {facts['noise']}, on every count by itself, and does not grow with the number of records: "
            f"about {number(facts['records'])} here."
        ),
    ]


def table_deviation(noise: str, scale: float) -> float:
    """The standard deviation of the noise on a synthetic table's counts, from its scale, for error bars."""
    return math.sqrt(2) * scale if noise == "laplace" else scale


def _stage_words(facts: TableFacts, stage: str, share: float) -> str:
    """One stage of a synthetic table in words: what was measured, for which share, and with how much noise."""
    kind, _, turn = stage.partition(" ")
    known = {"choices": f"round {turn}, choices by how far the model is off", "round": f"round {turn}, chosen tables"}
    what = _STAGES.get(stage) or known.get(kind, stage)
    mine = [table["scale"] for table in facts["tables"] if table["stage"] == stage]
    if not mine:
        return f"{what} ({percent(share)})"
    low, high = (
        number((math.sqrt(2) if facts["noise"] == "laplace" else 1.0) * end, 3) for end in (min(mine), max(mine))
    )
    spread = low if low == high else f"{low} to {high}"
    tables = "1 table" if len(mine) == 1 else f"{len(mine):,} tables"
    return f"{what} ({percent(share)}): {tables}, standard deviation {spread} per count"


def _synthetic_words(release: SyntheticRelease) -> list[str]:
    mechanism = release.manifest["mechanism"]
    stages = [("second moments", mechanism["moments"])] + ([("sums", mechanism["mean"])] if "mean" in mechanism else [])
    noise = " and ".join(f"{number(s['standard_deviation'])} on the {name}" for name, s in stages)
    return [
        (
            "Synthetic records have no error bars. They are drawn from a Gaussian model, so whatever is not in its "
            "means and covariances (tails, clusters within a class, relations of three columns) is not in them."
        ),
        (
            f"The model was found with {mechanism['noise']} noise of standard deviation {noise}, each summed over all "
            "records in the normalised space: with more records the noise matters less."
        ),
        (
            "Test a model that was trained on them on real records before you rely on it; this costs no privacy if the "
            "result stays with the owner."
        ),
    ]
