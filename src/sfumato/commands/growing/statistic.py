"""What a stream sums up, as options say it: the same to plan a stream and to make one."""

import argparse
from typing import TYPE_CHECKING, Any

from sfumato import defaults
from sfumato.commands.kinds.sums import bins_of, columns_of
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from sfumato.mechanisms.base import Recipe

OPTIONS = ("statistic", "centred", "of", "bins", "dimension")  # beside --label, which plans of tables have too
_OWN = {"covariance": ("centred",), "histogram": ("of", "bins"), "synthetic": ("label", "dimension")}


def add_statistic(group: Any) -> None:
    """Options that say what a stream sums up; --label is not among them."""
    group.add_argument(
        "--statistic",
        choices=tuple(_OWN),
        help="What a stream sums up: second moments, counts of cells, or a Gaussian model with synthetic records "
        "(default covariance).",
    )
    group.add_argument(
        "--centred",
        action=argparse.BooleanOptionalAction,
        help="Of a stream of covariances: about the mean, or about the middle of the bounds (default --centred).",
    )
    group.add_argument(
        "--of",
        action="append",
        metavar="COLUMNS",
        help="Of a stream of histograms: columns counted together, such as sex,income; may be given again (default: "
        "each by itself).",
    )
    group.add_argument(
        "--bins", action="append", metavar="COLUMN=CELLS", help="Of a stream of histograms: public cells of a column."
    )
    group.add_argument("--dimension", type=int, metavar="N", help="Of a stream of synthetic records: numbers of each.")


def recipe_of(options: Any) -> "Recipe":
    """The recipe of what a stream sums up."""
    from sfumato.mechanisms.covariance import Covariance
    from sfumato.mechanisms.histogram import Histogram
    from sfumato.mechanisms.synthetic.recipe import Synthetic

    statistic = options.statistic or "covariance"
    for name, fields in _OWN.items():
        given = [field for field in fields if getattr(options, field) is not None]
        if given and name != statistic:
            raise ParameterError(f"--{given[0]} is of --statistic {name}, got --statistic {statistic}")
    if statistic == "histogram":
        tables = None if options.of is None else tuple(columns_of(text) for text in options.of)
        return Histogram(tables, bins=dict(map(bins_of, options.bins or ())))
    if statistic == "synthetic":
        return Synthetic(dimension=options.dimension, label=options.label, centring="public")
    return Covariance(centred=defaults.CENTRED if options.centred is None else options.centred)
