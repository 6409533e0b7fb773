"""The Streams screen: data that grow. Start a stream, append periods, publish the newest state, extend its horizon.

Nothing that a page shows of a stream is secret: what it declares, its labels, and how many rows it has only where their
number is public. The exact sums in its file are never read for a page.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sfumato import check, defaults
from sfumato.errors import LedgerError, ParameterError, SfumatoError, StreamError
from sfumato.files.open_table import open_table
from sfumato.ledger.account import Account
from sfumato.mechanisms.base import Recipe
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.histogram import Histogram
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.pipeline.release import FROM_BOUNDS
from sfumato.pipeline.stream import Stream
from sfumato.pipeline.stream_charges import StreamCharges
from sfumato.streams.description import LONGEST_HORIZON, StreamDescription
from sfumato.studio.frame.jobs import Order
from sfumato.studio.frame.pages import page, reading, writing
from sfumato.studio.frame.prices import account_in, check_same, patient, priced
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.growing.stream_lines import StreamLine, line_of, more_words
from sfumato.studio.growing.stream_orders import (
    TOGETHER,
    ExtensionOrder,
    PeriodOrder,
    PublicationOrder,
    StreamOrder,
)
from sfumato.studio.inputs.folder import file_state, read_schema
from sfumato.studio.inputs.form_fields import Form, guarantee_in, whole_in
from sfumato.studio.inputs.page_words import NEIGHBOURS, UNITS, said
from sfumato.studio.inputs.release_form import check_memory, tables_in
from sfumato.tables.schema import Schema

FIELDS = (
    *("name", "schema", "statistic", "tables", "label", "dimension", "horizon", "unit", "epsilon", "delta"),
    *("neighbours", "group", "dataset", "convert", "exceptions"),
)
STATISTICS = {
    "covariance": "covariance of the columns",
    "histogram": "histogram: counts of cells",
    "synthetic": "synthetic records from a Gaussian model",
}
_FIRST = {"statistic": "covariance", "horizon": "365", "unit": defaults.UNIT, "neighbours": defaults.NEIGHBOURS}


def routes(studio: Studio) -> list[Route]:
    """The routes of the Streams screen."""
    return [
        reading(studio, "/streams", streams),
        writing(studio, "/streams/price", quote_stream),
        reading(studio, "/streams/{name}", stream),
        writing(studio, "/streams/{name}/append", append),
        writing(studio, "/streams/{name}/publish", publish),
        writing(studio, "/streams/{name}/extend", quote_extension),
    ]


# ---- what there is ---------------------------------------------------------------------------------------------------


def streams(studio: Studio, request: Request) -> Response:
    """The Streams screen: the streams of the folder, and a form to start one."""
    given = {key: request.query_params.get(key, "") for key in FIELDS}
    fields = given | {key: text for key, text in (_FIRST | defaults.SUGGESTED).items() if not given[key]}
    return _form(studio, fields)


def _form(studio: Studio, fields: Mapping[str, str], error: SfumatoError | None = None) -> Response:
    names, schemas = studio.folder.named(".stream"), studio.folder.named(".toml")
    facts: dict[str, Any] = {
        "lines": [line_of(studio.folder.file(name, ".stream"), name) for name in names],
        "fields": fields,
        "wrong": "" if error is None else said(error),
        "refused": isinstance(error, LedgerError),
        "schemas": schemas,
        "statistics": STATISTICS,
        "units": {key: words for key, words in UNITS.items() if key != "edge"},
        "neighbouring": NEIGHBOURS,
        "datasets": studio.payers(fields["schema"] or (schemas[0] if schemas else "")),
        "place": studio.place,
    }
    return page(studio, "streams.html", 422 if error else 200, here="streams", **facts)


def stream(studio: Studio, request: Request) -> Response:
    """The Streams screen of one stream: what it promises, its newest periods, and what can be done with it."""
    return _stream(studio, request.path_params["name"])


def _stream(studio: Studio, name: str, error: SfumatoError | None = None, **typed: str) -> Response:
    path = studio.folder.file(name, ".stream")
    line = line_of(path, name)
    if line.about is None:
        raise StreamError(line.wrong)
    stem = name.removesuffix(".stream")
    fields = {"label": "", "data": "", "leaving": "", "horizon": str(2 * line.about.horizon)} | typed
    fields["release"] = fields.get("release") or _free_name(studio, f"{stem}-{line.periods}")
    facts: dict[str, Any] = {
        "line": line,
        "promise": f"{line.about.guarantee.describe(projected=False)} {TOGETHER}",
        "method": line.about.measuring.method.name,
        "fields": fields,
        "wrong": "" if error is None else said(error),
        "tables": [item.name for item in studio.folder.tables()],
        "job": studio.jobs.job,
    }
    return page(studio, "stream.html", 422 if error else 200, here="streams", **facts)


def _free_name(studio: Studio, stem: str) -> str:
    names = (f"{stem}{'' if i == 1 else f'-{i}'}.release" for i in range(1, 10_000))
    return next((n for n in names if not (studio.folder.out / n).exists()), "")


# ---- a new stream ----------------------------------------------------------------------------------------------------


def quote_stream(studio: Studio, request: Request, form: Form) -> Response:
    """The Streams screen's price of a new stream; nothing is read, drawn or spent."""
    del request
    fields = {key: form.get(key, "") for key in FIELDS}
    try:
        order = order_of(studio, fields)
    except SfumatoError as error:
        return _form(studio, fields, error)
    return priced(studio, order)


