"""The Explore screen: which questions a release can answer, and answers with error bars.

Post-processing of a release: costs no privacy and reads no data. Every question is bounded: in how much it shows, and
in how much it computes, so that a page is never kept waiting for long.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.errors import ParameterError, SfumatoError
from sfumato.estimation import distance_matrix, neighbours
from sfumato.intervals.estimate import HIDDEN, Estimate
from sfumato.numerics.types import Floats, Integers
from sfumato.releases.covariance import CovarianceRelease
from sfumato.releases.distances import DistancesRelease
from sfumato.releases.graph import GraphRelease, PairsRelease
from sfumato.releases.histogram import HistogramRelease
from sfumato.releases.release import AnyRelease, Nearest, load
from sfumato.releases.responses import ResponsesRelease
from sfumato.releases.synthetic import SyntheticRelease
from sfumato.releases.table import TableRelease
from sfumato.report import maps
from sfumato.report.error_plots import SIMULATED, lean
from sfumato.report.extreme import check_computable
from sfumato.report.numbers import number
from sfumato.report.scenes import MOST_POINTS, plane, sampled, within
from sfumato.report.svg import COLOURS, Key, colour
from sfumato.studio import table_screen
from sfumato.studio.frame.pages import page, reading
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs.form_fields import Choice, Number, Positions, TextLine, Whole, read
from sfumato.studio.inputs.page_words import said
from sfumato.studio.replies import (
    LEVEL,
    SHARE,
    Question,
    Reply,
    Values,
    bar,
    between,
    cell_in_words,
    interval_names,
    level_in,
    rows_of,
)

MOST_NEIGHBOURS, MOST_CLUSTERS, MOST_COMPONENTS, MOST_SAMPLES = 100, COLOURS, 10, 200
MOST_CLUSTERED, MOST_EMBEDDED = 20_000, 600  # records that take part; others are left out by a public rule
MOST_PAIRS, MOST_MAPPED = 200, 24  # pairs of columns in a table, columns in a picture
_WIDE = 24  # columns of a table of samples
_NONE, _OTHERS = "none", "all others"


def routes(studio: Studio) -> list[Route]:
    """The routes of the Explore screen."""
    return [
        reading(studio, "/explore/{name}", explored),
        *table_screen.routes(studio),
    ]


def explored(studio: Studio, request: Request) -> Response:
    """The Explore screen of one release: its questions, and the answer to ``?question=...``; a GET: nothing changes."""
    name, fields = request.path_params["name"], dict(request.query_params)
    release = load(studio.folder.release(name))
    table = isinstance(release, TableRelease)
    asked = fields.get("question") or (table_screen.FIRST if table else None)
    told = None if asked is None else answer(release, asked, fields)
    beside = studio.folder.tables() if table else []
    facts = {"name": name, "manifest": release.manifest, "questions": questions(release), "beside": beside}
    shown = facts | {"action": f"/explore/{quote(name, safe='')}", "hidden": []}
    return page(studio, "explore.html", here="explore", **shown, asked=asked, fields=fields, answer=told)


def questions(release: AnyRelease) -> list[dict[str, Any]]:
    """The questions that the Explore screen offers for this kind of release: plain values for the template."""
    return [question.plain() for question in questions_of(release)]


def answer(release: AnyRelease, question: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """The answer to a question of the Explore screen, with its error: plain values for the template.

    ``wrong`` says of each field what is wrong with it, and ``refused`` why a question of good form has no answer.
    """
    found = next((q for q in questions_of(release) if q.name == question), None)
    if found is None:
        raise ParameterError("this kind of release does not answer that question")
    values, wrong = read(found.fields, fields)
    wrong |= {} if wrong else _together(values)
    if wrong:
        return {"wrong": wrong}
    try:
        check_computable(release)
        return found.ask(release, values).plain()
    except SfumatoError as error:
        return {"refused": said(error)}


def _together(values: Values) -> dict[str, str]:
    """What is wrong together in a question's fields on the Explore screen that are right each by itself."""
    if "second" in values and values["first"] == values["second"]:
        return {"second": "give another record than the first"}
    return {"other": "give another column than the first"} if values.get("other") == values.get("column", 0) else {}


