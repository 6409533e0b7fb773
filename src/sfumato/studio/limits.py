"""How much a form may ask for: what is beyond would stop the machine, or take longer than a page can wait."""

from collections.abc import Mapping

from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Recipe
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.sketch import Sketch
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.planning.option import Purpose
from sfumato.tables.blocks import MEMORY
from sfumato.tables.schema import Schema

_MOST_PLANNED = {"columns": 100_000, "rows": 10**9, "k": 100_000}  # more take minutes
_MOST_PLANNED_PAIRS = 2_000  # columns, where a plan looks at all pairs of them
_PER_COLUMN = 1 << 14  # bytes that writing a column takes, at most; about 6 KiB were measured
_PER_ENTRY = 32  # bytes of a dense matrix: the numbers, those on the lattice, and a copy of each


def check_plan_sizes(sizes: Mapping[str, int | None], purpose: Purpose) -> None:
    """Limit the sizes of a plan: refuse one that would take long, since a page is no place to wait for it."""
    most = _MOST_PLANNED | ({"columns": _MOST_PLANNED_PAIRS} if purpose in ("covariance", "learning") else {})
    for name, size in sizes.items():
        if (size or 0) > most[name]:
            raise ParameterError(f"{name}: more than {most[name]:,} are too many to plan here: use `sfumato plan`")


def check_memory(recipe: Recipe, schema: Schema | None, memory: int = MEMORY) -> None:
    """Limit the memory of a release: refuse, before anything is drawn or spent, one that would need too much."""
    columns = 1 if schema is None else schema.encoding.dim
    width = recipe.width or columns
    sparse = isinstance(recipe, Sketch) and recipe.family in ("identity", "sparse")
    dense = isinstance(recipe, (Sketch, Covariance, Synthetic)) and not sparse
    if width * (_PER_COLUMN + dense * columns * _PER_ENTRY) > memory:
        raise ParameterError(
            f"{width:,} numbers from {columns:,} encoded columns need more than the {memory >> 20:,} MiB of memory "
            "that a release may take here: choose fewer"
        )
