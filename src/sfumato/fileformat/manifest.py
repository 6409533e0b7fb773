"""What travels with a release: a manifest with a JSON Schema, a page in plain words, a draft for a registry."""

import decimal  # noqa: F401 - jsonschema_rs loads it, and panics if an interrupt comes meanwhile
import functools
import hashlib
import itertools
import json
import math
import re
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

import jsonschema_rs

from sfumato import bounded, plain
from sfumato.errors import ReleaseError, SfumatoError
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.tables.schema import Schema
from sfumato.version import __version__

Manifest: TypeAlias = dict[str, Any]

FORMAT, VERSION = "sfumato-release", 1
DATA, PROJECTION = "data.parquet", "projection.parquet"
_GRAPHS = ("graph-sketch", "graph-noise", "graph-responses")
MOST_NUMBERS = 1 << 20  # of one record
LARGEST = 1 << 26  # bytes of a manifest; in memory it may take some ten times as many
_PLAIN = re.compile(r"[\w.-]{1,40}", re.ASCII)  # a name that can be shown
RANDOMNESS = "ChaCha20 keyed by the operating system; the guarantee is computational"


def describe_guarantee(guarantee: Guarantee) -> Manifest:
    """All fields of a guarantee, as JSON."""
    change = guarantee.allowed_change
    return {
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "unit": guarantee.unit,
        "group": guarantee.group,
        "neighbours": guarantee.neighbours,
        "change": {"kind": change.kind} | ({"radius": change.radius} if change.radius is not None else {}),
        "projection": guarantee.projection,
    }


def read_guarantee(fields: Manifest) -> Guarantee:
    """The inverse of ``describe_guarantee``."""
    return Guarantee(**(fields | {"change": Change(**fields["change"])}))


def complete(fields: Manifest) -> Manifest:
    """Add format, version and software, check against the JSON Schema, and seal with a digest of the whole.

    A field that is None is left out: a number of rows that is protected.
    """
    said = {key: value for key, value in fields.items() if value is not None}
    body = {"format": FORMAT, "version": VERSION, "software": {"sfumato": __version__}, **said}
    sealed = body | {"digest": digest(body)}
    text = to_json(sealed)
    if len(text) > LARGEST:
        raise ReleaseError(
            f"the manifest would have more than {LARGEST >> 20} MiB, and nobody could load the release: take fewer "
            "columns, a smaller dimension or fewer classes"
        )
    try:
        read_again = bounded.loads(text)
    except ValueError as error:
        raise ReleaseError(f"the manifest could not be read again: {error}") from None
    _check_shape(read_again)
    return sealed


def digest(manifest: Manifest) -> str:
    """SHA-256 of the canonical JSON of everything but the digest itself."""
    body = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def to_json(manifest: Manifest) -> str:
    """The manifest as it is written."""
    return json.dumps(manifest, indent=2, sort_keys=False) + "\n"


def read(path: Path) -> Manifest:
    """Read and check a manifest: shape, version, digest. Nothing in it is executed or unpickled."""
    if path.is_symlink() or not path.is_file():
        raise ReleaseError(f"{path.parent} is not a release: it has no manifest.json of its own")
    try:
        manifest = bounded.loads(bounded.read(path, LARGEST, follow=False).decode())
    except bounded.NotOrdinaryError as error:
        raise ReleaseError(f"{path} is not read: {error}") from None
    except bounded.SaidTwiceError:
        raise ReleaseError(
            f"{path} says something twice (a key of an object is repeated): it is damaged or forged, do not trust it"
        ) from None
    except (OSError, ValueError, RecursionError):
        raise ReleaseError(f"{path} cannot be read as JSON: the release is damaged, ask its owner for a copy") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ReleaseError(f"{path} is not the manifest of a sfumato release")
    if manifest.get("version") != VERSION:
        raise ReleaseError(
            f"{path} has format version {plain.line(repr(manifest.get('version')), 40)}; this sfumato reads version "
            f"{VERSION}"
        )
    _check_shape(manifest, path)
    if manifest["digest"] != digest(manifest):
        raise ReleaseError(f"{path} was changed after the release was made (its digest does not fit): do not trust it")
    _check_sense(manifest, path)
    return manifest


