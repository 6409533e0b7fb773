"""Pictures of what was released: clouds of records, maps of matrices, spectra. Nothing but the release enters them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.estimation import distance_matrix, neighbours
from sfumato.numerics.types import Floats, Integers
from sfumato.releases.covariance import CovarianceRelease
from sfumato.releases.distances import DistancesRelease
from sfumato.releases.graph import GraphRelease, GraphSketchRelease, PairsRelease
from sfumato.releases.histogram import HistogramRelease
from sfumato.releases.responses import ResponsesRelease
from sfumato.releases.sketch import SketchRelease
from sfumato.releases.synthetic import SyntheticRelease
from sfumato.report import maps, svg
from sfumato.report.column_pictures import ColumnPicture, ShareSeries
from sfumato.report.html import Markup
from sfumato.report.numbers import number, percent
from sfumato.report.svg import COLOURS, Bars, Key, Mark, Plot, colour, shortened

if TYPE_CHECKING:
    from sfumato.releases.release import AnyRelease


MOST_POINTS = 2000
_EMBEDDED = 400  # records whose distances are turned into points
_MAPPED = 96  # rows of a heat map
_COLUMNS = 24  # columns of answers shown
_SPECTRUM = 60
_TABLES, _PARTS = 12, 24  # tables of a histogram that are shown, and cells of each


@dataclass(frozen=True, slots=True)
class Scene:
    """One picture of what was released, with its title and caption."""

    title: str
    picture: Markup
    caption: str


def sampled(count: int, most: int) -> Integers:
    """Which records of a release its scenes show: a public rule, the same for every release of as many."""
    every = np.arange(count)
    return every if count <= most else np.sort(np.random.default_rng(0).choice(count, most, replace=False))


def _rule(count: int, most: int, noun: str, drawn: str = "drawn by a public rule that does not look at them") -> str:
    if count <= most:
        return f"All {number(count)} {noun} are shown."
    return f"{number(most)} of {number(count)} {noun} are shown, {drawn}."


def scenes(release: "AnyRelease") -> list[Scene]:
    """The scenes of a release: pictures of the released records, matrices or shares; ``table_scenes`` has a table's."""
    for kind, drawn in _DRAWN.items():
        if isinstance(release, kind):
            return drawn(release)
    return _graph(release)


def plane(rows: Floats, chosen: Integers) -> Floats:
    """Records as points of a scene, along the two directions in which all vary most about the mean.

    Signs are settled.
    """
    centre = rows.mean(axis=0)
    _, vectors = np.linalg.eigh((rows - centre).T @ (rows - centre))
    found = vectors[:, ::-1][:, :2]
    if found.shape[1] < 2:
        found = np.column_stack([found, np.zeros(len(found))])
    largest = found[np.abs(found).argmax(axis=0), np.arange(2)]
    return np.asarray((rows[chosen] - centre) @ (found * np.where(largest < 0, -1.0, 1.0)))


def _sketch(release: SketchRelease) -> Scene:
    clean = neighbours.denoise(release.array(), release.noise)
    seen = clean.rows if clean.rank >= 2 else release.array()
    stands = f"{clean.rank} of {release.dimension} directions stand out of the noise"
    how = (
        f"{stands}; the records are shown within these, along the two in which they vary most."
        if clean.rank >= 2
        else f"{stands}: what is seen here is mostly noise."
    )
    picture = maps.cloud(plane(seen, sampled(release.rows, MOST_POINTS)), "released records in two dimensions")
    return Scene("The released records", picture, f"{how} {_rule(release.rows, MOST_POINTS, 'records')}")


def _synthetic(release: SyntheticRelease) -> Scene:
    rows = release.array()
    chosen = sampled(len(rows), MOST_POINTS)
    codes, keys = _by_class(release, chosen)
    picture = maps.cloud(plane(rows, chosen), "synthetic records in two dimensions", codes=codes, keys=keys)
    told = "The synthetic records along the two directions in which they vary most. No point is a person."
    return Scene("The synthetic records", picture, f"{told} {_rule(len(rows), MOST_POINTS, 'rows')}")


def _by_class(release: SyntheticRelease, chosen: Integers) -> tuple[Integers | None, list[Key]]:
    """The colour of each synthetic record in its scene, by class; the rarer classes share the last one."""
    classes = release.model().classes
    if not classes:
        return None, []
    codes = release.columns[-1].astype(np.int64)[chosen]
    often = np.argsort(-np.bincount(codes, minlength=len(classes)), kind="stable")
    own = often if len(classes) <= COLOURS else often[: COLOURS - 1]
    keys = [Key(shortened(classes[int(code)], 40), colour(place)) for place, code in enumerate(own)]
    if len(classes) > len(own):
        keys.append(Key(f"{len(classes) - len(own)} other classes", colour(len(own))))
    places = np.full(len(classes), len(keys) - 1)
    places[own] = np.arange(len(own))
    return places[codes], keys


