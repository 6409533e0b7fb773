"""``sfumato.plan``: a plan for any purpose, before any data are read."""

from typing import Any, Literal, overload

from sfumato import defaults
from sfumato.errors import ParameterError
from sfumato.mechanisms.sketch import Sketch
from sfumato.planning import planner
from sfumato.planning.option import Purpose
from sfumato.planning.planner import Plan
from sfumato.planning.table_plan import TablePlan, plan_table
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.schema import Schema


@overload
def plan(
    *,
    guarantee: Guarantee,
    schema: Schema | None = None,
    columns: int | None = None,
    purpose: Purpose = defaults.PURPOSE,
    rows: int | None = None,
    distance: float | None = None,
    largest_dimension: int | None = None,
) -> Plan: ...


@overload
def plan(
    *,
    guarantee: Guarantee,
    schema: Schema | None,
    purpose: Literal["table"],
    rows: int | None,
    label: str | None = None,
    zeros: float | None = None,
) -> TablePlan: ...


def plan(  # noqa: PLR0913
    *,
    guarantee: Guarantee,
    schema: Schema | None = None,
    columns: int | None = None,
    purpose: Purpose | Literal["table"] = defaults.PURPOSE,
    rows: int | None = None,
    distance: float | None = None,
    largest_dimension: int | None = None,
    label: str | None = None,
    zeros: float | None = None,
) -> Plan | TablePlan:
    """Plan: rank the configurations that keep ``guarantee``, for a purpose at a scale; or foresee a synthetic table.

    schema or columns : what will be released; a number of columns alone means that many flags.
    rows              : how many records, or vertices of a graph; needed for release sizes and for sums over records.
    distance          : the scale that matters, in weighted units. For distances, nearest and clustering the Euclidean
                        distance (not squared); left out, that of two records drawn at random within the bounds. For
                        covariance and learning the standard deviation in a direction; left out, that of one column
                        filled evenly. For cuts of a graph in two halves the weight of the cut.
    label             : of a table, the column that models will predict.
    zeros             : of a table, how many records are zero in a typical number, if you know it; left out, most
                        numbers are taken to fill their bounds.
    A table (purpose ``table``) needs schema and rows, and gets a ``TablePlan``; the other purposes get a ``Plan``.
    Privacy: no data is read, nothing is spent.
    """
    scale: dict[str, Any] = {"columns": columns, "distance": distance, "largest_dimension": largest_dimension}
    if purpose != "table":
        _none_of({"label": label, "zeros": zeros}, "are for purpose='table'")
        return planner.plan(guarantee=guarantee, schema=schema, purpose=purpose, rows=rows, **scale)
    _none_of(scale, "say nothing about a table: leave them out")
    if schema is None or rows is None:
        raise ParameterError("a plan for purpose='table' needs a schema and the number of records (rows)")
    return plan_table(schema=schema, guarantee=guarantee, rows=rows, label=label, zeros=zeros)


def plan_sketch(
    *,
    schema: Schema,
    guarantee: Guarantee,
    rows: int | None,
    distance: float | None = None,
    noise: str | None = None,
) -> tuple[Plan, Sketch]:
    """The plan of distances between records, of its sketches alone, and the recipe of the best of them."""
    made = planner.plan(schema=schema, guarantee=guarantee, rows=rows, distance=distance)
    made = made.only(lambda option: isinstance(option.mechanism, Sketch) and noise in (None, option.noise))
    assert isinstance(made.mechanism, Sketch)
    return made, made.mechanism


def _none_of(given: dict[str, Any], why: str) -> None:
    named = [name for name, value in given.items() if value is not None]
    if named:
        raise ParameterError(f"{' and '.join(named)} {why}")