def _check_sense(manifest: Manifest, path: Path) -> None:
    """What the JSON Schema cannot say: whole numbers, a guarantee and a schema that can be, numbers that agree."""
    try:
        read_guarantee(manifest["guarantee"])
        if manifest["kind"] in _GRAPHS:
            sound = type(manifest["rows"]) is int and _graph_agrees(manifest)
        else:
            schema = Schema.from_dict(manifest["schema"])
            sound = type(manifest.get("rows", 1)) is int and _files_fit(manifest) and _agrees(manifest, schema)
    except (SfumatoError, TypeError, ValueError, OverflowError):
        sound = False
    if not sound:
        raise ReleaseError(f"{path} contradicts itself: the release is damaged or forged, do not trust it")


def _agrees(manifest: Manifest, schema: Schema) -> bool:
    """Whether noise, projection and schema say the same thing."""
    mechanism, projection = manifest["mechanism"], manifest.get("projection")
    if projection is not None:
        label = mechanism.get("label") if manifest["kind"] == "synthetic" else None
        features = schema.encoding.dim - sum(c.width for c in schema.data_columns if c.name == label)
        if type(projection["dim_out"]) is not int or projection["dim_in"] != features:
            return False
    if manifest["kind"] == "synthetic":
        stages = [mechanism[stage] for stage in ("mean", "moments") if stage in mechanism]
        return all(_noise_fits(mechanism["noise"], stage) for stage in stages)
    if manifest["kind"] == "responses":
        return len(mechanism["keep"]) == len(schema.data_columns)
    if manifest["kind"] == "covariance":
        bits = manifest["lattice"]["input_bits"]
        whole = (mechanism["columns"], mechanism.get("sketch_rows", 1), bits)
        fits = mechanism["columns"] == schema.encoding.dim and 1 <= bits <= 40
        if not fits or not all(type(number) is int for number in whole):
            return False
        if mechanism["noise"] == "sketch":
            return bool(manifest["numerics"] == "idealized")
    return _noise_fits(mechanism["noise"], mechanism)


def _files_fit(manifest: Manifest) -> bool:
    published = manifest.get("projection", {"published": False})["published"]
    return bool(data_files(manifest)) and (PROJECTION in manifest["files"]) == published


def data_files(manifest: Manifest) -> list[str]:
    """The files of published numbers in the order of their rows: one, or all of several parts; nothing otherwise."""
    names = [name for name in manifest["files"] if name != PROJECTION]
    parts = [part_name(number) for number in range(len(names))]
    return names if names == [DATA] else parts if set(parts) == set(names) else []


def part_name(number: int) -> str:
    """The name of one of several files of published numbers."""
    return f"part-{number:06d}.parquet"


def _noise_fits(noise: str, facts: Manifest) -> bool:
    """Whether a scale and a standard deviation are of the same noise."""
    ratio = facts["standard_deviation"] / facts["scale"]
    return bool(abs(ratio - (math.sqrt(2) if noise == "laplace" else 1)) < 1e-9)


def _graph_agrees(manifest: Manifest) -> bool:
    """Whether unit, ridge or noise, and files say the same thing."""
    mechanism, vertices = manifest["mechanism"], manifest["rows"]
    fits = set(manifest["files"]) == {DATA} and manifest["guarantee"]["unit"] == "edge"
    if manifest["kind"] == "graph-sketch":
        ridge = mechanism["ridge"]
        fits &= type(mechanism["rows"]) is int and manifest["numerics"] == "idealized" and ridge < vertices
        return fits and abs(ridge * (mechanism["ratio"] + 2 / vertices) / 2 - 1) < 1e-9
    if manifest["kind"] == "graph-noise":
        root = math.sqrt(2) if mechanism["noise"] == "laplace" else 1
        return fits and abs(mechanism["standard_deviation"] / mechanism["scale"] / root - 1) < 1e-9
    return fits and abs(mechanism["keep"] * (1 + math.exp(-mechanism["epsilon_per_value"])) - 1) < 1e-9


def _check_shape(manifest: Manifest, path: Path | str = "the manifest") -> None:
    try:
        _form().validate(manifest)
    except jsonschema_rs.ValidationError as error:  # the first of them: all would fill the memory
        known = itertools.takewhile(_PLAIN.fullmatch, map(str, error.instance_path))  # and no word of a stranger's
        place = f"see {'/'.join(known) or 'its top level'}"
    except ValueError:  # half of a character, which JSON can write, or lists in lists in lists
        place = "not all of it can be read"
    else:
        return
    raise ReleaseError(f"{path} does not have the form of a manifest: {place}")


