"""``KINDS``, the only list of kinds of releases, one record each; ``of`` finds the record of a manifest.

A new kind needs a mechanism that writes its numbers, a class in ``releases`` that answers questions about them, a
record here, and its part of the JSON Schema.
"""

import math
from typing import Any

from sfumato import untrusted
from sfumato.fileformat.histogram_kind import HISTOGRAM
from sfumato.fileformat.kind import Kind, NumberType, noise_fits, summed_deviation
from sfumato.fileformat.manifest import (
    MOST_NUMBERS,
    CovarianceManifest,
    GraphResponsesManifest,
    GraphSketchManifest,
    Manifest,
    NoiseManifest,
    ResponsesManifest,
    SketchManifest,
    SyntheticManifest,
)
from sfumato.fileformat.table_kind import TABLE
from sfumato.tables.schema import Schema


def of(manifest: Manifest) -> Kind:
    """The record of a manifest's kind of release."""
    return KINDS[manifest["kind"]]


def stored_type(manifest: Manifest) -> NumberType:
    """Number type in which a kind of release stores its published numbers."""
    return (manifest["lattice"].get("numbers") if "lattice" in manifest else None) or of(manifest).numbers


def memory_type(manifest: Manifest) -> NumberType:
    """Number type in which a kind of release is computed with: double for what is stored in single precision."""
    return "float64" if "lattice" in manifest and "numbers" in manifest["lattice"] else stored_type(manifest)


def claim_kept(manifest: Manifest) -> bool:
    """False for one flawed kind: synthetic rows of 0.1.0 with published constants, too small for their guarantee."""
    facts = manifest["mechanism"]
    return bool(facts.get("satisfies_claim", True)) and facts.get("constants", "proved") == "proved"


# ---- what kinds share -----------------------------------------------------------------------------------------------


def _numbered(letter: str, count: int) -> tuple[str, ...]:
    return tuple(f"{letter}{i}" for i in range(min(count, MOST_NUMBERS)))


