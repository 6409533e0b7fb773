"""The Release screen: choose, look at the price, confirm, watch, read the report."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from sfumato.errors import LedgerError, ParameterError, SfumatoError
from sfumato.fileformat.manifest import Manifest
from sfumato.fileformat.plain_words import contents, promise
from sfumato.files.open_table import open_table
from sfumato.ledger.state import Dataset
from sfumato.mechanisms.base import Prepared, Recipe
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.graph_sketch import GraphSketch
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.fitting import settled
from sfumato.pipeline.release import prospect
from sfumato.planning.option import SIMILAR, Purpose
from sfumato.planning.planner import judge
from sfumato.privacy.guarantee import Guarantee
from sfumato.projection.space import Space
from sfumato.releases.release import load
from sfumato.report.page import page as report_page
from sfumato.studio.frame.jobs import Order, ReleaseOrder
from sfumato.studio.frame.pages import page, reading, writing
from sfumato.studio.frame.prices import account_in, check_same, patient, priced
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs.folder import file_state, read_schema, read_space
from sfumato.studio.inputs.form_fields import Form, guarantee_in, number_in
from sfumato.studio.inputs.page_words import said
from sfumato.studio.inputs.release_form import (
    CHOICES,
    FIELDS,
    FIRST,
    GRAPHS,
    IN_SPACE,
    MECHANISMS,
    ReleaseFacts,
    check_memory,
    labels_of,
    names_in,
    recipe_in,
)
from sfumato.studio.plan_screen import spectrum_in
from sfumato.tables.schema import Schema

# The report has a script and a style of its own, and a release may come from anybody: it gets an origin of its own,
# which can reach neither the studio nor a network.
REPORT_POLICY = (
    "sandbox allow-scripts allow-modals; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
_DIGEST = 12  # digits of a digest that a page shows
_HELD = {
    "method": "Method",
    "projection": "Projection",
    "dimension": "Numbers each",
    "noise": "Noise",
    "rows": "Rows of the sketch",
    "cells": "Cells",
    "vertices": "Vertices",
    "label": "Label column",
}


def routes(studio: Studio) -> list[Route]:
    """The routes of the Release screen."""
    return [
        reading(studio, "/release", choose),
        reading(studio, "/release/table", about_table),
        writing(studio, "/release/price", quote_price),
        writing(studio, "/release/start", start),
        reading(studio, "/release/job", job_page),
        reading(studio, "/release/state", job_state),
        writing(studio, "/release/cancel", cancel),
        reading(studio, "/release/made/{name}", made),
        reading(studio, "/look", look),
        reading(studio, "/release/made/{name}/report", report),
    ]


def choose(studio: Studio, request: Request) -> Response:
    """The Release screen's form, filled in from a plan."""
    given = {key: request.query_params.get(key, "") for key in FIELDS}
    fields = given | {key: text for key, text in FIRST.items() if not given[key]}
    described = [item.name for item in studio.folder.tables() if item.has_schema]
    fields["data"] = fields["data"] or (described[0] if len(described) == 1 else "")
    fields["name"] = fields["name"] or _free_name(studio, fields["data"])
    return _form(studio, fields)


def _form(studio: Studio, fields: Mapping[str, str], error: SfumatoError | None = None) -> Response:
    facts: dict[str, Any] = {
        "fields": fields,
        "wrong": "" if error is None else said(error),
        "refused": isinstance(error, LedgerError),
        "tables": studio.folder.tables(),
        "labels": _labels(studio, fields["data"], fields["mechanism"]),
        "graphs": GRAPHS,
        "spaces": studio.folder.named(".space"),
        "datasets": studio.payers(fields["data"]),
        "place": studio.place,
        "releases": studio.folder.releases(),
        "job": studio.jobs.job,
    }
    return page(studio, "release.html", 422 if error else 200, here="release", **CHOICES, **facts)


def about_table(studio: Studio, request: Request) -> Response:
    """What the Release screen's form follows when another table or mechanism is chosen: only what is public."""
    table, mechanism = (request.query_params.get(key, "") for key in ("data", "mechanism"))
    told = {"labels": _labels(studio, table, mechanism), "name": _free_name(studio, table)}
    return JSONResponse(told | {"payer": next(iter(studio.payers(table)), "")})