@functools.cache
def _form() -> Any:
    """The JSON Schema, read once; a test checks that it is one."""
    schema = json.loads(
        resources.files("sfumato.fileformat").joinpath("manifest.schema.json").read_text(encoding="utf-8")
    )
    return jsonschema_rs.Draft202012Validator(schema)


def contents(manifest: Manifest) -> str:
    """What a release holds, in one sentence."""
    if manifest["kind"] == "covariance":
        return _covariance_contents(manifest)
    kind, rows, mechanism = manifest["kind"], manifest["rows"], manifest["mechanism"]
    if kind in _GRAPHS:
        return _graph_contents(manifest)
    if kind == "responses":
        keep = sorted(mechanism["keep"])
        odds = f"{keep[0]:.4g}" if keep[0] == keep[-1] else f"{keep[0]:.4g} to {keep[-1]:.4g}"
        return (
            f"{rows:,} records of {len(keep)} answers each, every one true with probability {odds} "
            "and otherwise drawn from the other values"
        )
    if kind == "synthetic":
        drawn = f"{rows:,} synthetic rows of {manifest['projection']['dim_out']} numbers"
        label = f" and a label ({plain.line(mechanism['label'])})" if "label" in mechanism else ""
        return f"{drawn}{label}, drawn from a Gaussian model that was found with {mechanism['noise']} noise"
    noise = f"{mechanism['noise']} noise of standard deviation {mechanism['standard_deviation']:.6g} on each number"
    if kind == "distances":
        return f"the squared distances of all {rows * (rows - 1) // 2:,} pairs of {rows:,} records, with {noise}"
    projection = manifest["projection"]
    made = {"components": "projected on private principal components"}.get(
        kind, f"by a {projection['family']} projection"
    )
    shape = (
        f"{rows:,} records as {projection['dim_out']} numbers each, made from {projection['dim_in']} encoded columns"
    )
    return f"{shape} {made}, with {noise}"


def _graph_contents(manifest: Manifest) -> str:
    vertices, mechanism = manifest["rows"], manifest["mechanism"]
    if manifest["kind"] == "graph-sketch":
        return (
            f"a graph of {vertices:,} vertices as {mechanism['rows']} Gaussian numbers for each, whose law mixes "
            f"{mechanism['ridge'] / vertices:.2%} of the complete graph into it"
        )
    pairs = f"all {vertices * (vertices - 1) // 2:,} pairs of {vertices:,} vertices"
    if manifest["kind"] == "graph-noise":
        noise = f"{mechanism['noise']} noise of standard deviation {mechanism['standard_deviation']:.6g}"
        return f"the edge weights of {pairs}, with {noise} on each"
    kept = f"each answer true with probability {mechanism['keep']:.4g}"
    if mechanism.get("weighted", False):
        return f"a 0 or a 1 for {pairs}, drawn with the weight of the edge as the probability of a 1, {kept}"
    return f"whether there is an edge (of weight at least one half), for {pairs}, {kept}"


def _covariance_contents(manifest: Manifest) -> str:
    mechanism, rows = manifest["mechanism"], manifest.get("rows")
    whose = "a number of records that is protected" if rows is None else f"{rows:,} records"
    about = "their mean" if mechanism["centred"] else "the middle of the bounds"
    what = f"the sums of squares and products of {mechanism['columns']} encoded columns about {about}, over {whose}"
    if mechanism["noise"] == "sketch":
        return f"{mechanism['sketch_rows']} Gaussian rows whose covariance is {what}, plus a known ridge"
    noise = f"{mechanism['noise']} noise of standard deviation {mechanism['standard_deviation']:.6g}"
    where = " (less by the square root of 2 off the diagonal)" if mechanism["noise"] == "gaussian" else " on each"
    return f"{what}, with {noise}{where}"