def questions_of(release: AnyRelease) -> list[Question]:
    """The questions that the Explore screen offers for this kind of release, with who answers them."""
    if isinstance(release, GraphRelease):
        return _of_a_graph(release)
    if isinstance(release, CovarianceRelease):
        return _of_a_covariance(release)
    if isinstance(release, HistogramRelease):
        return table_screen.histogram_questions(release)
    if isinstance(release, SyntheticRelease):
        return _of_samples()
    return table_screen.questions(release) if isinstance(release, TableRelease) else _of_records(release)


# ---- records --------------------------------------------------------------------------------------------------------


def _of_records(release: AnyRelease) -> list[Question]:
    last = release.rows - 1
    found = []
    if last >= 1:
        record = Whole("record", "Record", "0", low=0, high=last)
        most = min(MOST_NEIGHBOURS, last)
        many = Whole("k", "How many", str(min(10, most)), low=1, high=most)
        pair = Whole("first", "Record", "0", low=0, high=last), Whole("second", "Another", "1", low=0, high=last)
        found += [
            Question(
                "nearest", "Nearest records", "The records that look most like one.", (record, many, LEVEL), _nearest
            ),
            Question("distance", "Distance", "How far two records are apart, squared.", (*pair, LEVEL), _distance),
        ]
    groups = Whole(
        "clusters", "How many groups", str(min(3, release.rows)), low=1, high=min(MOST_CLUSTERS, release.rows)
    )
    return [*found, Question("clusters", "Groups", "The records in groups, by k-means.", (groups,), _clusters)]


def _record(release: AnyRelease, place: int) -> str:
    """A record as the Explore screen names it: by its position and, where there is one, its public id."""
    return f"{place:,}" if release.ids is None else f"{place:,} ({release.ids[place].as_py()})"


def _nearest(release: AnyRelease, values: Values) -> Reply:
    found = release.nearest(values["record"], values["k"])
    lows, highs = found.distances.interval(level_in(values))
    names = [_record(release, int(i)) for i in found.indices]
    rows = rows_of(names, found.distances.value, found.distances.standard_error, lows, highs)
    return Reply(
        f"The {len(rows)} records that look nearest to record {_record(release, values['record'])}, by squared "
        "distance.",
        ("record", *interval_names(values)),
        rows,
        found.distances,
        _after_choice(found),
    )


def _after_choice(found: Nearest) -> str:
    """What choosing the nearest does to their estimates."""
    if found.expected is None:
        return (
            "Each estimate is right on average for its pair, but the smallest of many noisy distances look smaller "
            "than they are. The intervals allow for the choice: they are as wide as if asked of all records at once."
        )
    k, hits = found.indices.shape[-1], float(found.expected.among_k[0])
    return (
        f"Estimates and intervals are credible ones, under a prior that was learned from the release. Of these {k} "
        f"records, {hits:.1f} are expected to be among the {k} truly nearest."
    )


def _distance(release: AnyRelease, values: Values) -> Reply:
    found, level = release.distance(values["first"], values["second"]), level_in(values)
    row = bar("squared distance", found, level)
    told = "It is indistinguishable from 0." if row[3] <= 0 else ""
    told = HIDDEN if found.quantity.filled_by(*row[3:]) else told
    return Reply(
        f"The squared distance of records {_record(release, values['first'])} and {_record(release, values['second'])} "
        f"is about {number(row[1])}; {between(row, values)}.",
        ("", *interval_names(values)),
        (row,),
        found,
        told,
    )


def _points(release: AnyRelease) -> tuple[Floats, Integers]:
    """What the Explore screen groups, one row for each record that takes part, and which records these are."""
    if isinstance(release, DistancesRelease):
        chosen = sampled(release.rows, MOST_EMBEDDED)
        matrix = within(release.values, chosen, release.rows)
        return distance_matrix.points(matrix, min(release.dimension, len(chosen) - 1)), chosen
    chosen = sampled(release.rows, MOST_CLUSTERED)
    if isinstance(release, ResponsesRelease):
        return release.questionnaire.debiased(release.codes.T[chosen]), chosen
    return np.asarray(release.array()[chosen]), chosen