def _responses(release: ResponsesRelease) -> Scene:
    """The scene of released answers: the share of records with each value, freed of the random answers' bias."""
    found = release.shares()
    names, shares = list(found), np.array(list(found.values()))[:_COLUMNS]
    shown = len(shares)
    low, high = min(0.0, float(shares.min())), max(1.0, float(shares.max()))
    plot = Plot(
        x_name="flag, or value of a column",
        y_name="share of records",
        bars=(Bars(np.arange(1.0, shown + 1), shares, np.zeros(shown), shares),),
        x_range=(0.4, shown + 0.6),
        y_range=(low - 0.02, high + 0.05),
        whole=True,
        label="estimated share of records with each value",
    )
    listed = "; ".join(
        f"{i + 1} {shortened(n, 30)}: {percent(s)}" for i, (n, s) in enumerate(zip(names, shares, strict=False))
    )
    more = "" if len(names) <= _COLUMNS else f" The first {_COLUMNS} of {len(names)} are shown."
    said = "How many records have each value, freed of what random answers add (unbiased, so below 0 at times)."
    caption = f"{said} {listed}.{more}"
    return Scene("The released answers, summed", svg.draw(plot, "answers"), caption)


def _distances(release: DistancesRelease) -> list[Scene]:
    chosen = sampled(release.rows, _EMBEDDED)
    matrix = within(release.values, chosen, release.rows)
    points = distance_matrix.points(matrix, 2)
    cloud = maps.cloud(points, "records placed by their released distances")
    rule = _rule(release.rows, _EMBEDDED, "records")
    few = matrix[np.ix_(*[np.argsort(points[:, 0], kind="stable")[sampled(len(chosen), _MAPPED)]] * 2)]
    mapped = (
        "Each row and column is a record, ordered by the first direction on the left; red is below 0, which is noise."
    )
    return [
        Scene("Records, placed by their distances", cloud, f"Classical scaling of the released numbers. {rule}"),
        Scene(
            "The released squared distances",
            maps.heat(few, "released squared distances"),
            f"{mapped} {_rule(len(chosen), _MAPPED, 'of these records')}",
        ),
    ]


def within(triangle: Any, chosen: Integers, count: int) -> Floats:
    """The symmetric matrix of distances between the records that a scene shows, from the triangle that is released."""
    first, second = np.triu_indices(len(chosen), 1)
    matrix = np.zeros((len(chosen), len(chosen)))
    matrix[first, second] = triangle[distance_matrix.place(chosen[first], chosen[second], count)]
    return np.asarray(matrix + matrix.T)


def _covariance(release: CovarianceRelease) -> Scene:
    names = release.names
    shown = min(len(names), _MAPPED)
    centred = release.centred
    values = release.correlation().values if centred else _over_deviations(np.asarray(release.covariance()))
    lost = int(np.isnan(values.diagonal()[:shown]).sum())
    what = (
        "Correlations of the encoded columns" if centred else f"Products of the encoded columns about {release.about}"
    )
    caption = f"{what}{'' if centred else ', over their roots of mean squares'}: blue above 0, red below."
    if lost:
        caption += f" Left blank, for a variance that is lost in the noise: {lost} of them."
    if shown < len(names):
        caption += f" The first {shown} of {len(names)} columns are shown."
    picture = maps.heat(np.nan_to_num(values[:shown, :shown]), "correlations of the columns", names[:shown])
    return Scene("How the columns vary together", picture, caption)


def _over_deviations(matrix: Floats) -> Floats:
    """A covariance over the deviations of its rows and columns, for a scene; nan where there are none."""
    spread = np.sqrt(np.where(matrix.diagonal() > 0, matrix.diagonal(), np.nan))
    return np.asarray(np.clip(matrix / spread / spread[:, None], -1, 1))


def _histogram(release: HistogramRelease) -> list[Scene]:
    """Pictures of the first tables of a histogram, each with its error bars."""
    found = [table_scene(release, table, f"counts{i}") for i, table in enumerate(release.tables[:_TABLES])]
    if len(release.tables) > _TABLES:
        more = f"{found[0].caption} The first {_TABLES} of {len(release.tables):,} tables are shown."
        found[0] = Scene(found[0].title, found[0].picture, more)
    return found