def moves(manifest: Manifest) -> str:
    """How far one unit moves what is published."""
    mechanism = manifest["mechanism"]
    if manifest["kind"] == "covariance" and mechanism["noise"] == "sketch":
        longest = mechanism["longest"] * (2 if mechanism["centred"] else 1)
        pair = "a vector" if "rows" not in manifest else "a vector for another,"
        return f"one unit changes {pair} no longer than {longest:.6g} where the ridge is {mechanism['ridge']:.6g}"
    if manifest["kind"] == "graph-sketch":
        return f"one edge changes the variance of the rows along it by a factor of at most {1 + mechanism['ratio']:.6g}"
    if manifest["kind"] in ("responses", "graph-responses"):
        return f"each answer is given with epsilon {mechanism['epsilon_per_value']:.6g}"
    if manifest["kind"] == "synthetic":
        kept = "" if mechanism["satisfies_claim"] else "; by the published constants, which do NOT keep the promise"
        sums = "and the second moments"
        if mechanism["centring"] == "private":
            sums = f"by at most {mechanism['mean']['sensitivity']:.6g} and the second moments"
        return f"one unit moves the sums {sums} by at most {mechanism['moments']['sensitivity']:.6g}{kept}"
    if "radius" in mechanism:
        return (
            f"one unit moves a record by at most {mechanism['radius']:.6g} before a projection drawn for this release"
        )
    chosen = ""
    if "choice" in mechanism:
        chosen = f"; {mechanism['choice']['epsilon']:g} of epsilon went to choosing how many numbers a record becomes"
    return f"one unit moves the numbers by at most {mechanism['sensitivity']:.6g}{chosen}"


_USE = {
    "synthetic": """    release.array(), release.labels()         the synthetic rows
    release.sample(1000)                      more of them, at no cost
    release.transform(rows)                   your own rows in their space""",
    "responses": """    release.hamming([0], [1]).interval(0.95)  in how many flags two records differ, with error bars
    release.nearest(0, k=10)                  the records most like the first
    release.table()                           the answers themselves""",
    **dict.fromkeys(
        _GRAPHS,
        """    release.cut([0, 1, 2]).interval(0.95)     weight of the edges that leave a set, with error bars
    release.conductance([0, 1, 2])            the same over the smaller side's volume
    release.laplacian_quadratic_form(x)       sum of weight * (x_u - x_v)^2 over the edges""",
    ),
    "covariance": """    release.variance("a column").interval()   variance along a direction, with error bars
    release.principal_components(2)           directions of largest variance, with simultaneous intervals
    release.covariance()                      the matrix itself""",
    "distances": """    release.distance(0, 1).interval(0.95)     squared distance between two records, with error bars
    release.nearest(0, k=10)                  the records most like the first
    release.cleaned()                         the nearest distances that points in space can have""",
}
_USE_NUMBERS = """    release.distance(0, 1).interval(0.95)     squared distance between two records, with error bars
    release.nearest(0, k=10)                  the records most like the first
    release.array()                           the numbers themselves"""


_UNPROTECTED = {
    False: "The number of records, the order of the rows, and public ids",
    True: "The number of vertices, their numbering, and all edges of one vertex taken together",
}


def unprotected(manifest: Manifest) -> str:
    """What the promise leaves open, as a sentence."""
    if manifest["mechanism"].get("counts") == "public":
        return "The number of records, their labels and how many have each are not protected."
    if manifest["guarantee"]["neighbours"] == "add-remove":
        return "The schema and its bounds are not protected; the number of records is."
    return f"{_UNPROTECTED[manifest['kind'] in _GRAPHS]} are not protected."


def _retraction(manifest: Manifest) -> str:
    """Beside the promise itself, where a release is known not to keep it."""
    if manifest["mechanism"].get("satisfies_claim", True):
        return ""
    return (
        " AS IT WAS PUBLISHED, WHICH THIS RELEASE DOES NOT KEEP\nIts noise has published constants that are too small."
    )


def accounted(manifest: Manifest) -> str:
    """To which budget a release was charged."""
    ledger = manifest["ledger"]
    return f"charged to the budget of {ledger['dataset']!r}, entry {ledger['entry']} of its ledger"


