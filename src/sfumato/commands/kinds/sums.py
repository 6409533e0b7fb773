"""Kinds of releases made from sums over all records: tables, synthetic rows, covariances, histograms."""

import argparse
from typing import Any

from sfumato import defaults
from sfumato.commands.console.options import add_guarantee, add_neighbours, add_table, place_of, table
from sfumato.commands.kinds.terms import (
    BY_DELTA,
    NOISES,
    KindOptions,
    Terms,
    add_dimension,
    add_noise,
    terms_of,
)
from sfumato.errors import ParameterError


def _add_synthetic_table(parser: argparse.ArgumentParser) -> None:
    add_table(parser)
    parser.add_argument("--label", metavar="COLUMN", help="Column that models will predict: it is kept more exactly.")
    parser.add_argument(
        "--rows", type=int, metavar="N", help="Number of synthetic rows (default: the number of records)."
    )
    parser.add_argument(
        "--forbid",
        action="append",
        default=[],
        metavar="QUESTION",
        help="What no record can be, publicly, such as 'age < 15 and income > 0'. Kept exactly; may be given again.",
    )
    parser.add_argument(
        "--method",
        choices=("auto", "pairs", "tree", "copula"),
        default=defaults.METHOD,
        help="Measure pairs of columns, a tree of them, or their correlations (default auto: pairs or tree, by the "
        "number of columns and records).",
    )
    add_noise(parser, BY_DELTA)
    add_neighbours(add_guarantee(parser))


def _synthetic_table(options: Any) -> Terms:
    from sfumato.mechanisms.table.recipe import Table

    recipe = Table(
        options.label, options.rows, method=options.method, noise=options.noise, forbid=tuple(options.forbid)
    )
    return terms_of(options, recipe)


def _add_synthetic(parser: argparse.ArgumentParser) -> None:
    add_table(parser)
    add_dimension(parser, "Numbers per synthetic record (default: computed from public facts).")
    parser.add_argument(
        "--expected-rows",
        type=int,
        metavar="N",
        help="Publicly known number of records, used to compute the dimension (default: the number of records, if it "
        "is public).",
    )
    parser.add_argument("--label", metavar="COLUMN", help="Column to keep as the label.")
    kind = parser.add_mutually_exclusive_group()
    kept: dict[str, Any] = {"dest": "label_kind", "action": "store_const"}
    usual = "default for a category, an ordinal and a flag"
    kind.add_argument("--classes", const="classes", help=f"Fit a model for each value of the label ({usual}).", **kept)
    kind.add_argument("--values", const="values", help="Predict the label as a number (default for others).", **kept)
    parser.add_argument(
        "--rows", type=int, metavar="N", help="Number of synthetic records (default: the number of records)."
    )
    add_noise(parser, BY_DELTA)
    parser.add_argument(
        "--centring",
        choices=("best", "private", "public"),
        default=defaults.CENTRING,
        help="Centre of the model: a private mean, or the public bounds (default best: private with classes).",
    )
    add_neighbours(add_guarantee(parser))


def _synthetic(options: Any) -> Terms:
    from sfumato.mechanisms.synthetic.recipe import Synthetic

    recipe = Synthetic(
        dimension=options.dimension,
        label=options.label,
        kind=options.label_kind,
        noise=options.noise,
        rows=options.rows,
        centring=options.centring,
        expected_rows=options.expected_rows or _public_rows(options),
    )
    return terms_of(options, recipe)


def _public_rows(options: Any) -> int | None:
    """The number of records for a recipe, where it is public and known before they are read."""
    from sfumato.files.open_table import open_table

    return None if options.neighbours == "add-remove" else open_table(table(options)).rows or None


def _add_covariance(parser: argparse.ArgumentParser) -> None:
    add_table(parser, space=True)
    add_noise(parser, f"on each sum, or a sketch {BY_DELTA}", (*NOISES, "sketch"))
    parser.add_argument(
        "--centred",
        action=argparse.BooleanOptionalAction,
        default=defaults.CENTRED,
        help="About the mean, or about the middle of the bounds, which has less noise and no correlations "
        "(default --centred).",
    )
    parser.add_argument("--rows", type=int, metavar="N", help="Rows of the sketch (needs --noise sketch).")
    add_neighbours(add_guarantee(parser))


def _covariance(options: Any) -> Terms:
    from sfumato.mechanisms.covariance import Covariance

    recipe = Covariance(noise=options.noise, centred=options.centred, rows=options.rows, **place_of(options))
    return terms_of(options, recipe)


def _add_histogram(parser: argparse.ArgumentParser) -> None:
    add_table(parser, space=True)
    parser.add_argument(
        "--of",
        action="append",
        metavar="COLUMNS",
        help="Columns that are counted together, such as age or sex,income; may be given again (default: every column "
        "by itself).",
    )
    parser.add_argument(
        "--bins",
        action="append",
        default=[],
        metavar="COLUMN=CELLS",
        help="Public cells of a column: how many of equal width, or the cuts between them, such as age=10 or "
        "age=18,30,65; may be given again.",
    )
    add_noise(parser, f"on each count {BY_DELTA}")
    add_neighbours(add_guarantee(parser))


def _histogram(options: Any) -> Terms:
    from sfumato.mechanisms.histogram import Histogram

    tables = None if options.of is None else tuple(columns_of(text) for text in options.of)
    bins = dict(map(bins_of, options.bins))
    return terms_of(options, Histogram(tables, noise=options.noise, bins=bins, **place_of(options)))


def columns_of(text: str) -> tuple[str, ...]:
    """The columns of a histogram's table, separated by commas."""
    return tuple(name.strip() for name in text.split(","))


def bins_of(text: str) -> tuple[str, int | list[float | str]]:
    """The cells of a column of a histogram: their number, or cuts between them."""
    name, found, cells = text.partition("=")
    words = [word.strip() for word in cells.split(",")]
    if not found or not name.strip() or not all(words):
        raise ParameterError(f"--bins takes COLUMN=CELLS, such as age=10 or age=18,30,65, got {text!r}")
    if len(words) == 1 and words[0].isdecimal():
        return name.strip(), int(words[0])
    return name.strip(), [_number(word) for word in words]


def _number(word: str) -> float | str:
    """A cut of a histogram's column: a number, or a value of an ordinal or a date as it is written."""
    try:
        return float(word)
    except ValueError:
        return word


TABLE = KindOptions(
    "table",
    "Publish a synthetic table with the same columns and types.",
    "people.csv --schema people.toml --epsilon 1 --delta 1e-6 --label income",
    _add_synthetic_table,
    _synthetic_table,
)
SYNTHETIC = KindOptions(
    "synthetic",
    "Publish synthetic records drawn from a private Gaussian model.",
    "people.csv --schema people.toml --epsilon 1 --delta 1e-6 --dimension 16 --label income --classes",
    _add_synthetic,
    _synthetic,
)
COVARIANCE = KindOptions(
    "covariance",
    "Publish the covariance matrix of the columns with noise: correlations, regressions, components.",
    "people.csv --schema people.toml --epsilon 1 --delta 1e-6",
    _add_covariance,
    _covariance,
)
HISTOGRAM = KindOptions(
    "histogram",
    "Publish how many records fall into public cells, with noise: counts of columns and of several together.",
    "people.csv --schema people.toml --epsilon 1 --delta 1e-6 --of age --of sex,income",
    _add_histogram,
    _histogram,
)
