"""The Plan screen: what can be learned at which price, before anything is read or spent.

A change of epsilon or of k is answered with typical sensitivities (``planner.outline``), in milliseconds; what does not
depend on either, the best error at every epsilon, is kept.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sfumato import check, defaults
from sfumato.errors import ParameterError, SfumatoError
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.graph_sketch import GraphSketch
from sfumato.pipeline.fitting import settled
from sfumato.planning import option, per_record, planner
from sfumato.planning.option import Option, Purpose
from sfumato.planning.planner import Plan
from sfumato.planning.table_plan import TablePlan, plan_table
from sfumato.report.axes import log_range
from sfumato.report.numbers import relative
from sfumato.report.plots import error_name, error_range, over_dimension, positive_points, shown_error, trace
from sfumato.report.svg import Chosen, Plot
from sfumato.studio.frame.pages import page, reading, render, writing
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs.folder import read_schema
from sfumato.studio.inputs.form_fields import Form, guarantee_in, number_in, whole_in
from sfumato.studio.inputs.page_words import CHANGES, UNITS, said
from sfumato.tables.schema import Schema

PURPOSES = {
    "distances": "distances between records",
    "nearest": "nearest records",
    "clustering": "groups of records",
    "covariance": "variances and covariances",
    "learning": "learning a model",
    "cuts": "cuts of a graph",
    "table": "a synthetic table",
}
SPECTRA = {"decaying": "columns that vary together (a guess)", "flat": "columns that vary independently (a guess)"}
DEFAULTS = {"unit": defaults.UNIT, "purpose": defaults.PURPOSE, "rows": "10000"} | defaults.SUGGESTED
FIELDS = (
    *("data", "columns", "unit", "epsilon", "delta", "purpose", "rows", "distance", "k", "change", "radius"),
    "spectrum",
)
_EPSILONS = tuple(10 ** (i / 6) for i in range(-9, 10))  # from 0.03 to 30
_GOOD = 0.25
_HELP = "A larger epsilon, narrower bounds, or protecting less at once would help."
_MOST_PLANNED = {"columns": 100_000, "rows": 10**9, "k": 100_000}  # more take minutes
_MOST_PLANNED_PAIRS = 2_000  # columns, where a plan looks at all pairs of them
_SIZE = (400, 290)  # of a picture: two lie side by side


def routes(studio: Studio) -> list[Route]:
    """The routes of the Plan screen."""
    return [reading(studio, "/plan", plan_page), writing(studio, "/plan/answer", plan_answer)]


@dataclass(frozen=True, slots=True)
class PlanView:
    """A plan as the Plan screen shows it."""

    plan: Plan
    over_k: Plot | None
    over_epsilon: Plot | None
    advice: str


def answer(fields: Mapping[str, str], schema: Schema | None) -> PlanView:
    """The plan for what the controls of the Plan screen say."""
    form = dict(fields)
    purpose: Purpose = form.get("purpose", "")  # type: ignore[assignment]
    check.one_of(get_args(Purpose), purpose=purpose)
    graph = purpose == "cuts"
    distance, rows, k = number_in(form, "distance"), whole_in(form, "rows"), None
    columns = None if graph else whole_in(form, "columns") if schema is None else schema.encoding.dim
    if _by_record(purpose):
        k = whole_in(form, "k")
    check_plan_sizes({"columns": columns, "rows": rows, "k": k}, purpose)
    request = planner.ask(
        guarantee=guarantee_in(form),
        schema=None if graph else schema,
        columns=columns if schema is None else None,
        purpose=purpose,
        rows=rows,
        distance=distance,
        spectrum=spectrum_in(form, purpose),
    )
    if k is not None:
        check.whole(1, k=k)
        check.between(1, request.widths.dim, k=k)
    made = planner.outline(replace(request, dimension=k), assumed=distance is None)
    if made.best.alike is not None:
        return PlanView(made, None, None, _HELP if made.best.alike.gain(purpose) < _GOOD else "")
    best = _best_by_epsilon(replace(request, guarantee=replace(request.guarantee, epsilon=1.0)))
    return PlanView(made, _over_k(made), _over_epsilon(made, best), _advice(made, best))


def table_answer(fields: Mapping[str, str], schema: Schema | None) -> TablePlan:
    """The plan of a synthetic table for what the controls of the Plan screen say."""
    form = dict(fields)
    rows = whole_in(form, "rows")
    if schema is None or rows is None:
        raise ParameterError("a synthetic table is planned for a described table and its number of records")
    check_plan_sizes({"columns": len(schema.data_columns), "rows": rows}, "covariance")  # all pairs of columns
    return plan_table(schema=schema, guarantee=guarantee_in(form), rows=rows)


def check_plan_sizes(sizes: Mapping[str, int | None], purpose: Purpose) -> None:
    """Limit the sizes of a plan: refuse one that would take long, since a page is no place to wait for it."""
    most = _MOST_PLANNED | ({"columns": _MOST_PLANNED_PAIRS} if purpose in ("covariance", "learning") else {})
    for name, size in sizes.items():
        if (size or 0) > most[name]:
            raise ParameterError(f"{name}: more than {most[name]:,} are too many to plan here: use `sfumato plan`")


def _over_k(made: Plan) -> Plot | None:
    found = over_dimension(made)
    return None if found is None else replace(found, size=_SIZE)


@functools.lru_cache(maxsize=64)
def _best_by_epsilon(request: option.PlanRequest) -> tuple[tuple[float, float], ...]:
    """For the Plan screen: the best error at each epsilon, at any k.

    Depends on neither control, so it is found once.
    """
    found = []
    for epsilon in _EPSILONS:
        asked = replace(request, guarantee=replace(request.guarantee, epsilon=epsilon))
        try:
            options = (
                [*per_record.responses(asked), per_record.quick_sketch(asked)] if _by_record(asked.purpose) else None
            )
            plan = planner.outline(asked, assumed=False, options=options)
        except SfumatoError:
            continue
        found.append((epsilon, shown_error(plan, plan.best)))
    return positive_points(found)


def _by_record(purpose: Purpose) -> bool:
    return purpose in ("distances", "nearest", "clustering")


def _over_epsilon(made: Plan, best: tuple[tuple[float, float], ...]) -> Plot | None:
    here = positive_points([(made.guarantee.epsilon, shown_error(made, made.best))])
    if len(best) < 2 or not here:
        return None
    (epsilon, error), line = here[0], trace(best, "the best option at any k", "c0 main")
    point = Chosen(epsilon, error, relative(error))
    return Plot(
        x_name="epsilon",
        y_name=error_name(made),
        title="Error over epsilon",
        traces=(line,),
        chosen=point,
        x_range=log_range([*line.xs, epsilon]),
        y_range=error_range([line], (), point),
        log="xy",
        y_text=relative,
        size=_SIZE,
        label=f"Error over epsilon: {relative(error)} at epsilon {epsilon:.3g}",
    )


def _advice(made: Plan, best: tuple[tuple[float, float], ...]) -> str:
    """The Plan screen's advice: what would bring the error down to a quarter."""
    if shown_error(made, made.best) <= _GOOD:
        return ""
    enough = next((epsilon for epsilon, error in best if error <= _GOOD), None)
    if enough is None:
        return f"No epsilon up to {_EPSILONS[-1]:.3g} brings the error to {_GOOD:.0%}: change the unit or the scale."
    if enough <= made.guarantee.epsilon:
        return f"Another k would bring the error to {_GOOD:.0%} at this epsilon."
    return f"Epsilon {enough:.2g} or less would bring the error to {_GOOD:.0%}."


