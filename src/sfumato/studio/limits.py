"""How much a form may ask for: what is beyond would stop the machine, not only the page.

What is not a number, or not positive, is left to the checks of the parameters themselves.
"""

from sfumato.errors import ParameterError
from sfumato.mechanisms.base import Recipe
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.sketch import Sketch
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.studio.pages import Form
from sfumato.tables.blocks import MEMORY
from sfumato.tables.schema import Schema

_RANGES = {"epsilon": (1e-6, 1e6), "delta": (1e-100, 1.0)}
_RANGE = (1e-30, 1e30)  # of every other number: its fourth power is still one
_MOST = 10**12  # of every whole number
_PER_COLUMN = 1 << 14  # bytes that writing a column takes, at most; about 6 KiB were measured
_PER_ENTRY = 32  # bytes of a dense matrix: the numbers, those on the lattice, and a copy of each


def number(fields: Form, name: str, default: float | None = None) -> float | None:
    """A number of a form that computations can bear; the default where the field is empty."""
    text = fields.get(name, "").strip()
    try:
        found = float(text) if text else default
    except ValueError:
        raise ParameterError(f"{name} must be a number") from None
    low, high = _RANGES.get(name, _RANGE)
    if found is not None and found > 0 and not low <= found <= high:
        raise ParameterError(f"{name} must be between {low:g} and {high:g}")
    return found


def whole(fields: Form, name: str, default: int | None = None) -> int | None:
    """A whole number of a form, of a size that computations can bear; the default where the field is empty."""
    text = fields.get(name, "").strip()
    try:
        found = int(text) if text else default
    except ValueError:
        raise ParameterError(f"{name} must be a whole number") from None
    if found is not None and found > _MOST:
        raise ParameterError(f"{name} must be at most {_MOST:,}")
    return found


def check_memory(recipe: Recipe, schema: Schema | None, memory: int = MEMORY) -> None:
    """Refuse, before anything is drawn or spent, a release that would need more memory than it may have."""
    columns = 1 if schema is None else schema.encoding.dim
    width = recipe.width or columns
    sparse = isinstance(recipe, Sketch) and recipe.family in ("identity", "sparse")
    dense = isinstance(recipe, (Sketch, Covariance, Synthetic)) and not sparse
    if width * (_PER_COLUMN + dense * columns * _PER_ENTRY) > memory:
        raise ParameterError(
            f"{width:,} numbers from {columns:,} encoded columns need more than the {memory >> 20:,} MiB of memory "
            "that a release may take here: choose fewer"
        )
