"""The six families of random projections by name, and which shapes and settings each of them can have."""

from typing import Literal, get_args

from sfumato import check
from sfumato.errors import ParameterError

Family = Literal["identity", "gaussian", "rademacher", "achlioptas", "sparse", "orthonormal"]


def settled_sparsity(family: str, sparsity: int | None) -> int | None:
    """The sparsity that a family of projections has where nobody stated one: 1 for ``sparse``, else none."""
    return 1 if family == "sparse" and sparsity is None else sparsity


def check_shape(family: str, dim_in: int, dim_out: int, sparsity: int | None) -> None:
    """Refuse shapes and settings that a family of projections cannot have."""
    check.one_of(get_args(Family), family=family)
    check.whole(1, dim_in=dim_in, dim_out=dim_out)
    if sparsity is not None:
        if family != "sparse":
            raise ParameterError(
                f"only family='sparse' has a sparsity, got sparsity={sparsity!r} with family={family!r}"
            )
        check.whole(1, sparsity=sparsity)
        if sparsity > dim_out:
            raise ParameterError(
                f"sparsity must be at most dim_out={dim_out} (distinct places in a row), got sparsity={sparsity}"
            )
    if family == "orthonormal" and dim_out > dim_in:
        raise ParameterError(f"dim_out must be at most dim_in={dim_in} for family='orthonormal', got dim_out={dim_out}")
    if family == "identity" and dim_out != dim_in:
        raise ParameterError(f"dim_out must equal dim_in={dim_in} for family='identity', got dim_out={dim_out}")
