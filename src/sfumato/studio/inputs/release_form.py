"""The form of the Release screen: what it begins with, what its fields offer, and the recipe that they describe."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sfumato import check, defaults
from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Recipe
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.distances import NoisyDistances
from sfumato.mechanisms.graph_pairs import EdgeNoise, EdgeResponse
from sfumato.mechanisms.graph_sketch import GraphSketch
from sfumato.mechanisms.histogram import Histogram
from sfumato.mechanisms.responses import RandomizedResponse
from sfumato.mechanisms.sketch import Sketch
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.mechanisms.table.recipe import Table
from sfumato.planning.plans import plan_sketch
from sfumato.privacy.guarantee import Guarantee
from sfumato.projection.space import Space
from sfumato.studio.inputs.form_fields import Form, whole_in
from sfumato.studio.inputs.page_words import CENTRES, CHANGES, LABEL_KINDS, NEIGHBOURS, NOISES, UNITS
from sfumato.tables.blocks import MEMORY
from sfumato.tables.columns import Category, Flag, Integer, Ordinal, Real
from sfumato.tables.declared import keeps_missing
from sfumato.tables.schema import Schema

MECHANISMS: Final = {
    "table": "table: synthetic rows in the same columns",
    "sketch": "sketch: a few noisy numbers per record",
    "responses": "randomized response on every value",
    "distances": "noise on the distances of all pairs",
    "synthetic": "synthetic records from a Gaussian model",
    "covariance": "covariance of the columns",
    "histogram": "histogram: counts of cells",
    "graph sketch": "graph: a sketch that answers cuts",
    "edge noise": "graph: noise on every pair",
    "edge response": "graph: randomized response on every pair",
}
GRAPHS: Final = ("graph sketch", "edge noise", "edge response")
FIELDS: Final = (
    *("data", "mechanism", "projection", "dimension", "noise", "centred", "rows", "levels", "vertices", "label"),
    *("label_kind", "synthetic_rows", "unit", "epsilon", "delta", "change", "radius", "neighbours"),
    *("dataset", "convert", "exceptions", "name", "purpose", "spectrum", "distance", "space", "columns", "tables"),
)
IN_SPACE: Final = ("sketch", "covariance", "histogram")  # that can be in a shared space
FIRST: Final = {"mechanism": "table", "unit": defaults.UNIT, "neighbours": defaults.NEIGHBOURS} | defaults.SUGGESTED
_FAMILIES = ("sparse", "identity", "rademacher", "orthonormal", "gaussian", "achlioptas")
PROJECTIONS: Final = {"": "the best, by the plan"} | {name: name for name in _FAMILIES}
CHOICES: Final[dict[str, Mapping[str, str]]] = {
    "mechanisms": MECHANISMS,
    "projections": PROJECTIONS,
    "noises": NOISES,
    "centres": CENTRES,
    "label_kinds": LABEL_KINDS,
    "units": UNITS,
    "changes": CHANGES,
    "neighbouring": NEIGHBOURS,
}
_PER_COLUMN = 1 << 14  # bytes that writing a column takes, at most; about 6 KiB were measured
_PER_ENTRY = 32  # bytes of a dense matrix: the numbers, those on the lattice, and a copy of each


@dataclass(frozen=True, slots=True)
class ReleaseFacts:
    """What a recipe of the form may depend on beside its fields: all of it public."""

    schema: Schema | None
    guarantee: Guarantee
    rows: int | None  # only where their number is public
    space: Space | None = None


def recipe_in(form: Form, facts: ReleaseFacts) -> Recipe:
    """The recipe that the fields of the Release screen describe; what is left open is as on the command line."""
    kind = form.get("mechanism", "")
    check.one_of(tuple(MECHANISMS), mechanism=kind)
    if (kind in GRAPHS) != (facts.guarantee.unit == "edge"):
        wanted = "one edge of a graph" if kind in GRAPHS else "a whole record, or one value of one"
        raise ParameterError(f"“{MECHANISMS[kind]}” protects {wanted}: choose that under What is protected")
    return _RECIPES[kind](form, facts)


def _noise(form: Form) -> Any:
    return form.get("noise") or defaults.NOISE


def names_in(text: str) -> tuple[str, ...]:
    """Names of columns in a field of a form, with commas between."""
    return tuple(name for part in text.split(",") if (name := part.strip()))


def tables_in(text: str) -> tuple[tuple[str, ...], ...] | None:
    """The tables of a histogram in a field of a form, with semicolons between; None where it is empty."""
    return tuple(names for part in text.split(";") if (names := names_in(part))) or None


def _place(form: Form, facts: ReleaseFacts) -> dict[str, Any]:
    """The shared space of a recipe, and the columns of it that the owner holds, if they are not all."""
    if facts.space is None:
        return {}
    return {"space": facts.space, "columns": names_in(form.get("columns", "")) or None}


def _sketch(form: Form, facts: ReleaseFacts) -> Recipe:
    if facts.space is not None:
        return Sketch(noise=_noise(form), **_place(form, facts))
    family, dimension = form.get("projection") or None, whole_in(form, "dimension")
    if family is None and dimension is None and facts.schema is not None:
        terms: dict[str, Any] = {"rows": facts.rows, "noise": _noise(form)}
        return plan_sketch(schema=facts.schema, guarantee=facts.guarantee, **terms)[1]
    dimension = None if family == "identity" else dimension
    return Sketch(dimension=dimension, projection=family, noise=_noise(form))  # type: ignore[arg-type]


def _synthetic(form: Form, facts: ReleaseFacts) -> Recipe:
    return Synthetic(
        dimension=whole_in(form, "dimension"),
        label=form.get("label") or None,
        kind=form.get("label_kind") or None,  # type: ignore[arg-type]
        noise=_noise(form),
        rows=whole_in(form, "synthetic_rows"),
        expected_rows=facts.rows,
    )


_RECIPES: dict[str, Callable[[Form, ReleaseFacts], Recipe]] = {
    "table": lambda f, _: Table(label=f.get("label") or None, rows=whole_in(f, "synthetic_rows"), noise=_noise(f)),
    "sketch": _sketch,
    "responses": lambda f, _: RandomizedResponse(levels=whole_in(f, "levels")),
    "distances": lambda f, _: NoisyDistances(noise=_noise(f)),
    "synthetic": _synthetic,
    "covariance": lambda f, facts: Covariance(
        noise=_noise(f),
        centred=f.get("centred") != "no" and defaults.CENTRED,
        rows=whole_in(f, "rows"),
        **_place(f, facts),
    ),
    "histogram": lambda f, facts: Histogram(tables_in(f.get("tables", "")), noise=_noise(f), **_place(f, facts)),
    "graph sketch": lambda f, _: GraphSketch(rows=whole_in(f, "rows"), vertices=whole_in(f, "vertices")),
    "edge noise": lambda f, _: EdgeNoise(vertices=whole_in(f, "vertices")),
    "edge response": lambda f, _: EdgeResponse(vertices=whole_in(f, "vertices")),
}


def labels_of(schema: Schema | None, mechanism: str) -> list[str]:
    """The columns that the form of a release offers as a label: of a synthetic table any that can be one.

    Other mechanisms take no column with missing cells.
    """
    kinds = Real | Integer | Flag | Category | Ordinal
    columns = () if schema is None else schema.data_columns
    return [c.name for c in columns if isinstance(c, kinds) and (mechanism == "table" or not keeps_missing(c))]


def check_memory(recipe: Recipe, schema: Schema | None, memory: int = MEMORY) -> None:
    """Limit the memory of a release: refuse, before anything is drawn or spent, one that would need too much."""
    if isinstance(recipe, Table | Histogram):
        return  # it reads codes, not encoded columns, and bounds its model itself
    columns = 1 if schema is None else schema.encoding.dim
    width = recipe.width or columns
    sparse = isinstance(recipe, Sketch) and recipe.family in ("identity", "sparse")
    dense = isinstance(recipe, (Sketch, Covariance, Synthetic)) and not sparse
    if width * (_PER_COLUMN + dense * columns * _PER_ENTRY) > memory:
        raise ParameterError(
            f"{width:,} numbers from {columns:,} encoded columns need more than the {memory >> 20:,} MiB of memory "
            "that a release may take here: choose fewer"
        )
