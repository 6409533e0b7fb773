"""Which way quantiles are found: a tree of noisy counts, or private selection, by what is public."""

from collections.abc import Sequence

from sfumato.aggregates.exposure import Exposure
from sfumato.aggregates.quantile_grid import SMALL
from sfumato.aggregates.quantiles import CountTree, QuantileStatistic
from sfumato.aggregates.selection import QuantileSelection
from sfumato.queries.predicates import Ordered


def quantile_statistic(
    column: Ordered, orders: Sequence[float], exposure: Exposure, most: int, *, gaussian: bool
) -> QuantileStatistic:
    """What is measured for quantiles of some orders of a column, on a grid of at most so many cells.

    A tree for a single order on a small grid, where its error is few cells and its intervals are much shorter.
    Otherwise what has the smaller predicted error of a rank: a tree for many orders, selection for few. Nothing here
    depends on data.
    """
    selection = QuantileSelection.of(column, orders, exposure, most)
    tree = CountTree.of(column, orders, exposure, most, gaussian=gaussian)
    if selection.grid.cells <= SMALL and len(orders) == 1:
        return tree
    better = tree.rank_deviation(gaussian=gaussian) <= selection.rank_deviation(gaussian=gaussian)
    return tree if better else selection