def order_of(studio: Studio, fields: Form) -> StreamOrder:
    """The order of a stream that the form describes, with the price of its whole horizon. No data are needed."""
    if not fields.get("schema"):
        raise ParameterError("choose a schema: what the columns of every period may hold")
    place, path = (
        studio.folder.file(fields["schema"], ".toml"),
        studio.folder.new_file(fields.get("name", ""), ".stream"),
    )
    state, schema, guarantee = file_state(place), read_schema(place), guarantee_in(fields)
    recipe, horizon = recipe_in(fields, schema), whole_in(fields, "horizon")
    if horizon is None or not 1 <= horizon <= LONGEST_HORIZON:
        raise ParameterError("give a horizon: how many periods the stream may have")
    account = account_in(studio, fields)
    made = StreamDescription.new(recipe, schema, guarantee, horizon, None)
    noise = made.measuring.noise(made.scale, horizon, horizon)[1] / made.measuring.noise(made.scale, 1, horizon)[1]
    return StreamOrder(
        name=path.name,
        path=path,
        table="",
        data=place,
        state=state,
        guarantee=guarantee,
        account=account and patient(studio, account),
        quotes=() if account is None else tuple(StreamCharges(account).price_to_open(made)),
        rows=None,
        counted=False,
        holds={
            "Schema": fields["schema"],
            "Statistic": StreamLine(path.name, made).statistic,
            "Horizon": f"{horizon:,} periods, charged once and now",
            "Noise": f"after the last period {noise:.3g} times that after the first",
        },
        outside=(FROM_BOUNDS,) if schema.bounds_from_data else (),
        schema=schema,
        recipe=recipe,
        horizon=horizon,
    )


def recipe_in(fields: Form, schema: Schema) -> Recipe:
    """What a stream sums up, as the form of the Streams screen says."""
    kind = fields.get("statistic", "")
    check.one_of(tuple(STATISTICS), statistic=kind)
    recipe: Recipe = Covariance(centred=defaults.CENTRED)
    if kind == "histogram":
        recipe = Histogram(tables_in(fields.get("tables", "")))
    if kind == "synthetic":
        dimension, label = whole_in(fields, "dimension"), fields.get("label") or None
        recipe = Synthetic(dimension=dimension, label=label, centring="public")
    check_memory(recipe, schema)
    return recipe


# ---- a stream that is there ------------------------------------------------------------------------------------------


