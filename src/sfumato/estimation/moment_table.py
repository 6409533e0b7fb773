"""Covariances and correlations as labelled tables: every entry with its standard error and interval.

Tables are positive semidefinite unless asked otherwise: negative eigenvalues, which noise makes and no covariance has,
are set to 0. That brings a covariance nearer to the truth in the Frobenius norm; ``changed`` says what it changed.
Standard errors are those of the entries before the repair. Intervals are too, extended to the entry shown where it lies
outside, so they cover at least as often as they say. All of it is post-processing of a release: it costs no privacy.
"""

import difflib
import html
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from sfumato import untrusted
from sfumato.errors import MissingDependency, ParameterError
from sfumato.estimation import moment_entries
from sfumato.estimation.covariances import View, before_rounding, nearest_semidefinite, places, square
from sfumato.intervals.estimate import NOISE_ONLY, Ends, Estimate, Number, Quantity, fieller
from sfumato.numerics.types import Bools, Floats

_SHOWN = 12  # columns of a matrix that are printed
_WITH_ERRORS = 5  # columns up to which each entry is printed with its standard error
_COMPARED = 1000  # names that a wrong one is compared with
_DETECTED = 0.025  # probability with which a variance of 0 looks larger than what is distinguishable from 0


@dataclass(frozen=True, slots=True)
class Repair:
    """What setting negative eigenvalues to 0 changed in a matrix.

    eigenvalues : how many were negative.
    largest     : the largest change of an entry, in its standard errors; ``pair`` are its columns.
    norm        : the Frobenius norm of the change over that of the matrix, columns in units of the release.
    """

    eigenvalues: int = 0
    largest: float = 0.0
    pair: tuple[str, str] = ("", "")
    norm: float = 0.0

    def __str__(self) -> str:
        if not self.eigenvalues:
            return "Nothing was changed: no eigenvalue is negative."
        many = "1 negative eigenvalue was" if self.eigenvalues == 1 else f"{self.eigenvalues} negative eigenvalues were"
        pair = " and ".join(untrusted.line(name) for name in self.pair)
        return (
            f"{many} set to 0. The largest change of an entry is {self.largest:.2g} standard errors ({pair}); the "
            f"matrix changed by {self.norm:.2g} of its Frobenius norm."
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MomentTable:
    """A symmetric matrix of estimates with named rows and columns: a covariance or a correlation matrix.

    names   : of the encoded columns; a category has one for each value.
    values  : the matrix, in the columns' own units; ``numpy.asarray(table)`` gives it too.
    raw     : the same before the repair, so unbiased where ``release.covariance`` says so.
    changed : what the repair changed; prints in words.
    found   : the estimates of the diagonal and what lies above it, row by row.
    notes   : what else a reader should know.
    """

    title: str
    names: tuple[str, ...]
    values: Floats
    raw: Floats
    found: Estimate
    changed: Repair = Repair()
    notes: tuple[str, ...] = field(default=())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """The values, for NumPy."""
        return np.array(self.values, dtype) if copy is not False else np.asarray(self.values, dtype)

    @property
    def standard_error(self) -> Floats:
        """The standard error of each entry of the covariance or correlation matrix."""
        return square(self.found.standard_error, len(self.names))

    @property
    def unit(self) -> str:
        """The unit of the entries of the moment table, in words."""
        return self.found.unit

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        """Matrices (low, high): each entry's interval by itself, or those that hold for all entries at once."""
        ends = self.found.interval(level, simultaneous=simultaneous)
        low, high = (square(np.atleast_1d(end), len(self.names)) for end in ends)
        return low, high

    def __getitem__(self, pair: tuple[str, str]) -> Estimate:
        """The estimate of one entry: ``table["age", "income"]``."""
        if isinstance(pair, str) or not isinstance(pair, tuple) or len(pair) != 2:
            raise ParameterError('name two columns, as in table["age", "income"]')
        i, j = sorted(place_of(name, self.names) for name in pair)
        rows, columns = places(len(self.names))
        at = int(np.flatnonzero((rows == i) & (columns == j))[0])
        low, high = (np.broadcast_to(end, rows.shape)[at] for end in self.found.limits)

        def bounds(tail: float) -> Ends:
            ends = self.found.bounds(tail)
            return ends[0][at], ends[1][at]

        error = float(self.found.standard_error[at])
        quantity = Quantity(self.unit, float(low), float(high))
        return Estimate(float(self.values[i, j]), error, self.found.covers, bounds, quantity)

    def select(self, columns: Sequence[str]) -> Self:
        """The table of some of the columns, with the same numbers."""
        chosen = np.array([place_of(name, self.names) for name in columns], int)
        if not len(chosen) or len(set(chosen.tolist())) < len(chosen):
            raise ParameterError("select one or more distinct columns")
        whole, part = len(self.names), np.ix_(chosen, chosen)
        place = tuple(places(len(chosen)))

        def taken(triangle: Number) -> Floats:
            return np.asarray(square(np.asarray(triangle, np.float64), whole)[part][place])

        def bounds(tail: float) -> Ends:
            low, high = self.found.bounds(tail)
            return taken(low), taken(high)

        limits = [taken(np.broadcast_to(end, self.found.uncut.shape)) for end in self.found.limits]
        found = Estimate(
            taken(self.found.uncut),
            taken(self.found.standard_error),
            self.found.covers,
            bounds,
            Quantity(self.unit, *limits),
        )
        names = tuple(self.names[i] for i in chosen)
        return replace(self, names=names, values=self.values[part], raw=self.raw[part], found=found)

    def table(self, level: float = 0.95, *, simultaneous: bool = False) -> pa.Table:
        """An Arrow table with a row per entry: its two columns, value, standard error, low and high."""
        low, high = self.interval(level, simultaneous=simultaneous)
        rows, columns = places(len(self.names))
        numbers = {"value": self.values, "standard_error": self.standard_error, "low": low, "high": high}
        named = {"row": [self.names[i] for i in rows], "column": [self.names[j] for j in columns]}
        return pa.table(named | {name: matrix[rows, columns] for name, matrix in numbers.items()})

    def to_pandas(self) -> Any:
        """The values as a pandas data frame with named rows and columns; needs pandas."""
        found = frame(pa.table(list(self.values), list(self.names)))
        return found.set_axis(list(self.names), axis="index")

    def _cells(self) -> list[list[str]]:
        """The head and the rows of a printed moment table: names, then values with their standard errors."""
        count, errors = min(len(self.names), _SHOWN), self.standard_error
        errors = errors if len(self.names) <= _WITH_ERRORS else np.zeros_like(errors)
        names = [untrusted.line(name, 40) for name in self.names[:count]]
        numbers = [
            [_bar(v, e) for v, e in zip(*pair, strict=True)]
            for pair in zip(self.values[:count, :count], errors[:count, :count], strict=True)
        ]
        return [["", *names], *([name, *row] for name, row in zip(names, numbers, strict=True))]

    def _words(self) -> list[str]:
        """What is said below a printed moment table."""
        more, errors = len(self.names) - _SHOWN, self.found.standard_error[np.isfinite(self.values[self._place])]
        said = [f"{more} more columns are not shown: to_pandas() and table() have all."] if more > 0 else []
        errors, sources = errors[errors > 0], self.found.covers
        if len(self.names) <= _WITH_ERRORS:
            said.append(f"Unit: {self.unit}. +- is one standard error ({sources}).")
        elif errors.size:
            least, largest = f"{errors.min():.2g}", f"{errors.max():.2g}"
            said.append(f"Unit: {self.unit}. Standard errors ({sources}) are {least} to {largest}: table() has each.")
        return [*said, str(self.changed), *self.notes]

    @property
    def _place(self) -> tuple[Any, Any]:
        rows, columns = places(len(self.names))
        return rows, columns

    def __repr__(self) -> str:
        return "\n".join([self.title, *in_columns(self._cells()), *self._words()])

    def _repr_html_(self) -> str:
        return in_html(self.title, self._cells(), self._words())


def frame(table: pa.Table) -> Any:
    """A moment table or regression as a pandas data frame."""
    try:
        return table.to_pandas()
    except ImportError:
        raise MissingDependency("to_pandas() needs pandas: pip install pandas") from None


def in_html(title: str, cells: Sequence[Sequence[str]], words: Sequence[str]) -> str:
    """A moment table or regression as a notebook shows it, from its cells: head first, names on the left."""
    head, *rows = [[html.escape(cell.replace("+-", "\u00b1")) for cell in row] for row in cells]
    top = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join(f"<tr><th>{row[0]}</th>" + "".join(f"<td>{c}</td>" for c in row[1:]) + "</tr>" for row in rows)
    said = "".join(f"<p>{html.escape(line)}</p>" for line in words)
    return f"<table><caption>{html.escape(title)}</caption><tr>{top}</tr>{body}</table>{said}"


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a moment table for a terminal, from its cells: names on the left, numbers on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]).rstrip()
        for row in rows
    ]


