"""What travels with a release: a manifest with a JSON Schema, a page in plain words, a draft for a registry."""

import hashlib
import json
import math
from importlib import metadata, resources
from pathlib import Path
from typing import Any, TypeAlias

import jsonschema

from sfumato.errors import ReleaseError, SfumatoError
from sfumato.guarantee import Change, Guarantee
from sfumato.schema import Schema

Manifest: TypeAlias = dict[str, Any]

FORMAT, VERSION = "sfumato-release", 1
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
    """Add format, version and software, check against the JSON Schema, and seal with a digest of the whole."""
    body = {"format": FORMAT, "version": VERSION, "software": {"sfumato": metadata.version("sfumato")}, **fields}
    sealed = body | {"digest": digest(body)}
    _check_shape(sealed)
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
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise ReleaseError(f"{path} cannot be read as JSON: the release is damaged, ask its owner for a copy") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ReleaseError(f"{path} is not the manifest of a sfumato release")
    if manifest.get("version") != VERSION:
        raise ReleaseError(
            f"{path} has format version {manifest.get('version')!r}; this sfumato reads version {VERSION}"
        )
    _check_shape(manifest, path)
    if manifest["digest"] != digest(manifest):
        raise ReleaseError(f"{path} was changed after the release was made (its digest does not fit): do not trust it")
    _check_sense(manifest, path)
    return manifest


def _check_sense(manifest: Manifest, path: Path) -> None:
    """What the JSON Schema cannot say: whole numbers, a guarantee and a schema that can be, numbers that agree."""
    projection, mechanism = manifest["projection"], manifest["mechanism"]
    try:
        read_guarantee(manifest["guarantee"])
        encoded = Schema.from_dict(manifest["schema"]).encoding.dim
        whole = all(type(n) is int for n in (manifest["rows"], projection["dim_in"], projection["dim_out"]))
        ratio = mechanism["standard_deviation"] / mechanism["scale"]
        fits = abs(ratio - (math.sqrt(2) if mechanism["noise"] == "laplace" else 1)) < 1e-9
        listed = {"data.parquet"} | ({"projection.parquet"} if projection["published"] else set())
        sound = whole and fits and encoded == projection["dim_in"] and set(manifest["files"]) == listed
    except (SfumatoError, TypeError, ValueError, OverflowError):
        sound = False
    if not sound:
        raise ReleaseError(f"{path} contradicts itself: the release is damaged or forged, do not trust it")


def _check_shape(manifest: Manifest, path: Path | str = "the manifest") -> None:
    schema = json.loads(resources.files("sfumato").joinpath("manifest.schema.json").read_text(encoding="utf-8"))
    try:
        jsonschema.validate(manifest, schema, cls=jsonschema.Draft202012Validator)
    except jsonschema.ValidationError as error:
        place = "/".join(map(str, error.absolute_path)) or "its top level"
        raise ReleaseError(f"{path} does not have the form of a manifest: see {place}") from None


def plain_words(manifest: Manifest) -> str:
    """README.txt: the promise, what it does not cover, and how to use the release."""
    guarantee = read_guarantee(manifest["guarantee"])
    mechanism, projection = manifest["mechanism"], manifest["projection"]
    warnings = "".join(f"  ! {line}\n" for line in manifest["warnings"]) or "  none\n"
    kept = "published here" if projection["published"] else "kept by the owner"
    return f"""A private release made with sfumato {manifest["software"]["sfumato"]}

THE PROMISE
{guarantee.describe()}
epsilon = {guarantee.epsilon!r}, delta = {guarantee.delta!r},
unit = {guarantee.unit}, neighbours = {guarantee.neighbours},
change = {guarantee.allowed_change.describe()}, projection = {guarantee.projection}.

WHAT IS HERE
{manifest["rows"]} records, each as {projection["dim_out"]} numbers (data.parquet),
made from {projection["dim_in"]} encoded columns by a {projection["family"]} projection ({kept}),
with {mechanism["noise"]} noise of standard deviation {mechanism["standard_deviation"]:.6g} on each number.

WHAT THE PROMISE DOES NOT COVER
The number of records, the order of the rows, and public ids are not protected. Other releases of the same data add up.
Randomness: {manifest["randomness"]}.
Warnings:
{warnings}
HOW TO USE IT
    import sfumato
    release = sfumato.load("this folder")
    release.distance(0, 1).interval(0.95)     squared distance between two records, with error bars
    release.nearest(0, k=10)                  the records most like the first
    release.array()                           the numbers themselves
"""


def registry_entry(manifest: Manifest) -> str:
    """A draft for the OpenDP deployments registry, tier 3: what is known is filled in, the rest is the owner's."""
    guarantee = read_guarantee(manifest["guarantee"])
    flavour = "Pure DP" if guarantee.delta == 0 else "Approximate DP"
    parameters = f"      epsilon: {guarantee.epsilon!r}\n" + (
        f"      delta: {guarantee.delta!r}\n" if guarantee.delta else ""
    )
    mechanism, projection = manifest["mechanism"], manifest["projection"]
    text = {
        "domain": f"Tables of {len(manifest['schema']['columns'])} declared columns, clipped to public bounds.",
        "unprotected": "The number and order of the records, the schema and its bounds, public ids.",
        "unit": f"{guarantee.unit}: {guarantee.allowed_change.describe()}. Neighbours: {guarantee.neighbours}.",
        "mechanisms": f"{mechanism['noise']} noise on a {projection['family']} projection to {projection['dim_out']} "
        "numbers per record, on an integer lattice, exact to the last bit (no floating-point noise).",
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
    data_product_type: Sketches of records
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
