"""The Plan screen: what can be learned at which price, before anything is read or spent.

A change of epsilon or of k is answered with typical sensitivities (``planner.outline``), in milliseconds; what does not
depend on either, the best error at every epsilon, is kept.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sfumato import check
from sfumato.errors import ParameterError, SfumatoError
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.graph_sketch import GraphSketch
from sfumato.planning import option, per_record, planner
from sfumato.planning.option import Option, Purpose
from sfumato.planning.planner import Plan
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.studio.charts import Chart, Curve, finite
from sfumato.studio.desk import Studio
from sfumato.studio.folder import read_schema
from sfumato.studio.limits import number, whole
from sfumato.studio.pages import Form, page, reading, render, writing
from sfumato.tables.schema import Schema

PURPOSES = {
    "distances": "distances between records",
    "nearest": "nearest records",
    "clustering": "groups of records",
    "covariance": "variances and covariances",
    "learning": "learning a model",
    "cuts": "cuts of a graph",
}
UNITS = {"record": "a whole record", "attribute": "one value of a record", "edge": "one edge of a graph"}
CHANGES = {"": "anything within the bounds", "l1": "a sum of absolute values", "l2": "a Euclidean length"}
DEFAULTS = {"unit": "attribute", "epsilon": "1", "delta": "0", "purpose": "distances", "rows": "10000"}
FIELDS = ("data", "columns", "unit", "epsilon", "delta", "purpose", "rows", "distance", "k", "change", "radius")
_EPSILONS = tuple(10 ** (i / 6) for i in range(-9, 10))  # from 0.03 to 30
_GOOD = 0.25
_POINTS = 40  # of a curve
_MOST = {"columns": 100_000, "rows": 10**9, "k": 100_000}  # more take minutes
_MOST_SUMMED = 2_000  # columns, where a plan looks at all pairs of them


def routes(studio: Studio) -> list[Route]:
    """Of this screen."""
    return [reading(studio, "/plan", plan_page), writing(studio, "/plan/answer", plan_answer)]


def promise(fields: Mapping[str, str]) -> Guarantee:
    """The guarantee that the fields of a form state."""
    form = dict(fields)
    epsilon, delta, radius = number(form, "epsilon"), number(form, "delta", 0.0), number(form, "radius")
    if epsilon is None:
        raise ParameterError("epsilon must be a positive number")
    kind = form.get("change", "") if form.get("unit") == "record" else ""
    return Guarantee(
        epsilon=epsilon,
        delta=delta or 0.0,
        unit=form.get("unit", ""),  # type: ignore[arg-type]
        neighbours=form.get("neighbours") or "replace",  # type: ignore[arg-type]
        change=Change(kind, radius) if kind else None,  # type: ignore[arg-type]
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """A plan as the page shows it."""

    plan: Plan
    over_k: Chart | None
    over_epsilon: Chart | None
    advice: str


def answer(fields: Mapping[str, str], schema: Schema | None) -> Answer:
    """The plan for what the controls say."""
    form = dict(fields)
    purpose: Purpose = form.get("purpose", "")  # type: ignore[assignment]
    check.one_of(get_args(Purpose), purpose=purpose)
    graph = purpose == "cuts"
    distance, rows, k = number(form, "distance"), whole(form, "rows"), None
    columns = None if graph else whole(form, "columns") if schema is None else schema.encoding.dim
    if _by_record(purpose):
        k = whole(form, "k")
    _check_sizes({"columns": columns, "rows": rows, "k": k}, purpose)
    request = planner.ask(
        guarantee=promise(form),
        schema=None if graph else schema,
        columns=columns if schema is None else None,
        purpose=purpose,
        rows=rows,
        distance=distance,
    )
    if k is not None:
        check.whole(1, k=k)
        check.between(1, request.domain.dim, k=k)
    made = planner.outline(replace(request, dimension=k), assumed=distance is None)
    best = _best_by_epsilon(replace(request, guarantee=replace(request.guarantee, epsilon=1.0)))
    return Answer(made, _over_k(request, made), _over_epsilon(made, best), _advice(made, best))


def _check_sizes(sizes: Mapping[str, int | None], purpose: Purpose) -> None:
    """Refuse a plan that would take long: a page is no place to wait for it."""
    most = _MOST | ({"columns": _MOST_SUMMED} if purpose in ("covariance", "learning") else {})
    for name, size in sizes.items():
        if (size or 0) > most[name]:
            raise ParameterError(f"{name}: more than {most[name]:,} are too many to plan here: use `sfumato plan`")


def merit(plan: Plan, option: Option) -> float:
    """What the pictures show: how often a record is put into the wrong group, or the relative error."""
    if plan.purpose == "clustering":
        return option.errors.mistake(plan.distance)
    return option.relative_error(plan.distance)


def _over_k(request: option.Request, made: Plan) -> Chart | None:
    """Every family over its dimensions; the best sketch of the plan is the point."""
    chosen = next((o for o in made.options if o.family), None)
    if chosen is None or not _by_record(request.purpose) or request.domain.dim == 1:
        return None
    beside = next((o for o in made.options if o.family and o.family != "identity"), chosen)  # which has only one k
    curves = [_drawn(request, made, curve, beside) for curve in per_record.curves(request)]
    shown = sorted((c for c in curves if len(c.points) > 1), key=lambda c: c.main)
    point = finite([(chosen.dimension, merit(made, chosen))])
    if not shown or not point:
        return None
    others = {o.name: merit(made, o) for o in reversed(made.options) if not o.family}
    levels = tuple((name, level) for name, level in others.items() if 1e-12 < level < math.inf)
    return Chart("Error over the numbers per record, k", "k", tuple(shown), point[0], levels)


def _drawn(request: option.Request, made: Plan, curve: per_record.Curve, main: Option) -> Curve:
    step = max(1, len(curve.shapes) // _POINTS)
    kept = sorted({*range(0, len(curve.shapes), step), len(curve.shapes) - 1})
    tried = (per_record.option_at(request, curve.guarantee, curve.errors[i], curve.shapes[i]) for i in kept)
    same = (curve.shapes[0].family, curve.errors[0].law.kind) == (main.family, main.noise)
    return Curve(curve.label, finite([(o.dimension, merit(made, o)) for o in tried]), same)


@functools.lru_cache(maxsize=64)
def _best_by_epsilon(request: option.Request) -> tuple[tuple[float, float], ...]:
    """The best error at each epsilon, at any k; depends on neither control, so it is found once."""
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
        found.append((epsilon, merit(plan, plan.best)))
    return finite(found)


def _by_record(purpose: Purpose) -> bool:
    return purpose in ("distances", "nearest", "clustering")


def _over_epsilon(made: Plan, best: tuple[tuple[float, float], ...]) -> Chart | None:
    point = finite([(made.guarantee.epsilon, merit(made, made.best))])
    if len(best) < 2 or not point:
        return None
    return Chart("Error over epsilon", "epsilon", (Curve("the best option at any k", best, main=True),), point[0])


def _advice(made: Plan, best: tuple[tuple[float, float], ...]) -> str:
    """What would bring the error down to a quarter."""
    if merit(made, made.best) <= _GOOD:
        return ""
    enough = next((epsilon for epsilon, error in best if error <= _GOOD), None)
    if enough is None:
        return f"No epsilon up to {_EPSILONS[-1]:.3g} brings the error to {_GOOD:.0%}: change the unit or the scale."
    if enough <= made.guarantee.epsilon:
        return f"Another k would bring the error to {_GOOD:.0%} at this epsilon."
    return f"Epsilon {enough:.2g} or less would bring the error to {_GOOD:.0%}."


# ---- from the plan to a release -------------------------------------------------------------------------------------


def query(fields: Mapping[str, str], option: Option) -> str:
    """The Release screen's fields for an option, as the query of a link."""
    kept = {k: fields[k] for k in ("data", "unit", "epsilon", "delta", "change", "radius") if fields.get(k)}
    made = {"mechanism": option.name, "noise": option.noise}
    recipe: Any = option.mechanism
    if option.family:
        made |= {"projection": option.family, "dimension": str(option.dimension)}
    elif isinstance(recipe, (GraphSketch, Covariance)) and recipe.rows is not None:
        made |= {"rows": str(recipe.rows)}
    if recipe.vertices is not None:
        made |= {"vertices": str(recipe.vertices)}
    return urlencode(kept | made)