def _labels(studio: Studio, table: str, mechanism: str) -> list[str]:
    """The columns that the Release screen offers as a label, of a table that is described."""
    try:
        found = settled(studio.folder.table(table), read_schema(studio.folder.schema(table)))[1] if table else None
    except SfumatoError:
        return []
    return labels_of(found, mechanism)


def _free_name(studio: Studio, data: str) -> str:
    """A name for the Release screen's form that no release has yet."""
    stem = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in data.rpartition(".")[0]) or "data"
    names = (f"{stem}{'' if i == 1 else f'-{i}'}.release" for i in range(1, 10_000))
    return next((n for n in names if not (studio.folder.out / n).exists()), "")


def order_of(studio: Studio, fields: Form) -> ReleaseOrder:
    """The order that the Release screen's form describes, with its price.

    Nothing is read off the rows, drawn or charged.
    """
    table, guarantee = fields.get("data", ""), guarantee_in(fields)
    if not table:
        raise ParameterError("choose a table")
    data, space = studio.folder.table(table), _space(studio, fields)
    schema = None if guarantee.unit == "edge" else settled(data, _declared(studio, fields, space))[1]
    rows, counted = None if schema is None else open_table(data, schema).rows, guarantee.neighbours == "replace"
    recipe = recipe_in(fields, ReleaseFacts(schema, guarantee, rows if counted else None, space))
    state = file_state(data)
    check_memory(recipe, schema)
    account = account_in(studio, fields)
    prepared, asked = prospect(data, schema=schema, mechanism=recipe, guarantee=guarantee)
    return ReleaseOrder(
        name=fields.get("name", ""),
        path=studio.folder.new_release(fields.get("name", "")),
        table=table,
        data=data,
        state=state,
        schema=schema,
        recipe=recipe,
        guarantee=guarantee,
        account=account and patient(studio, account),
        quotes=() if account is None else tuple(account.price(asked)),
        rows=rows,
        counted=schema is not None and counted,
        holds=_held(fields["mechanism"], prepared) | _placed(fields, space),
        outside=(*asked.outside, *_idealized(recipe)),
        hopeless=_hopeless(recipe, schema, guarantee, rows, fields),
    )


def _space(studio: Studio, fields: Form) -> Space | None:
    """The shared space that the Release screen's form names, where the mechanism can be in one."""
    name = fields.get("space", "") if fields.get("mechanism") in IN_SPACE else ""
    return read_space(studio.folder.file(name, ".space")) if name else None


def _declared(studio: Studio, fields: Form, space: Space | None) -> Schema:
    """The schema of an order: that of its shared space, or of the columns that the owner holds; else the table's."""
    if space is not None:
        return space.part(names_in(fields.get("columns", "")) or None).schema
    return read_schema(studio.folder.schema(fields["data"]))


def _placed(fields: Form, space: Space | None) -> dict[str, str]:
    """What the Release screen says of a shared space beside a price."""
    if space is None:
        return {}
    said = "its projection is public and known beforehand, so the promise is for a fixed projection"
    columns = {"Columns": ", ".join(names)} if (names := names_in(fields.get("columns", ""))) else {}
    return {"Shared space": f"{fields['space']}, digest {space.digest[:_DIGEST]}: {said}"} | columns


def _hopeless(recipe: Recipe, schema: Schema | None, guarantee: Guarantee, rows: int | None, fields: Form) -> str:
    """What a plan says of a sketch in a shared space, or from the Plan screen for its purpose, if it is hopeless."""
    if not isinstance(recipe, Sketch) or schema is None:
        return ""
    usual = "distances" if recipe.space is not None and guarantee.projection == "fixed" else ""
    purpose: Purpose = fields.get("purpose", "") or usual  # type: ignore[assignment]
    if purpose not in ("distances", *SIMILAR):
        return ""
    facts: dict[str, Any] = {"distance": number_in(fields, "distance"), "purpose": purpose}
    facts["spectrum"] = spectrum_in(fields, purpose)
    made = judge(recipe, schema=schema, guarantee=guarantee, rows=rows, **facts)
    return made.verdict if made.hopeless else ""