def _bar(value: float, error: float) -> str:
    """An entry of a moment table as it is printed."""
    if np.isnan(value):
        return "nan"
    return f"{value:.4g}" if error == 0 else f"{value:.4g} +- {error:.2g}"


def place_of(name: str, names: Sequence[str]) -> int:
    """Where an encoded column stands in a moment table; one that is not there is refused, with names near it."""
    if name not in names:
        close = difflib.get_close_matches(str(name), names[:_COMPARED], 3, 0.5)
        close = close or [other for other in names if other.startswith(f"{name}=")][:3]
        listed = untrusted.line(", ".join(close or names[:20]))
        said = f"did you mean {listed}?" if close else f"the columns are {listed}"
        raise ParameterError(f"there is no encoded column {untrusted.line(repr(name))}: {said}")
    return names.index(name)


# ---- tables of a view -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class MomentColumns:
    """The columns of a covariance: their names, their weights, and half the width of each in its own units."""

    names: tuple[str, ...]
    weights: Floats
    half: Floats

    @property
    def place(self) -> tuple[Floats, Floats]:
        """Rows and columns of the triangle of a moment table of these columns."""
        rows, columns = places(len(self.names))
        return rows, columns


def covariance_table(view: View, columns: MomentColumns, about: str, *, repair: bool) -> MomentTable:
    """The covariance matrix with its errors, in the columns' own units, from what a release holds of it."""
    weights, place = np.outer(columns.weights, columns.weights), columns.place
    found = view.covariance()
    fixed = nearest_semidefinite(found) if repair else found
    raw, values = found / weights, fixed / weights
    errors, alike = moment_entries.entry_errors(view)
    errors = errors / weights
    rounding = np.broadcast_to(view.rounding, len(columns.names)) / columns.weights

    def bounds(tail: float) -> Ends:
        reach = moment_entries.quantiles(view, tail, alike) * errors
        spread = np.sqrt(np.maximum(np.diag(raw + reach), 0.0))
        moved = np.outer(rounding, spread)
        reach = reach + moved + moved.T + np.outer(rounding, rounding)
        return np.minimum(raw - reach, values)[place], np.maximum(raw + reach, values)[place]

    most = np.outer(columns.half, columns.half)
    quantity = Quantity(
        f"covariance about {about}, in the columns' own units",
        np.where(np.eye(len(raw)), 0.0, -most)[place],
        most[place],
    )
    return MomentTable(
        f"Covariance of {len(columns.names)} columns about {about}",
        columns.names,
        values,
        raw,
        Estimate(raw[place], errors[place], NOISE_ONLY, bounds, quantity),
        _repaired((found, fixed), errors * weights, columns.names),
    )


