"""What a release says of itself to people: README.txt, a draft for the OpenDP registry, and the sentences in them."""

import functools
import json
from importlib import resources
from string import Template

from sfumato import untrusted
from sfumato.fileformat import kinds
from sfumato.fileformat.manifest import DATA, Manifest
from sfumato.fileformat.owners import owners_sentence
from sfumato.fileformat.spaces import space_sentence
from sfumato.privacy.guarantee import Guarantee

_UNPROTECTED = {
    False: "The number of records, the order of the rows, and public ids are not protected.",
    True: "The number of vertices, their numbering, and all edges of one vertex taken together are not protected.",
}
_NUMERICS = {
    "exact": "on an integer lattice, exact to the last bit (no floating-point noise)",
    "idealized": "proved for real numbers, computed in doubles, rounded to a coarse grid",
}
_NOT_KEPT = (
    " AS IT WAS PUBLISHED, WHICH THIS RELEASE DOES NOT KEEP\nIts noise has published constants that are too small."
)


def contents(manifest: Manifest) -> str:
    """What a release holds, in plain words: a phrase for its README."""
    return kinds.of(manifest).contents(manifest)


def promise(manifest: Manifest) -> str:
    """Sentences for people: what a release promises; what its projection may be only where it has one."""
    return Guarantee.from_dict(manifest["guarantee"]).describe(projected=_projected(manifest))


def _projected(manifest: Manifest) -> bool:
    return "projection" in manifest or manifest["guarantee"].get("projection") == "fresh"


def sensitivity(manifest: Manifest) -> str:
    """Sentence for people: how much of what is published one protected unit changes."""
    return kinds.of(manifest).sensitivity(manifest)


def unprotected(manifest: Manifest) -> str:
    """Sentence for people: what the guarantee of a release does not cover."""
    if "stream" in manifest:
        return _unprotected_in_streams(manifest)
    if manifest["mechanism"].get("counts") == "public":
        return "The number of records, their labels and how many have each are not protected."
    if manifest["guarantee"]["neighbours"] == "add-remove":
        return "The schema and its bounds are not protected; the number of records is."
    return _UNPROTECTED[kinds.of(manifest).graph]


def _unprotected_in_streams(manifest: Manifest) -> str:
    if manifest["guarantee"]["neighbours"] == "add-remove":
        return (
            "The schema and its bounds, and when periods end, are not protected; the number of records, and in which "
            "period each came, are."
        )
    return (
        "The number of records of each period, and in which period a record came, are not protected: a record is "
        "replaced within its period."
    )


def streamed(manifest: Manifest) -> str:
    """Sentences for people: which period of a stream a release is of, and what its promise is about."""
    told = manifest["stream"]
    return (
        f"This is the running sum of a stream after period {told['period']} ({untrusted.line(told['label'], 80)!r}) of "
        f"at most {told['horizon']}, by its {told['method']} factorisation. The promise is about everything that the "
        "stream publishes within that horizon, together."
    )


def accounted(manifest: Manifest) -> str:
    """Sentence for people: to which privacy budget a release was charged."""
    ledger = manifest["ledger"]
    return f"charged to the budget of {ledger['dataset']!r}, entry {ledger['entry']} of its ledger"


def summary(manifest: Manifest) -> str:
    """What a release holds and promises, in a few lines of plain words."""
    held = contents(manifest)
    lines = [
        f"{held[:1].upper()}{held[1:]}.",
        promise(manifest),
        sensitivity(manifest),
        *filter(None, [space_sentence(manifest), owners_sentence(manifest)]),
        *([streamed(manifest)] if "stream" in manifest else []),
        *([f"This release was {accounted(manifest)}."] if manifest["accounted"] else []),
        *(f"warning: {line}" for line in manifest["warnings"]),
    ]
    return "\n".join(map(untrusted.line, lines))


def readme(manifest: Manifest) -> str:
    """README.txt: the promise, what it does not cover, and how to use the release."""
    guarantee, kind = Guarantee.from_dict(manifest["guarantee"]), kinds.of(manifest)
    kept = ""
    if "projection" in manifest:
        where = "published here" if manifest["projection"]["published"] else "kept by the owner"
        kept = f"\nThe projection is {where}."
    kept += "".join(f"\n{said}" for said in [space_sentence(manifest), owners_sentence(manifest)] if said is not None)
    return _template("README.template.txt").substitute(
        software=untrusted.line(manifest["software"]["sfumato"]),
        retraction="" if kinds.claim_kept(manifest) else _NOT_KEPT,
        promise=promise(manifest),
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        unit=guarantee.unit,
        neighbours=guarantee.neighbours,
        change=guarantee.describe_change(),
        projection=f", projection = {guarantee.projection}" if _projected(manifest) and not kind.graph else "",
        file=DATA if DATA in manifest["files"] else "part-*.parquet, one after the other",
        contents=f"{kind.contents(manifest)}.{kept}" + (f"\n{streamed(manifest)}" if "stream" in manifest else ""),
        unprotected=unprotected(manifest),
        charged=f" This one was {accounted(manifest)}." if manifest["accounted"] else "",
        randomness=untrusted.line(manifest["randomness"]),
        warnings="\n".join(f"  ! {untrusted.line(line)}" for line in manifest["warnings"]) or "  none",
        use="\n".join(f"    {code:41} {gives}" for code, gives in kind.use),
    )


def registry_draft(manifest: Manifest) -> str:
    """A draft for the OpenDP deployments registry, tier 3: what is known is filled in, the rest is the owner's."""
    guarantee, tabular = Guarantee.from_dict(manifest["guarantee"]), "schema" in manifest
    domain = f"Undirected graphs on {manifest.get('rows')} vertices with edge weights clipped to [0, 1]."
    if tabular:
        domain = f"Tables of {len(manifest['schema']['columns'])} declared columns, clipped to public bounds."
    open_facts = "The number and order of the records, the schema and its bounds, public ids."
    text = {
        "domain": domain,
        "unprotected": open_facts if tabular and "rows" in manifest else unprotected(manifest),
        "change": f"{guarantee.unit}: {guarantee.describe_change()}. Neighbours: {guarantee.neighbours}.",
        "mechanisms": f"{contents(manifest)}; {_NUMERICS[manifest['numerics']]}.",
        "accounting": "; ".join(manifest["warnings"]) or _single(manifest),
    }
    return _template("registry.template.yaml").substitute(
        {key: json.dumps(value) for key, value in text.items()},
        product=kinds.of(manifest).product,
        flavour="Approximate DP" if guarantee.delta else "Pure DP",
        unit=guarantee.unit,
        epsilon=guarantee.epsilon,
        delta=f"\n      delta: {guarantee.delta!r}" if guarantee.delta else "",
    )


def _single(manifest: Manifest) -> str:
    return streamed(manifest) if "stream" in manifest else "A single release."


@functools.cache
def _template(name: str) -> Template:
    return Template(resources.files("sfumato.fileformat").joinpath(name).read_text(encoding="utf-8"))
