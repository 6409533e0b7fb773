"""``sfumato.plan``: a plan for any purpose, before any data are read."""

from typing import Any, Literal, overload

from sfumato import defaults
from sfumato.errors import ParameterError
from sfumato.mechanisms.sketch import Sketch
from sfumato.planning import planner
from sfumato.planning.option import Purpose
from sfumato.planning.planner import Plan
from sfumato.planning.public_guess import GuessedSpectrum
from sfumato.planning.table_plan import TablePlan, plan_table
from sfumato.privacy.guarantee import Guarantee, check_guarantee
from sfumato.tables.schema import AnySchema, Schema, schema_of


@overload
def plan(
    *,
    guarantee: Guarantee,
    schema: AnySchema = None,
    columns: int | None = None,
    purpose: Purpose = defaults.PURPOSE,
    rows: int | None = None,
    distance: float | None = None,
    largest_dimension: int | None = None,
    spectrum: GuessedSpectrum = None,
) -> Plan: ...


@overload
def plan(
    *,
    guarantee: Guarantee,
    schema: AnySchema,
    purpose: Literal["table"],
    rows: int | None,
    label: str | None = None,
    zeros: float | None = None,
) -> TablePlan: ...


def plan(  # noqa: PLR0913
    *,
    guarantee: Guarantee,
    schema: AnySchema = None,
    columns: int | None = None,
    purpose: Purpose | Literal["table"] = defaults.PURPOSE,
    rows: int | None = None,
    distance: float | None = None,
    largest_dimension: int | None = None,
    spectrum: GuessedSpectrum = None,
    label: str | None = None,
    zeros: float | None = None,
) -> Plan | TablePlan:
    """Plan: rank the configurations that keep ``guarantee``, for a purpose at a scale; or foresee a synthetic table.

    schema or columns : what will be released, or the path of its schema; a number of columns alone means as many flags.
    rows              : how many records, or vertices of a graph; needed for release sizes and for sums over records.
    distance          : the scale that matters, in weighted units. For distances, nearest and clustering the Euclidean
                        distance (not squared); left out, that of two records drawn at random within the bounds. For
                        covariance and learning the standard deviation in a direction; left out, that of one column
                        filled evenly. For cuts of a graph in two halves the weight of the cut.
    spectrum          : for nearest, clustering and learning, a public guess of the records: "flat", "decaying" (the
                        default), or public rows of the same schema (a path, a table or an array). The plan forecasts
                        what analysts will find with the prior that they learn, and says what it assumed.
    label             : of a table, the column that models will predict.
    zeros             : of a table, how many records are zero in a typical number, if you know it; left out, most
                        numbers are taken to fill their bounds.
    A table (purpose ``table``) needs schema and rows, and gets a ``TablePlan``; the other purposes get a ``Plan``.
    Privacy: no private data is read, nothing is spent.
    """
    check_guarantee(guarantee)
    schema = schema_of(schema)
    scale: dict[str, Any] = {"columns": columns, "distance": distance, "largest_dimension": largest_dimension}
    scale |= {"spectrum": spectrum}
    if purpose != "table":
        _none_of({"label": label, "zeros": zeros}, "are for purpose='table'")
        return planner.plan(guarantee=guarantee, schema=schema, purpose=purpose, rows=rows, **scale)
    _none_of(scale, "say nothing about a table: leave them out")
    if schema is None or rows is None:
        raise ParameterError("a plan for purpose='table' needs a schema and the number of records (rows)")
    return plan_table(schema=schema, guarantee=guarantee, rows=rows, label=label, zeros=zeros)


def plan_sketch(
    *, schema: Schema, guarantee: Guarantee, rows: int | None, noise: str | None = None, **facts: Any
) -> tuple[Plan, Sketch]:
    """The plan of its sketches alone, and the recipe of the best of them. ``facts`` are those of ``plan``.

    noise : only sketches with this noise.
    """
    made = planner.plan(schema=schema, guarantee=guarantee, rows=rows, **facts)
    made = made.only(lambda option: isinstance(option.mechanism, Sketch) and noise in (None, option.noise))
    sketch = made.best.mechanism
    assert isinstance(sketch, Sketch)
    return made, sketch


def _none_of(given: dict[str, Any], why: str) -> None:
    named = [name for name, value in given.items() if value is not None]
    if named:
        raise ParameterError(f"{' and '.join(named)} {why}")