def correlation_table(view: View, columns: MomentColumns, *, repair: bool) -> MomentTable:
    """The correlation matrix with its errors from what a release holds of a covariance about the mean.

    Rounding turns each column, as a vector of one number per record, by at most arcsin(rounding / deviation).
    """
    law, known, place = moment_entries.correlation_law(view), _distinguishable(view), columns.place
    same, pairs = np.eye(len(known), dtype=bool), np.outer(known, known)
    raw = np.where(same, 1.0, law.values)
    raw[~pairs] = np.nan
    cut = np.clip(raw, -1.0, 1.0)
    values = _unit_diagonal(cut, known) if repair else cut
    errors = np.where(same, 0.0, law.errors)
    errors[~pairs] = np.nan
    turned = _turned(view)

    def bounds(tail: float) -> Ends:
        score = moment_entries.quantiles(view, tail, law.alike)
        low, high = fieller(score, (np.where(pairs, law.values, 0.0), 1.0), law.moments, -1.0)
        low, high = np.fmin(low - turned, values), np.fmax(high + turned, values)
        low, high = (np.where(pairs, np.where(same, 1.0, end), worst) for end, worst in ((low, -1.0), (high, 1.0)))
        return low[place], high[place]

    quantity = Quantity("correlation, from -1 to 1", -1.0, 1.0)
    return MomentTable(
        f"Correlation of {len(known)} columns",
        columns.names,
        values,
        raw,
        Estimate(raw[place], errors[place], NOISE_ONLY + ", to first order", bounds, quantity),
        _repaired((cut, values), errors, columns.names),
        _lost_words([name for name, seen in zip(columns.names, known, strict=True) if not seen]),
    )