# ---- pages ----------------------------------------------------------------------------------------------------------


def plan_page(studio: Studio, request: Request) -> Response:
    """The controls and, if they say enough, the answer; the script asks again whenever one moves."""
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
    }
    return page(studio, "plan.html", here="plan", **facts, **_told(studio, fields))


def plan_answer(studio: Studio, request: Request, form: Form) -> Response:
    """The part of the page that depends on the controls."""
    del request
    fields = {key: form.get(key, "") for key in FIELDS}
    told = _told(studio, fields)
    words = told["answer"].plan.verdict if told["answer"] else told["wrong"]
    plan: Plan | None = told["answer"].plan if told["answer"] else None
    sketch = None if plan is None else next((o.dimension for o in plan.options if o.family), None)
    largest = None if plan is None else plan.request.domain.dim
    html = render(studio, "plan_answer.html", fields=fields, **told)
    return JSONResponse({"html": html, "words": words, "largest": largest, "k": sketch})


def _schema(studio: Studio, name: str) -> Schema:
    """The schema of a table; the same file is read once, which takes long if it is wide."""
    path = studio.folder.schema(name)
    state = path.stat()
    return _read(path, state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=8)
def _read(path: Path, changed: int, size: int) -> Schema:
    del changed, size
    return read_schema(path)


def _told(studio: Studio, fields: Mapping[str, str]) -> dict[str, Any]:
    """What the template of an answer needs: the answer, or what is wrong with the controls."""
    try:
        schema = _schema(studio, fields["data"]) if fields["data"] else None
        if schema is None and not fields["columns"] and fields["purpose"] != "cuts":
            return {"answer": None, "wrong": "Pick a table that is described, or say how many flags a record has."}
        with studio.plans.mine():
            return {"answer": answer(fields, schema), "wrong": "", "merit": merit, "query": query}
    except SfumatoError as error:
        return {"answer": None, "wrong": str(error)}