def plain_words(manifest: Manifest) -> str:
    """README.txt: the promise, what it does not cover, and how to use the release."""
    guarantee = read_guarantee(manifest["guarantee"])
    warnings = "".join(f"  ! {plain.line(line)}\n" for line in manifest["warnings"]) or "  none\n"
    charged = f"; this one was {accounted(manifest)}" if manifest["accounted"] else ""
    kept, graph = "", manifest["kind"] in _GRAPHS
    if "projection" in manifest:
        kept = (
            f"\nThe projection is {'published here' if manifest['projection']['published'] else 'kept by the owner'}."
        )
    return f"""A private release made with sfumato {plain.line(manifest["software"]["sfumato"])}

THE PROMISE{_retraction(manifest)}
{guarantee.describe()}
epsilon = {guarantee.epsilon!r}, delta = {guarantee.delta!r},
unit = {guarantee.unit}, neighbours = {guarantee.neighbours},
change = {guarantee.describe_change()}{"" if graph else f", projection = {guarantee.projection}"}.

WHAT IS HERE
{DATA if DATA in manifest["files"] else "part-*.parquet, one after the other"}: {contents(manifest)}.{kept}

WHAT THE PROMISE DOES NOT COVER
{unprotected(manifest)} Other releases of the same data add up{charged}.
Randomness: {plain.line(manifest["randomness"])}.
Warnings:
{warnings}
HOW TO USE IT
    import sfumato
    release = sfumato.load("this folder")
{_USE.get(manifest["kind"], _USE_NUMBERS)}
"""


_PRODUCTS = {
    "synthetic": "Synthetic records",
    "covariance": "Perturbed second moments of records",
    "sketch": "Sketches of records",
    "components": "Sketches of records",
    "responses": "Perturbed records",
    "distances": "Perturbed distances between records",
    "graph-sketch": "Sketch of a graph",
    "graph-noise": "Perturbed edges of a graph",
    "graph-responses": "Perturbed edges of a graph",
}


_NUMERICS = {
    "exact": "on an integer lattice, exact to the last bit (no floating-point noise)",
    "idealized": "proved for real numbers, computed in doubles, rounded to a coarse grid",
}


def registry_entry(manifest: Manifest) -> str:
    """A draft for the OpenDP deployments registry, tier 3: what is known is filled in, the rest is the owner's."""
    guarantee = read_guarantee(manifest["guarantee"])
    flavour = "Pure DP" if guarantee.delta == 0 else "Approximate DP"
    parameters = f"      epsilon: {guarantee.epsilon!r}\n" + (
        f"      delta: {guarantee.delta!r}\n" if guarantee.delta else ""
    )
    text = {
        "domain": f"Tables of {len(manifest['schema']['columns'])} declared columns, clipped to public bounds."
        if "schema" in manifest
        else f"Undirected graphs on {manifest['rows']} vertices with edge weights clipped to [0, 1].",
        "unprotected": "The number and order of the records, the schema and its bounds, public ids."
        if "schema" in manifest and "rows" in manifest
        else unprotected(manifest),
        "unit": f"{guarantee.unit}: {guarantee.describe_change()}. Neighbours: {guarantee.neighbours}.",
        "mechanisms": f"{contents(manifest)}; {_NUMERICS[manifest['numerics']]}.",
        "accounting": "; ".join(manifest["warnings"]) or "A single release.",
    }
    quoted = {key: json.dumps(value) for key, value in text.items()}
    return f"""url_slug: ''  # to fill in
status: Draft
tier: 3
deployment:
  product:
    name: ''  # to fill in
    data_curators: []  # to fill in
    intended_use: ''  # to fill in
    data_product_type: {_PRODUCTS[manifest["kind"]]}
    data_product_region: ''  # to fill in
    description: ''  # to fill in
    publication_date: ''  # to fill in
    data_product_sector: ''  # to fill in
  dp_flavor:
    name: {flavour}
    data_domain: {quoted["domain"]}
    unprotected_quantities: {quoted["unprotected"]}
  privacy_loss:
    privacy_unit: {guarantee.unit}-level
    privacy_unit_description: {quoted["unit"]}
    privacy_parameters:
{parameters}  model:
    model_name: Central
    actors: ''  # to fill in
    release_type: One release
    data_source_type: Static
    access_type: Non-interactive
  accounting:
    post_processing: None
    composition: {quoted["accounting"]}
  implementation:
    pre_processing_eda_hyperparameter_tuning: ''  # to fill in
    mechanisms: {quoted["mechanisms"]}
    justification: ''  # to fill in
  resources:
    sources: ''  # to fill in
    registry_authors: []  # to fill in
"""