def _turned(view: View) -> Floats:
    """By what angle rounding can have turned two columns towards each other, for the interval of a correlation."""
    spread = np.sqrt(np.maximum(np.diag(view.covariance()), np.finfo(float).tiny))
    angle = np.arcsin(np.minimum(view.rounding / spread, 1.0))
    return np.asarray(angle + angle[:, None])


def _distinguishable(view: View) -> Bools:
    """Which columns of a covariance have a variance that is distinguishable from 0, so correlations."""
    variances = np.diag(view.covariance())
    errors, alike = (np.diag(part) for part in moment_entries.entry_errors(view))
    low = variances - moment_entries.quantiles(view, _DETECTED, alike) * errors
    return np.array([before_rounding((x, x), float(t), np.inf)[0] > 0 for x, t in np.broadcast(low, view.rounding)])


def _unit_diagonal(matrix: Floats, known: Bools) -> Floats:
    """The correlation matrix freed of negative eigenvalues, with 1 on its diagonal; columns without one stay nan."""
    block = np.ix_(known, known)
    if not known.any() or np.linalg.eigvalsh(matrix[block])[0] >= 0:
        return matrix
    fixed = nearest_semidefinite(matrix[block])
    spread = np.sqrt(np.diag(fixed))
    found = matrix.copy()
    found[block] = np.clip(fixed / np.outer(spread, spread), -1.0, 1.0)
    found[np.diag_indices(len(found))] = matrix.diagonal()
    return found


def _repaired(matrices: tuple[Floats, Floats], errors: Floats, names: Sequence[str]) -> Repair:
    """What a repair changed between two matrices of covariances or correlations."""
    before, after = (np.nan_to_num(matrix) for matrix in matrices)
    if (before == after).all():
        return Repair()
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.where(errors > 0, np.abs(after - before) / errors, 0.0)
    i, j = divmod(int(np.argmax(change)), len(change))
    norm = float(np.linalg.norm(after - before) / max(float(np.linalg.norm(before)), np.finfo(float).tiny))
    negative = int((np.linalg.eigvalsh(before) < 0).sum())
    return Repair(negative, float(change[i, j]), (names[i], names[j]), norm)


def _lost_words(lost: Sequence[str]) -> tuple[str, ...]:
    """Why some columns of a covariance have no correlations."""
    if not lost:
        return ()
    listed = ", ".join(untrusted.line(name, 40) for name in lost[:5]) + (", ..." if len(lost) > 5 else "")
    text = f"No correlation (nan) for {listed}: the variance is not distinguishable from 0 in the noise."
    return (f"{text} A larger epsilon, more records or narrower bounds would show it.",)