def _clusters(release: AnyRelease, values: Values) -> Reply:
    points, chosen = _points(release)
    found = neighbours.cluster(points, values["clusters"], np.random.default_rng(0), restarts=2)
    sizes = np.bincount(found.labels, minlength=values["clusters"])
    order = np.argsort(-sizes, kind="stable")
    rows = tuple((f"group {i + 1}", int(sizes[g]), float(sizes[g] / len(chosen))) for i, g in enumerate(order))
    left = "" if len(chosen) == release.rows else f" of {len(chosen):,} of {release.rows:,}, drawn by a public rule,"
    shown = sampled(len(chosen), MOST_POINTS)
    keys = [Key(f"group {i + 1}", colour(i)) for i in range(len(order))]
    places = np.argsort(order)[found.labels[shown]]
    return Reply(
        f"The records{left} in {values['clusters']} groups.",
        ("group", "records", SHARE),
        rows,
        None,
        "Groups have no error bars. Noise moves records between them: two groups stand for something only if they are "
        "much farther apart than the noise, which the report shows.",
        maps.cloud(plane(points, shown), "records in their groups", codes=places, keys=keys),
    )


# ---- covariances ----------------------------------------------------------------------------------------------------


def _of_a_covariance(release: CovarianceRelease) -> list[Question]:
    names = release.names
    column = Choice("column", "Column", names[0], "", names)
    other = Choice("other", "Plus another column", _NONE, "", (_NONE, *(n for n in names if n != _NONE)))
    weight = Number("weight", "Times", "1", low=-1e6, high=1e6)
    count = Whole("count", "How many", str(min(3, len(names))), low=1, high=min(MOST_COMPONENTS, len(names)))
    pairs = max(min(MOST_PAIRS, len(names) * (len(names) - 1) // 2), 1)
    strongest = Whole("pairs", "How many pairs", str(min(20, pairs)), low=1, high=pairs)
    target = Choice("target", "Column to explain", names[-1], "", names)
    features = TextLine("features", "By", names[0], f"names with commas between, or {_OTHERS}")
    text = "The variance of a column, or of a sum of two, in their own units."
    variance = Question("variance", "Variance", text, (column, other, weight, LEVEL), _variance)
    text = "Directions of largest variance."
    components = Question("components", "Principal components", text, (count, LEVEL), _components)
    if len(names) < 2:
        return [variance, components]
    text = "One column explained by others."
    regression = Question("regression", "Regression", text, (target, features, LEVEL), _regression)
    text = "How strongly the columns go together, the strongest first."
    correlation = Question("correlation", "Correlations", text, (strongest, LEVEL), _correlation)
    return [*([correlation] if release.centred else []), variance, regression, components]


def _correlation(release: CovarianceRelease, values: Values) -> Reply:
    found = release.correlation()
    first, second = np.triu_indices(len(found.names), 1)
    strength = np.nan_to_num(np.abs(found.values[first, second]), nan=-1.0)
    order = np.argsort(-strength, kind="stable")[: values["pairs"]]
    chosen = first[order], second[order]
    names = [f"{found.names[i]}, {found.names[j]}" for i, j in zip(*chosen, strict=True)]
    numbers = (found.values, found.standard_error, *found.interval(level_in(values)))
    shown = min(len(found.names), MOST_MAPPED)
    return Reply(
        f"The {len(order)} strongest of {len(first):,} correlations.",
        ("columns", *interval_names(values)),
        rows_of(names, *(matrix[chosen] for matrix in numbers)),
        found.found,
        " ".join([str(found.changed), *found.notes]),
        maps.heat(np.nan_to_num(found.values[:shown, :shown]), "correlations of the columns", found.names[:shown]),
    )


def _regression(release: CovarianceRelease, values: Values) -> Reply:
    asked = values["features"].strip()
    found = release.regression(values["target"], None if asked == _OTHERS else [n.strip() for n in asked.split(",")])
    terms = found.table(level_in(values)).to_pydict()
    numbers = [terms[name] for name in ("coefficient", "standard_error", "low", "high")]
    return Reply(
        f"{values['target']} explained by {len(found.features)} columns, by least squares.",
        ("term", *interval_names(values)),
        rows_of(terms["term"], *numbers),
        found.coefficients,
        " ".join(found.notes),
    )


def _variance(release: CovarianceRelease, values: Values) -> Reply:
    direction = {values["column"]: 1.0}
    if values["other"] != _NONE and values["weight"] != 0:
        direction[values["other"]] = values["weight"]
    found, level = release.variance(direction), level_in(values)
    what = (
        values["column"]
        if len(direction) == 1
        else f"{values['column']} + {values['weight']:g} \u00d7 {values['other']}"
    )
    row = bar(what, found, level)
    return Reply(
        f"The variance of {what} is about {number(row[1])}; {between(row, values)}.",
        ("direction", *interval_names(values)),
        (row,),
        found,
    )


def _components(release: CovarianceRelease, values: Values) -> Reply:
    found = release.principal_components(values["count"])
    simulated = len(release.names) <= SIMULATED
    lows, highs = found.variances.interval(level_in(values)) if simulated else ([np.nan] * values["count"],) * 2
    leans = [lean(release.names, vector, 4) for vector in found.vectors.T]
    rows = rows_of(leans, found.variances.value, found.variances.standard_error, lows, highs)
    note = (
        "The intervals hold for all of them at once."
        if simulated
        else (f"Intervals are computed for at most {SIMULATED} columns; release.principal_components gives them.")
    )
    told = f"The {len(rows)} directions of largest variance; all variances add up to {number(found.total_variance)}."
    return Reply(told, ("mostly", *interval_names(values)), rows, found.variances, note)


# ---- synthetic records ----------------------------------------------------------------------------------------------


def _of_samples() -> list[Question]:
    rows = Whole("rows", "How many", "10", low=1, high=MOST_SAMPLES)
    seed = Whole("seed", "Seed", "0", "the same seed gives the same rows", low=0, high=2**31 - 1)
    text = "New rows from the published model, in the columns of the schema."
    return [
        Question("sample", "Samples", text, (rows, seed), _sample),
        Question("model", "The model", "The Gaussians that the rows are drawn from.", (), _model),
    ]


def _sample(release: SyntheticRelease, values: Values) -> Reply:
    table = release.sample(values["rows"], values["seed"]).table(reconstruct=True)
    names = table.column_names[:_WIDE]
    rows = zip(*(table.column(i).to_pylist() for i in range(len(names))), strict=True)
    note = "No row is a person, and rows have no error bars. What the projection left out is lost."
    more = "" if table.num_columns <= _WIDE else f" The first {_WIDE} of {table.num_columns} columns are shown."
    cells = tuple(tuple(map(cell_in_words, row)) for row in rows)
    return Reply(f"{values['rows']} synthetic rows.", tuple(names), cells, note=note + more, named=False)


def _model(release: SyntheticRelease, values: Values) -> Reply:
    del values
    model = release.model()
    names = [str(c) for c in model.classes] or ["all rows"]
    spread = [float(np.sqrt(max(np.trace(c), 0.0))) for c in model.covariances]
    length = [float(np.linalg.norm(m)) for m in model.means]
    rows = tuple(zip(names, map(float, model.weights), length, spread, strict=False))
    return Reply(
        f"{len(rows)} Gaussian{'s' * (len(rows) > 1)} in {release.dimension} dimensions.",
        ("class", SHARE, "length of the mean", "spread"),
        rows,
        None,
        "The model has no error bars. Lengths are in the space of the synthetic rows; release.model() has all of it.",
    )


# ---- graphs ---------------------------------------------------------------------------------------------------------


def _of_a_graph(release: GraphRelease) -> list[Question]:
    hint = f"0 to {release.vertices - 1:,}: numbers and ranges, such as 0, 5, 8-12"
    vertices = Positions("vertices", "Vertices on one side", "0", hint, release.vertices)
    cut = "The weight of all edges between these vertices and the others."
    if isinstance(release, PairsRelease) and release.thresholded:
        cut = "The number of edges, of weight one half or more, between these vertices and the others."
    share = "The cut over the smaller of the two sides\u2019 volumes: how well the set is separated."
    return [
        Question("cut", "Cut", cut, (vertices, LEVEL), _cut),
        Question("conductance", "Conductance", share, (vertices, LEVEL), _conductance),
    ]


def _cut(release: GraphRelease, values: Values) -> Reply:
    return _of_a_set(release, values, "cut", release.cut(values["vertices"]))


def _conductance(release: GraphRelease, values: Values) -> Reply:
    return _of_a_set(release, values, "conductance", release.conductance(values["vertices"]))


def _of_a_set(release: GraphRelease, values: Values, name: str, found: Estimate) -> Reply:
    row, size = bar(name, found, level_in(values)), len(values["vertices"])
    return Reply(
        f"The {name} of {size:,} of {release.vertices:,} vertices is about {number(row[1])}; {between(row, values)}.",
        ("", *interval_names(values)),
        (row,),
        found,
        "Error bars hold for sets that were chosen without looking at this release.",
    )