def _held(kind: str, prepared: Prepared) -> dict[str, str]:
    """What the Release screen says is published, as the mechanism was prepared; the rest of the form plays no part."""
    told = {
        _HELD[name]: f"{value:,}" if isinstance(value, int) else str(value)
        for name, value in prepared.settings.items()
        if value is not None
    }
    return {"Mechanism": MECHANISMS[kind]} | told


def _idealized(recipe: Recipe) -> tuple[str, ...]:
    """For the Release screen: sketches that are private by themselves are proved for real numbers."""
    by_itself = isinstance(recipe, GraphSketch) or (isinstance(recipe, Covariance) and recipe.noise == "sketch")
    return ("numerics are idealized: the guarantee is proved for real numbers, not for doubles",) if by_itself else ()


def check_confirmed(studio: Studio, order: Order, form: Form) -> None:
    """For the Release screen: refuse a hopeless order that was not confirmed as such, and one that has changed."""
    if order.hopeless and form.get("anyway") != "yes":
        raise ParameterError("confirm that it is made although it is hopeless: nothing was spent")
    check_same(studio, order)


def quote_price(studio: Studio, request: Request, form: Form) -> Response:
    """The Release screen's price: what the release costs and what remains, before anything is asked."""
    del request
    fields = {key: form.get(key, "") for key in FIELDS}
    try:
        order = order_of(studio, fields)
    except SfumatoError as error:
        return _form(studio, fields, error)
    return priced(studio, order)


def start(studio: Studio, request: Request, form: Form) -> Response:
    """Carry out the release that was confirmed on the Release screen."""
    del request
    if form.get("confirmed") != "yes":
        raise ParameterError("confirm the price first: nothing was spent")
    studio.jobs.start(form.get("order", ""), lambda order: check_confirmed(studio, order, form))
    return RedirectResponse("/release/job", 303)


def job_page(studio: Studio, request: Request) -> Response:
    """The Release screen while a release is made, or a schema learned: how far it is."""
    del request
    job = studio.jobs.job
    if job is None:
        return RedirectResponse("/release", 303)
    return page(studio, "job.html", here=job.order.words.screen, job=job.facts(), order=job.order)


def job_state(studio: Studio, request: Request) -> Response:
    """How far the release is, for the script of the Release screen."""
    del request
    return JSONResponse({"state": "none"} if studio.jobs.job is None else studio.jobs.job.facts())


def cancel(studio: Studio, request: Request, form: Form) -> Response:
    """Stop the release at the next block, from the Release screen."""
    del request, form
    if studio.jobs.job is not None:
        studio.jobs.job.cancel()
    return RedirectResponse("/release/job", 303)


def look(studio: Studio, request: Request) -> Response:
    """From the Release screen's guided way to the newest release of a table, or to all of them."""
    table = request.query_params.get("data", "")
    own = [name for name in studio.folder.releases() if studio.table_of(name) == table]
    newest = max(own, key=lambda name: studio.folder.release(name).stat().st_mtime_ns, default=None)
    address = "/explore" if newest is None else f"/release/made/{quote(newest, safe='')}"
    return RedirectResponse(address, 303)


def made(studio: Studio, request: Request) -> Response:
    """The Release screen of a release that was made, with its report."""
    name = request.path_params["name"]
    release = load(studio.folder.release(name))
    facts = {
        "name": name,
        "manifest": release.manifest,
        "holds": contents(release.manifest),
        "promise": promise(release.manifest),
        "table": studio.table_of(name),
        "source": f"/release/made/{quote(name, safe='')}/report",
    }
    return page(studio, "made.html", here="release", **facts)


def report(studio: Studio, request: Request) -> Response:
    """The report within the Release screen, in an origin of its own; ``?save`` hands it out as a file."""
    name = request.path_params["name"]
    release = load(studio.folder.release(name))
    text = report_page(release, ledger=_dataset(studio, release.manifest))
    headers = {"Content-Security-Policy": REPORT_POLICY}
    if "save" in request.query_params:
        headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(name, safe='')}.html"
    return HTMLResponse(text, headers=headers)


def _dataset(studio: Studio, manifest: Manifest) -> Dataset | None:
    """For the Release screen's report: the budget that was charged, if this studio's ledger knows the release."""
    try:
        ledger = studio.ledger()
        if ledger is None:
            return None
        ledger.check_release(manifest)
        return ledger.dataset(manifest["ledger"]["dataset"])
    except LedgerError:
        return None