def append(studio: Studio, request: Request, form: Form) -> Response:
    """Append a table of the folder to a stream as its next period, in the background; it costs nothing more."""
    name = request.path_params["name"]
    typed = {key: form.get(key, "").strip() for key in ("data", "label", "leaving")}
    try:
        return _start(studio, _period(studio, name, typed))
    except SfumatoError as error:
        return _stream(studio, name, error, **typed)


def _period(studio: Studio, name: str, typed: Mapping[str, str]) -> PeriodOrder:
    path = studio.folder.file(name, ".stream")
    if not typed["data"] or not typed["label"]:
        raise ParameterError("choose the table of the period, and give the period a label of its own")
    about, data = Stream(path).description, studio.folder.table(typed["data"])
    return PeriodOrder(
        name=f"{name}: {typed['label']}",
        path=path,
        table=typed["data"],
        data=data,
        state=file_state(data),
        guarantee=about.guarantee,
        account=None,
        quotes=(),
        rows=open_table(data, about.schema).rows if about.counted else None,
        counted=about.counted,
        holds={},
        outside=(),
        label=typed["label"],
        leaving=studio.folder.table(typed["leaving"]) if typed["leaving"] else None,
        ledger=_ledger_now(studio, about),
    )


def publish(studio: Studio, request: Request, form: Form) -> Response:
    """Publish the newest state of a stream as a release folder, in the background; it costs nothing more."""
    name, wanted = request.path_params["name"], form.get("release", "").strip()
    try:
        path = studio.folder.file(name, ".stream")
        order = PublicationOrder(
            name=wanted,
            path=studio.folder.new_release(wanted),
            table="",
            data=path,
            state=file_state(path),
            guarantee=Stream(path).description.guarantee,
            account=None,
            quotes=(),
            rows=None,
            counted=False,
            holds={},
            outside=(),
        )
        return _start(studio, order)
    except SfumatoError as error:
        return _stream(studio, name, error, release=wanted)


def quote_extension(studio: Studio, request: Request, form: Form) -> Response:
    """The Streams screen's price of a longer horizon; nothing is drawn or spent."""
    name, typed = request.path_params["name"], form.get("horizon", "").strip()
    try:
        order = _extension(studio, name, whole_in({"horizon": typed}, "horizon") or 0)
    except SfumatoError as error:
        return _stream(studio, name, error, horizon=typed)
    return priced(studio, order)


def _extension(studio: Studio, name: str, horizon: int) -> ExtensionOrder:
    path = studio.folder.file(name, ".stream")
    state, about = file_state(path), Stream(path).description
    words, account = more_words(about, horizon), _account(studio, about)
    price = None if account is None else StreamCharges(account).price_to_extend(about, horizon)
    return ExtensionOrder(
        name=f"{name} to {horizon:,} periods",
        path=path,
        table="",
        data=path,
        state=state,
        guarantee=about.measuring.promise(about.scale, horizon),
        account=account and patient(studio, account),
        quotes=() if price is None else tuple(price),
        rows=None,
        counted=False,
        holds={"Horizon": words, "Noise": "that of the stream, as it is"},
        outside=(),
        horizon=horizon,
    )


def _account(studio: Studio, about: StreamDescription) -> Account | None:
    """The account in this studio's ledger that a stream is charged to; None if it was started without a ledger."""
    if about.ledger is None:
        return None
    where, dataset = about.ledger
    ledger = studio.ledger()
    if ledger is None or (where is not None and Path(str(studio.place)).resolve() != Path(where).resolve()):
        raise ParameterError("this stream is charged to another ledger: start the studio with that one to extend it")
    return ledger.account(dataset, convert=True, exceptions=about.schema.bounds_from_data)


def _ledger_now(studio: Studio, about: StreamDescription) -> str | None:
    """Where the ledger of a stream is, if it is none that its file can name."""
    return studio.place if about.ledger is not None and about.ledger[0] is None else None


def _start(studio: Studio, order: Order) -> Response:
    """Start what costs nothing more: there is no price to look at."""
    studio.jobs.keep(order)
    studio.jobs.start(order.key, lambda kept: check_same(studio, kept))
    return RedirectResponse("/release/job", 303)