def table_scene(release: HistogramRelease, table: Sequence[str], name: str) -> Scene:
    """A picture of one table of a histogram; of a column with many cells, cells side by side are taken together."""
    counts = release.counts(*table)
    numbers = [np.asarray(counts.column(i)) for i in range(len(table), counts.num_columns)]
    labels = list(zip(*(counts.column(i).to_pylist() for i in range(len(table))), strict=True))
    names = [", ".join("missing" if cell is None else str(cell) for cell in row) for row in labels]
    caption = "Noisy counts, with 95% intervals of the noise."
    each = -(-len(names) // _PARTS)
    if len(table) == 1 and each > 1:
        starts = range(0, len(names), each)
        numbers = [np.add.reduceat(numbers[0], starts), np.sqrt(np.add.reduceat(numbers[1] ** 2, starts))]
        names = [names[i] if each == 1 else f"from {names[i]}" for i in starts]
        caption += f" {each} cells side by side are taken together."
    series = ShareSeries("noisy counts", np.asarray(numbers[0], float), "c5", 1.96 * np.asarray(numbers[1], float))
    picture = ColumnPicture(" and ".join(table), tuple(names), (), (series,), number, "records")
    if len(names) > picture.most + 1:
        caption += f" The {picture.most} largest are shown by themselves."
    return Scene(picture.title, picture.drawn(name), caption)


def _graph(release: GraphRelease) -> list[Scene]:
    if isinstance(release, GraphSketchRelease):
        return [_sketch_spectrum(release)]
    assert isinstance(release, PairsRelease)
    n = release.vertices
    chosen = sampled(n, _EMBEDDED)
    matrix = within(release.weights(), chosen, n)
    rule = _rule(n, _EMBEDDED, "vertices")
    few = matrix[:_MAPPED, :_MAPPED]
    noise = 2 * float(np.sqrt(len(chosen) * release.noise.variance))
    floor = Mark(noise, "noise alone reaches this", down=False)
    spectrum = _values(_eigenvalues(matrix), (floor,), "eigenvalues of the released pairs")
    mapped = "Each row and column is a vertex, in their order; blue is a weight above 0, red below, which is noise."
    return [
        Scene(
            "The released pairs",
            maps.heat(few, "released weights of pairs"),
            f"{mapped} {_rule(len(chosen), _MAPPED, 'vertices', 'the first')}",
        ),
        Scene(
            "Their spectrum",
            spectrum,
            f"Eigenvalues of the matrix of weights, the largest first. Those below the line look like noise. {rule}",
        ),
    ]


def _sketch_spectrum(release: GraphSketchRelease) -> Scene:
    rows = release.columns.astype(np.float64)
    values = _eigenvalues(rows @ rows.T / len(rows))
    floor = Mark(release.ridge * release.vertices / len(rows), "what was mixed in", down=False)
    caption = (
        "Eigenvalues of what the sketch shows of the Laplacian, the largest first. With fewer rows than vertices they "
        "are spread out: read them by their order and not by their size. The dashed line is where the complete graph "
        "that was mixed in lies on average."
    )
    return Scene("The spectrum of the sketch", _values(values, (floor,), "eigenvalues of the sketch"), caption)


def _eigenvalues(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.eigvalsh(matrix)[::-1], np.float64)


def _values(values: Floats, marks: Sequence[Mark], label: str) -> Markup:
    shown = values[:_SPECTRUM]
    low, high = min(0.0, float(shown.min())), max(float(shown.max()), *(m.at for m in marks), 1e-12)
    places = np.arange(1.0, len(shown) + 1)
    plot = Plot(
        x_name="eigenvalue, the largest first",
        y_name="size",
        bars=(Bars(places, shown, np.zeros(len(shown)), shown),),
        marks=tuple(marks),
        x_range=(0.0, len(shown) + 1.0),
        y_range=(low * 1.05, high * 1.12),
        whole=True,
        label=label,
    )
    return svg.draw(plot, "spectrum")


_DRAWN: dict[type, Callable[[Any], list[Scene]]] = {
    SketchRelease: lambda release: [_sketch(release)],
    SyntheticRelease: lambda release: [_synthetic(release)],
    ResponsesRelease: lambda release: [_responses(release)],
    DistancesRelease: _distances,
    CovarianceRelease: lambda release: [_covariance(release)],
    HistogramRelease: _histogram,
}
