"""The plan of a synthetic table: before any data are read, how good it will be, and what would make it better."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.in_notebooks import InNotebooks
from sfumato.mechanisms.table.budget import TableScales
from sfumato.mechanisms.table.recipe import PreparedTable, Table
from sfumato.planning.table_forecast import Forecast, forecast
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.columns import DataColumn
from sfumato.tables.schema import Schema

HOPELESS = 0.2  # two-way error above which a table is of no use
_GOOD = 0.05  # two-way error that advice aims at
_LEAST_GAIN = 0.95  # advice says what brings an error to this part of it, or below
_MOST_COLUMNS = 2000


@dataclass(frozen=True, slots=True)
class TablePlan(InNotebooks):
    """What a synthetic table of a schema would be like: the method, bins, noise and error, with a verdict and advice.

    bins  : expected for each column; of a column with several variables, such as a set, the mean.
    zeros : how many records are zero in a typical number, if that was stated.
    """

    mechanism: Table
    guarantee: Guarantee
    rows: int
    zeros: float | None
    bins: dict[str, float]
    forecast: Forecast
    advice: tuple[str, ...]

    @property
    def purpose(self) -> str:
        """What the plan is for."""
        return "table"

    @property
    def one_way(self) -> float:
        """Expected mean total variation of tables of one column, numbers cut into 32 equal parts."""
        return self.forecast.one_way

    @property
    def two_way(self) -> float:
        """Expected mean total variation of tables of two columns, numbers cut into 8 equal parts."""
        return self.forecast.two_way

    @property
    def error(self) -> float:
        """The error that the plan is judged by: of tables of two columns, or of one where there is only one."""
        return _judged(self.forecast)

    @property
    def hopeless(self) -> bool:
        """Whether tables of two columns would be wrong for more than a fifth of the records."""
        return self.error > HOPELESS

    @property
    def verdict(self) -> str:
        """Verdict of the plan: what the table can be used for, in plain sentences."""
        wrong = f"a table of one column would put {_percent(self.one_way)} of the records into wrong cells"
        if len(self.bins) > 1:
            wrong = (
                f"a table of two columns would put {_percent(self.two_way)} of the records into wrong cells, "
                f"one of a single column {_percent(self.one_way)}"
            )
        word = "Hopeless" if self.hopeless else "Good" if self.error <= _GOOD else "Rough"
        return f"{word}: {wrong}."

    def to_dict(self) -> dict[str, Any]:
        """The plan as values for machines."""
        found = self.forecast
        return {
            "purpose": self.purpose,
            "rows": self.rows,
            "zeros": self.zeros,
            "label": self.mechanism.label,
            "method": found.choice.method,
            "bins": dict(self.bins),
            "pair_cells": round(found.pair_cells),
            "model_cells": round(found.model_cells),
            "noise": dict(found.noise),
            "one_way_error": self.one_way,
            "two_way_error": self.two_way,
            "seconds": found.seconds,
            "hopeless": self.hopeless,
            "verdict": self.verdict,
            "advice": list(self.advice),
        }

    @property
    def facts(self) -> dict[str, str]:
        """Method, bins, cells, noise, error and time, each in words."""
        found, sizes = self.forecast, list(self.bins.values())
        kinds = ", ".join(f"{deviation:.3g} in a {_KINDS[kind]}" for kind, deviation in found.noise.items())
        error = f"one-way tables {_percent(self.one_way)}"
        if len(found.bins) > 1:
            error += f", two-way tables {_percent(self.two_way)}"
        mean = math.fsum(sizes) / len(sizes)
        return {
            "method": f"{found.choice.method} ({_METHODS[found.choice.method]})",
            "bins": f"{min(sizes):.0f} to {max(sizes):.0f} per column, {mean:.2g} on average",
            "cells": f"{_rounded(found.pair_cells)} in all pairs, {_rounded(found.model_cells)} in the model",
            "noise": f"standard deviation in records: {kinds}",
            "error": f"{error} (mean total variation)",
            "time": f"about {_time(found.seconds)}",
        }

    def describe(self) -> str:
        """The plan in words: its facts, the verdict and advice."""
        zeros = "" if self.zeros is None else f", {self.zeros:.0%} zeros in a typical number"
        title = f"table of {_several(len(self.bins), 'column')}, {_several(self.rows, 'record')}{zeros}"
        lines = [f"{name:8}{text}" for name, text in self.facts.items()]
        return "\n".join([title, *lines, self.verdict, *self.advice])


_METHODS = {
    "pairs": "pairs and triples of columns are measured, chosen privately in rounds",
    "tree": "pairs of a tree of columns are measured, chosen privately",
    "copula": "ranks of smooth numbers",
}
_KINDS = {
    "one-way": "one-way table",
    "pair": "pair",
    "label pair": "pair with the label",
    "chosen": "chosen table",
}


def plan_table(
    *, schema: Schema, guarantee: Guarantee, rows: int, label: str | None = None, zeros: float | None = None
) -> TablePlan:
    """Plan a synthetic table of a schema for so many records; ``sfumato.plan`` says what the parameters mean.

    Privacy: no data are read, nothing is spent. All figures are functions of public facts.
    """
    check.whole(1, rows=rows)
    if zeros is not None:
        check.between(0.0, 1.0, zeros=zeros)
    if len(schema.data_columns) > _MOST_COLUMNS:
        raise ParameterError(f"a plan of a table takes at most {_MOST_COLUMNS:,} columns")
    recipe = Table(label)
    prepared, found = _foreseen(recipe, schema, guarantee, rows, zeros)
    draft = TablePlan(recipe, guarantee, rows, zeros, _by_column(prepared, found), found, ())
    return replace(draft, advice=tuple(_advice(draft, schema)))


def _foreseen(
    recipe: Table, schema: Schema, guarantee: Guarantee, rows: int, zeros: float | None
) -> tuple[PreparedTable, Forecast]:
    """The recipe under a guarantee, and the forecast of its run at the least noise that keeps it."""
    prepared = recipe.prepare(schema, guarantee)
    scales = TableScales(prepared.moves, calibrate(prepared, guarantee).level)
    return prepared, forecast(prepared, scales, rows, zeros)


def _by_column(prepared: PreparedTable, found: Forecast) -> dict[str, float]:
    together: dict[str, list[float]] = {}
    for variable, bins in zip(prepared.partition.variables, found.bins, strict=True):
        together.setdefault(variable.column.name, []).append(bins)
    return {name: math.fsum(bins) / len(bins) for name, bins in together.items()}


def _advice(draft: TablePlan, schema: Schema) -> Iterator[str]:
    """What epsilon and fewer columns would buy, and what the owner may know better."""
    yield from _more_budget(draft, schema)
    yield from _fewer_columns(draft, schema)
    if draft.zeros is None and any(_from_zero(column) for column in schema.data_columns):
        yield (
            "Assumed: most numbers fill their bounds. Where typical ones are zero in most records, as counts and "
            "amounts are, state how often (zeros): errors are smaller then."
        )


def _more_budget(draft: TablePlan, schema: Schema) -> Iterator[str]:
    """What twice the epsilon would buy."""
    epsilon = draft.guarantee.epsilon
    promise = replace(draft.guarantee, epsilon=2 * epsilon)
    twice = _judged(_foreseen(draft.mechanism, schema, promise, draft.rows, draft.zeros)[1])
    if twice <= _LEAST_GAIN * draft.error:
        yield f"Epsilon {2 * epsilon:.3g} instead of {epsilon:.3g}: {_better(draft, twice)}."


def _fewer_columns(draft: TablePlan, schema: Schema) -> Iterator[str]:
    """What leaving out a third of the columns would buy."""
    columns = [column for column in schema.data_columns if column.name != draft.mechanism.label]
    left_out = {column.name for column in columns[1::3]}
    kept = tuple(column for column in schema.data_columns if column.name not in left_out)
    if len(kept) < 3:
        return
    fewer = _judged(_foreseen(draft.mechanism, Schema(kept), draft.guarantee, draft.rows, draft.zeros)[1])
    if fewer <= _LEAST_GAIN * draft.error:
        yield f"Leaving out {len(left_out):,} of {len(schema.data_columns):,} columns: {_better(draft, fewer)}."


def _judged(found: Forecast) -> float:
    """The error of two-way tables, or of the only one-way table."""
    return found.two_way if len(found.bins) > 1 else found.one_way


def _better(draft: TablePlan, error: float) -> str:
    """What an error would be instead of that of the plan, in words."""
    kind = "two-way" if len(draft.forecast.bins) > 1 else "one-way"
    return f"{kind} error about {_percent(error)} instead of {_percent(draft.error)}"


def _from_zero(column: DataColumn) -> bool:
    """Whether a column is a number from zero upwards."""
    return getattr(column, "low", None) == 0


def _percent(share: float) -> str:
    return f"{float(f'{100 * share:.2g}'):g}%"


def _several(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' if count != 1 else ''}"


def _rounded(cells: float) -> str:
    """A number of cells to two digits."""
    return f"{float(f'{cells:.2g}'):,.0f}"


def _time(seconds: float) -> str:
    """A time to one digit, in seconds or minutes."""
    return f"{float(f'{max(seconds, 1.0):.1g}'):.0f} s" if seconds < 95 else f"{seconds / 60:,.0f} min"
