"""What a manifest says of a shared space: checked against its schema and projection, and in words for people."""

from collections.abc import Mapping
from typing import Any

from sfumato import untrusted
from sfumato.fileformat.manifest import Manifest
from sfumato.projection.space import Space
from sfumato.tables.schema import Schema

_SHOWN = 12  # letters of a digest that people see


def space_in(manifest: Manifest, schema: Schema | None = None) -> Space | None:
    """The shared space of a manifest, or None where it is in none; refused where its digest is not that of the space.

    ``schema``: the manifest's, where it was read already. A part has the joint schema beside its columns.
    """
    if "space" not in manifest:
        return None
    facts: Mapping[str, Any] = manifest["space"]
    joint = Schema.from_dict(facts["schema"]) if "schema" in facts else schema or Schema.from_dict(manifest["schema"])
    return Space.of_facts(joint, {key: facts[key] for key in facts if key not in ("columns", "schema")})


def space_agrees(manifest: Manifest, schema: Schema | None) -> bool:
    """Check of a manifest that names a space: its schema is the space's or a part of it, and so is its projection.

    The projection must be published, and no guarantee may rest on its being new.
    """
    space = space_in(manifest, schema)
    if space is None:
        return True
    facts = manifest["space"]
    if schema is None or ("columns" in facts) != ("schema" in facts) or manifest["guarantee"]["projection"] != "fixed":
        return False
    part = space.part(facts.get("columns"))
    if part.schema.to_dict() != schema.to_dict():
        return False
    if "columns" in facts and facts["columns"] != [column.name for column in schema.data_columns]:
        return False
    if "projection" not in manifest:
        return True
    drawn: Mapping[str, Any] = manifest["projection"]
    said = {"family": drawn["family"], "dimension": drawn["dim_out"]}
    said |= {key: drawn[key] for key in ("seed", "sparsity") if key in drawn}
    return said == space.facts and drawn["published"] is True and drawn["dim_in"] == part.rows.size


def joint_columns(manifest: Manifest) -> int:
    """How many encoded columns a release's projection has in all; of a part in a shared space, those of the joint one.

    The law of an orthonormal projection depends on them.
    """
    facts = manifest.get("space", {})
    whole = Schema.from_dict(facts["schema"]).encoding.dim if "schema" in facts else 0
    return max(whole, int(manifest["projection"]["dim_in"]))


def space_sentence(manifest: Manifest) -> str | None:
    """Sentences for people about the shared space of a release; None where it is in none."""
    if "space" not in manifest:
        return None
    facts = manifest["space"]
    held = ", ".join(facts["columns"]) if "columns" in facts else None
    part = "" if held is None else f" Its owner holds these columns of it: {untrusted.line(held)}."
    return (
        f"It is in the shared space {facts['digest'][:_SHOWN]}, so it can be compared with releases of other owners in "
        f"the same space.{part} Somebody whose data several of them hold loses what these releases cost together."
    )