def _pairs(manifest: Manifest) -> int:
    """How many numbers a kind of release of all pairs has: pairs of records, or of vertices."""
    return int(manifest["rows"] * (manifest["rows"] - 1) // 2)


def _projects(manifest: Manifest, features: int) -> bool:
    """Check of a kind: whether its projection takes as many numbers as records have, to a whole number of them."""
    projection = manifest["projection"]
    return type(projection["dim_out"]) is int and projection["dim_in"] == features


def _all_pairs(manifest: Manifest, things: str) -> str:
    return f"all {_pairs(manifest):,} pairs of {manifest['rows']:,} {things}"


def _noise_on_each(manifest: NoiseManifest | SketchManifest) -> str:
    facts = manifest["mechanism"]
    return f"with {facts['noise']} noise of standard deviation {facts['standard_deviation']:.6g} on each"


def _noise_agrees(manifest: NoiseManifest | SketchManifest, _: object = None) -> bool:
    facts = manifest["mechanism"]
    return noise_fits(facts["noise"], facts["scale"], facts["standard_deviation"])


def _sensitivity(manifest: NoiseManifest) -> str:
    return f"Sensitivity: {manifest['mechanism']['sensitivity']:.6g}."


def _each_answer(manifest: ResponsesManifest | GraphResponsesManifest) -> str:
    return f"Epsilon of each answer: {manifest['mechanism']['epsilon_per_value']:.6g}."


def _of_two_records(manifest: Manifest) -> str:
    return "release.distance(0, 1)" if manifest["rows"] > 1 else "release.norm([0])"


_DISTANCE = ("release.distance(0, 1).interval(0.95)", "squared distance between two records, with error bars")
_NEAREST = ("release.nearest(0, k=10)", "the records most like the first")


# ---- of each record -------------------------------------------------------------------------------------------------


def _sketch_agrees(manifest: SketchManifest, schema: Schema) -> bool:
    return _noise_agrees(manifest) and _projects(manifest, schema.encoding.dim)


def _sketch_contents(manifest: SketchManifest) -> str:
    shape = manifest["projection"]
    made = f"{shape['family']} projection of {shape['dim_in']} encoded columns"
    if shape["family"] == "principal":
        made = f"projection of {shape['dim_in']} encoded columns onto private principal components"
    each = f"{shape['dim_out']} numbers each ({made})"
    return f"{manifest['rows']:,} records as {each}, {_noise_on_each(manifest)} number"


def _sketch_sensitivity(manifest: SketchManifest) -> str:
    facts = manifest["mechanism"]
    if "radius" in facts:
        return f"Sensitivity: {facts['radius']:.6g} before the projection, which was drawn for this release."
    chosen = f" Epsilon {facts['choice']['epsilon']:g} went to choosing the dimension." if "choice" in facts else ""
    return f"Sensitivity: {facts['sensitivity']:.6g}.{chosen}"


def _sketch(title: str) -> Kind:
    return Kind(
        title=title,
        product="Sketches of records",
        served_by=("sketch", "SketchRelease"),
        columns=lambda manifest: _numbered("z", manifest["projection"]["dim_out"]),
        agrees=_sketch_agrees,
        contents=_sketch_contents,
        sensitivity=_sketch_sensitivity,
        use=(_DISTANCE, _NEAREST, ("release.array()", "the numbers themselves")),
        example=_of_two_records,
    )


def _responses_contents(manifest: ResponsesManifest) -> str:
    keep = sorted(manifest["mechanism"]["keep"])
    odds = f"{keep[0]:.4g}" if keep[0] == keep[-1] else f"{keep[0]:.4g} to {keep[-1]:.4g}"
    truth = f"each is true with probability {odds}, and otherwise one of the other values at random"
    levels = manifest["mechanism"].get("levels")
    cut = "" if levels is None else f"; numbers are cut into {levels} equal parts of their bounds"
    return f"{manifest['rows']:,} records of {len(keep)} randomized answers: {truth}{cut}"


_RESPONSES = Kind(
    title="Private answers of records",
    product="Perturbed records",
    served_by=("responses", "ResponsesRelease"),
    columns=lambda manifest: _numbered("r", sum(c["kind"] != "id" for c in manifest["schema"]["columns"])),
    numbers="int32",
    agrees=lambda manifest, schema: len(manifest["mechanism"]["keep"]) == len(schema.data_columns),
    contents=_responses_contents,
    sensitivity=_each_answer,
    use=(
        ("release.hamming([0], [1]).interval(0.95)", "in how many flags two records differ, with error bars"),
        _NEAREST,
        ("release.table()", "the answers themselves"),
    ),
    example=_of_two_records,
)

_DISTANCES = Kind(
    title="Private distances between records",
    product="Perturbed distances between records",
    served_by=("distances", "DistancesRelease"),
    columns=lambda _: ("squared_distance",),
    size=_pairs,
    agrees=_noise_agrees,
    contents=lambda manifest: f"the squared distances of {_all_pairs(manifest, 'records')}, {_noise_on_each(manifest)}",
    sensitivity=_sensitivity,
    use=(_DISTANCE, _NEAREST, ("release.cleaned()", "the nearest distances that points in space can have")),
    example=_of_two_records,
)


# ---- of all records together ----------------------------------------------------------------------------------------


def _covariance_size(manifest: CovarianceManifest) -> int:
    facts, counted = manifest["mechanism"], "rows" not in manifest
    dim = int(facts["columns"])
    if facts["noise"] == "sketch":
        return int(facts["sketch_rows"]) * dim + counted
    return dim * (dim + 1) // 2 + dim * bool(facts["centred"]) + counted


def _covariance_agrees(manifest: CovarianceManifest, schema: Schema) -> bool:
    facts, bits = manifest["mechanism"], manifest["lattice"]["input_bits"]
    whole = (facts["columns"], facts.get("sketch_rows", 1), bits)
    if facts["columns"] != schema.encoding.dim or not 1 <= bits <= 40 or any(type(n) is not int for n in whole):
        return False
    if facts["noise"] == "sketch":
        return manifest["numerics"] == "idealized"
    if facts["noise"] == "sum":
        return abs(summed_deviation(facts["noises"]) / facts["standard_deviation"] - 1) < 1e-9
    return noise_fits(facts["noise"], facts["scale"], facts["standard_deviation"])


def _covariance_contents(manifest: CovarianceManifest) -> str:
    facts, rows = manifest["mechanism"], manifest.get("rows")
    whose = "a protected number of records" if rows is None else f"{rows:,} records"
    about = "their mean" if facts["centred"] else "the middle of the bounds"
    what = f"the sums of squares and products of {facts['columns']} encoded columns about {about}, over {whose}"
    if facts["noise"] == "sketch":
        return f"{facts['sketch_rows']} Gaussian rows whose covariance is {what}, plus a known ridge"
    where = " (less by the square root of 2 off the diagonal)" if facts["noise"] == "gaussian" else " on each"
    law = "summed" if facts["noise"] == "sum" else facts["noise"]
    return f"{what}, with {law} noise of standard deviation {facts['standard_deviation']:.6g}{where}"


def _covariance_sensitivity(manifest: CovarianceManifest) -> str:
    facts = manifest["mechanism"]
    if facts["noise"] != "sketch":
        return f"Sensitivity: {facts['sensitivity']:.6g}."
    longest = facts["longest"] * (2 if facts["centred"] else 1)
    unit = "replaces" if "rows" in manifest else "adds or removes"
    return f"Sensitivity: one unit {unit} a vector of length up to {longest:.6g}; the ridge is {facts['ridge']:.6g}."


_COVARIANCE = Kind(
    title="A private covariance",
    product="Perturbed second moments of records",
    served_by=("covariance", "CovarianceRelease"),
    columns=lambda _: ("value",),
    size=_covariance_size,
    agrees=_covariance_agrees,
    contents=_covariance_contents,
    sensitivity=_covariance_sensitivity,
    use=(
        ('release.variance("a column").interval()', "variance along a direction, with error bars"),
        ("release.principal_components(2)", "directions of largest variance, with simultaneous intervals"),
        ("release.covariance()", "the covariance matrix as a labelled table, each entry with its error"),
        ("release.correlation()", "the correlation matrix, likewise"),
        ('release.regression("target", ["feature"])', "least squares, with error bars"),
    ),
    example=lambda _: "release.variance(release.names[0])",
)


def _synthetic_agrees(manifest: SyntheticManifest, schema: Schema) -> bool:
    facts = manifest["mechanism"]
    label = sum(column.width for column in schema.data_columns if column.name == facts.get("label"))
    stages = [facts["moments"], *([facts["mean"]] if "mean" in facts else [])]
    fits = all(noise_fits(facts["noise"], stage["scale"], stage["standard_deviation"]) for stage in stages)
    return fits and _projects(manifest, schema.encoding.dim - label)


def _synthetic_contents(manifest: SyntheticManifest) -> str:
    facts = manifest["mechanism"]
    label = f" and a label ({untrusted.line(facts['label'])})" if "label" in facts else ""
    rows = f"{manifest['rows']:,} synthetic rows of {manifest['projection']['dim_out']} numbers{label}"
    return f"{rows}, sampled from a Gaussian model that was fitted with {facts['noise']} noise"


def _synthetic_sensitivity(manifest: SyntheticManifest) -> str:
    facts = manifest["mechanism"]
    kept = "" if claim_kept(manifest) else " These are published constants, which do NOT keep the promise."
    first = f"{facts['mean']['sensitivity']:.6g} for the sums and " if "mean" in facts else ""
    whole = "second moments" if first else "sums and second moments"
    return f"Sensitivity: {first}{facts['moments']['sensitivity']:.6g} for the {whole}.{kept}"


_SYNTHETIC = Kind(
    title="Private synthetic records",
    product="Synthetic records",
    served_by=("synthetic", "SyntheticRelease"),
    columns=lambda manifest: (
        _numbered("z", manifest["projection"]["dim_out"]) + ("label",) * ("label" in manifest["mechanism"])
    ),
    agrees=_synthetic_agrees,
    contents=_synthetic_contents,
    sensitivity=_synthetic_sensitivity,
    use=(
        ("release.array(), release.labels()", "the synthetic rows"),
        ("release.sample(1000)", "more of them, at no cost"),
        ("release.transform(rows)", "your own rows in their space"),
    ),
    example=lambda _: None,
)


# ---- of graphs ------------------------------------------------------------------------------------------------------


def _graph(served_by: str, **own: Any) -> Kind:
    use = (
        ("release.cut([0, 1, 2]).interval(0.95)", "weight of the edges that leave a set, with error bars"),
        ("release.conductance([0, 1, 2])", "the same over the smaller side's volume"),
        ("release.laplacian_quadratic_form(x)", "sum of weight * (x_u - x_v)^2 over the edges"),
    )
    return Kind(served_by=("graph", served_by), use=use, example=lambda _: "release.cut([0])", graph=True, **own)


def _graph_sketch_agrees(manifest: GraphSketchManifest, _: None) -> bool:
    facts, vertices = manifest["mechanism"], manifest["rows"]
    fits = type(facts["rows"]) is int and manifest["numerics"] == "idealized" and facts["ridge"] < vertices
    return fits and abs(facts["ridge"] * (facts["ratio"] + 2 / vertices) / 2 - 1) < 1e-9


def _graph_sketch_contents(manifest: GraphSketchManifest) -> str:
    facts, vertices = manifest["mechanism"], manifest["rows"]
    share = f"{facts['ridge'] / vertices:.2%} of what they show is the complete graph"
    return f"a graph of {vertices:,} vertices as {facts['rows']} Gaussian numbers for each vertex; {share}"


def _graph_sketch_sensitivity(manifest: GraphSketchManifest) -> str:
    return (
        f"Sensitivity: a factor of {1 + manifest['mechanism']['ratio']:.6g} in the variance of the rows along an edge."
    )


def _graph_responses_agrees(manifest: GraphResponsesManifest, _: None) -> bool:
    facts = manifest["mechanism"]
    return abs(facts["keep"] * (1 + math.exp(-facts["epsilon_per_value"])) - 1) < 1e-9


def _graph_responses_contents(manifest: GraphResponsesManifest) -> str:
    facts, truth = manifest["mechanism"], "whether the edge weight is at least one half"
    if facts.get("weighted", False):
        truth = "1 with a probability equal to the edge weight"
    flipped = f"each is flipped with probability {1 - facts['keep']:.4g}"
    return f"one bit for {_all_pairs(manifest, 'vertices')}: {truth}; {flipped}"


KINDS = {
    "sketch": _sketch("A private sketch of records"),
    "components": _sketch("A private sketch of records, on private components"),
    "responses": _RESPONSES,
    "distances": _DISTANCES,
    "covariance": _COVARIANCE,
    "histogram": HISTOGRAM,
    "synthetic": _SYNTHETIC,
    "table": TABLE,
    "graph-sketch": _graph(
        "GraphSketchRelease",
        title="A private sketch of a graph",
        product="Sketch of a graph",
        columns=lambda manifest: _numbered("z", manifest["mechanism"]["rows"]),
        numbers="float32",
        agrees=_graph_sketch_agrees,
        contents=_graph_sketch_contents,
        sensitivity=_graph_sketch_sensitivity,
    ),
    "graph-noise": _graph(
        "PairsRelease",
        title="A private graph, with noise on its edges",
        product="Perturbed edges of a graph",
        columns=lambda _: ("weight",),
        size=_pairs,
        agrees=_noise_agrees,
        contents=lambda manifest: f"the edge weights of {_all_pairs(manifest, 'vertices')}, {_noise_on_each(manifest)}",
        sensitivity=_sensitivity,
    ),
    "graph-responses": _graph(
        "PairsRelease",
        title="A private graph, with randomized edges",
        product="Perturbed edges of a graph",
        columns=lambda _: ("edge",),
        numbers="int8",
        size=_pairs,
        agrees=_graph_responses_agrees,
        contents=_graph_responses_contents,
        sensitivity=_each_answer,
    ),
}