# ---- from the plan to a release -------------------------------------------------------------------------------------


def spectrum_in(form: Form, purpose: str) -> str | None:
    """The guess of the records that a form of the studio states, by its name: pages read no rows for one."""
    stated = form.get("spectrum") or None
    if stated is not None:
        check.one_of(tuple(SPECTRA), spectrum=stated)
    return stated if purpose in option.SIMILAR else None


def query(fields: Mapping[str, str], option: Option) -> str:
    """A link from the Plan screen: the Release screen's fields for an option, as a query."""
    kept = {k: fields[k] for k in ("data", "unit", "epsilon", "delta", "change", "radius") if fields.get(k)}
    kept.setdefault("delta", "0")  # as an empty field is read
    made = {"mechanism": option.name, "noise": option.noise}
    if option.name == "sketch":
        made |= {k: fields[k] for k in ("purpose", "spectrum", "distance") if fields.get(k)}
    recipe: Any = option.mechanism
    if option.levels is not None:
        made |= {"levels": str(option.levels)}
    if option.family:
        made |= {"projection": option.family, "dimension": str(option.dimension)}
    elif isinstance(recipe, (GraphSketch, Covariance)) and recipe.rows is not None:
        made |= {"rows": str(recipe.rows)}
    if recipe.vertices is not None:
        made |= {"vertices": str(recipe.vertices)}
    return urlencode(kept | made)


def table_query(fields: Mapping[str, str]) -> str:
    """A link from the Plan screen: the Release screen's fields for a synthetic table, as a query."""
    kept = {key: fields[key] for key in ("data", "unit", "epsilon") if fields.get(key)}
    return urlencode(kept | {"delta": fields.get("delta") or "0", "mechanism": "table"})


def shown_as(made: Plan) -> str:
    """What the column of the Plan screen's table holds that options are ranked by."""
    if made.best.alike is not None:
        return {"clustering": "Order kept", "learning": "Near"}.get(made.purpose, "Recall")
    return "Wrong group" if made.purpose == "clustering" else "Relative error"


# ---- pages ----------------------------------------------------------------------------------------------------------


def plan_page(studio: Studio, request: Request) -> Response:
    """The Plan screen: the controls and, if they say enough, the plan; the script asks again whenever one moves."""
    tables = [item.name for item in studio.folder.tables() if item.has_schema]
    given = {key: request.query_params.get(key, "") for key in FIELDS}
    fields = given | {key: text for key, text in DEFAULTS.items() if key not in request.query_params}
    if "data" not in request.query_params and "columns" not in request.query_params and tables:
        fields["data"] = tables[0]
    facts: dict[str, Any] = {
        "tables": tables,
        "fields": fields,
        "units": UNITS,
        "purposes": PURPOSES,
        "changes": CHANGES,
        "spectra": SPECTRA,
    }
    return page(studio, "plan.html", here="plan", **facts, **_told(studio, fields))


def plan_answer(studio: Studio, request: Request, form: Form) -> Response:
    """The part of the Plan screen that depends on the controls."""
    del request
    fields = {key: form.get(key, "") for key in FIELDS}
    told = _told(studio, fields)
    if "table" in told:
        html = render(studio, "plan_table.html", **told)
        return JSONResponse({"html": html, "words": told["table"].verdict, "largest": None, "k": None})
    words = told["answer"].plan.verdict if told["answer"] else told["wrong"]
    plan: Plan | None = told["answer"].plan if told["answer"] else None
    sketch = None if plan is None else next((o.dimension for o in plan.options if o.family), None)
    largest = None if plan is None else plan.request.widths.dim
    html = render(studio, "plan_answer.html", fields=fields, **told)
    return JSONResponse({"html": html, "words": words, "largest": largest, "k": sketch})


def _schema(studio: Studio, name: str) -> Schema:
    """The schema of the table on the Plan screen; the same file is read once, which takes long if it is wide."""
    path = studio.folder.schema(name)
    state = path.stat()
    return settled(studio.folder.table(name), _read(path, state.st_mtime_ns, state.st_size))[1]


@functools.lru_cache(maxsize=8)
def _read(path: Path, changed: int, size: int) -> Schema:
    del changed, size
    return read_schema(path)


def _told(studio: Studio, fields: Mapping[str, str]) -> dict[str, Any]:
    """What the template of the Plan screen's answer needs: the plan, or what is wrong with the controls."""
    try:
        schema = _schema(studio, fields["data"]) if fields["data"] else None
        if schema is None and not fields["columns"] and fields["purpose"] != "cuts":
            return {"answer": None, "wrong": "Pick a table that is described, or say how many flags a record has."}
        with studio.plans.mine():
            if fields["purpose"] == "table":
                return {
                    "table": table_answer(fields, schema),
                    "answer": None,
                    "wrong": "",
                    "query": table_query(fields),
                }
            shown = {"merit": shown_error, "shown_as": shown_as, "query": query}
            return {"answer": answer(fields, schema), "wrong": "", **shown}
    except SfumatoError as error:
        return {"answer": None, "wrong": said(error)}
