"""Learning a schema privately from the Data screen: what it costs and what it can show, before a row is read.

Columns that the form describes in full stay as they are, and nothing is learned about them. The rest is learned, within
the guarantee that the price states. Types of the file decide nothing but which columns hold lists: one cell can change
how a column is stored, and no guarantee would cover that.
"""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.errors import LedgerError, SfumatoError
from sfumato.files.open_table import open_table
from sfumato.ledger.account import Account
from sfumato.studio.data_screen import SETTINGS, saved_schema, table_page, with_settings
from sfumato.studio.frame.jobs import JobWords, Order
from sfumato.studio.frame.pages import reading, writing
from sfumato.studio.frame.prices import account_in, patient, priced
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs.folder import Folder, file_state
from sfumato.studio.inputs.form_fields import Form, guarantee_in
from sfumato.studio.inputs.page_words import said
from sfumato.studio.schema_form import FIELDS, FormRow, completed, lines_from, lines_of
from sfumato.tables.blocks import Progress
from sfumato.tables.columns import Column, Flag
from sfumato.tables.schema import Schema

_KINDS = ("real", "integer", "flag", "category", "date", "datetime")  # that the owner may say of a column to learn
_ANY = Schema((Flag("flag"),))
_NAMED = 5  # columns that a price names


def routes(studio: Studio) -> list[Route]:
    """The routes of learning a schema."""
    return [
        writing(studio, "/data/{name}/learn", quote_learning),
        reading(studio, "/data/{name}/learn", back),
    ]


@dataclass(frozen=True, slots=True)
class Known:
    """What the owner says of a table before its schema is learned; the arguments of ``learn_schema``."""

    id: str | None
    leave_out: tuple[str, ...]
    kinds: Mapping[str, str]
    declared: tuple[Column, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaOrder(Order):
    """An order to learn the schema of a table.

    lines, settings : what was typed into the form, so that nothing is lost on the way back.
    """

    folder: Folder
    known: Known
    lines: tuple[FormRow, ...]
    settings: Mapping[str, str]

    @property
    def promise(self) -> str:
        """What is promised, in plain words; a record may be any other, since nothing is declared yet."""
        return f"{self.guarantee.describe().partition(' What may change')[0]} This holds whatever its values are."

    @property
    def words(self) -> JobWords:
        """How pages speak of learning a schema."""
        return JobWords(
            screen="data",
            back=f"{self._address}/learn?order={self.key}",
            title="Learning a schema",
            noun="schema",
            button="Learn the schema",
            unaccounted="No ledger is charged: nobody adds up what this schema and releases of these data cost "
            "together.",
            running="The schema is being learned.",
            done="The schema is learned, and saved beside the table.",
            cancelled="Learning was stopped.",
            failed="The schema was not learned.",
            opened="Look at the schema",
            again="Back to the table",
        )

    @property
    def result(self) -> str:
        """The address of the table, whose form holds the schema that was learned."""
        return f"{self._address}?learned"

    @property
    def _address(self) -> str:
        return f"/data/{quote(self.table, safe='')}"

    def carry_out(self, account: Account | None, tick: Progress) -> None:
        """Learn the schema and save it beside the table."""
        learned: Schema = _learning().learn_schema(
            self.data,
            epsilon=self.guarantee.epsilon,
            delta=self.guarantee.delta,
            ledger=account,
            neighbours=self.guarantee.neighbours,
            id=self.known.id,
            leave_out=self.known.leave_out,
            kinds=self.known.kinds,
            declared=self.known.declared,
            progress=tick,
        )
        self.folder.write_schema(self.table, with_settings(learned, self.settings).to_toml())


def _learning() -> Any:
    """The module that learns schemas, loaded when it is needed."""
    return importlib.import_module("sfumato.pipeline.learn_schema")


def quote_learning(studio: Studio, request: Request, form: Form) -> Response:
    """The price of learning what the Data screen's form does not describe; nothing is read, drawn or spent."""
    name = request.path_params["name"]
    names_and_types = open_table(studio.folder.table(name)).schema
    before = saved_schema(studio, name, names_and_types.names)
    drafted = {} if before is not None else {line.name: line for line in lines_of(names_and_types, None)}
    lines, known = known_from(lines_from(form), drafted, before)
    kept: dict[str, Any] = {"lines": lines, "settings": {key: form.get(key, "") for key in SETTINGS}}
    if any(line.wrong for line in lines):
        return table_page(studio, name, status=422, **kept)
    try:
        return priced(studio, order_of(studio, name, lines, known, form))
    except SfumatoError as error:
        told = {"wrong": said(error), "refused": isinstance(error, LedgerError)}
        return table_page(studio, name, status=422, **told, **kept)


def known_from(
    lines: Sequence[FormRow], drafted: Mapping[str, FormRow], before: Schema | None
) -> tuple[list[FormRow], Known]:
    """What the lines of a schema's form say, and the lines with what is wrong; what they leave open is learned.

    drafted : lines as they were drafted from types. One that is still so says nothing: types decide nothing here.
    """
    empty = {line.name for line in lines if line.kind and _open(line, drafted.get(line.name))}
    checked, declared = completed([line for line in lines if line.name not in empty], before)
    found = {line.name: _half(line) for line in checked}
    for line in lines:
        if line.name in empty and line.kind == "ordinal":
            found[line.name] = replace(line, wrong={"values": "an order cannot be learned: list the values"})
    shown = [found.get(line.name, line) for line in lines]
    chosen = {line.name: line.kind for line in lines if line.name in empty and line.kind in _KINDS}
    known = Known(
        id=next((line.name for line in lines if line.kind == "id"), None),
        leave_out=tuple(line.name for line in lines if not line.kind),
        kinds={n: kind for n, kind in chosen.items() if n not in drafted or drafted[n].kind != kind},
        declared=tuple(column for column in declared if column.kind != "id"),
    )
    return shown, known


def _open(line: FormRow, drafted: FormRow | None) -> bool:
    """Whether a line of a schema's form leaves its column to be learned: nothing is typed, and something is needed."""
    if line.kind == "id" or any(line.texts.get(key, "").strip() for key in FIELDS.get(line.kind, ())):
        return False
    return line.kind != "flag" or (drafted is not None and drafted.kind == "flag")


def _half(line: FormRow) -> FormRow:
    told = "fill this in too, or clear the column to have it learned"
    return replace(line, wrong={key: told if text == "to fill in" else text for key, text in line.wrong.items()})


def back(studio: Studio, request: Request) -> Response:
    """The Data screen as it was when a schema was ordered: what was typed is not lost by looking at the price."""
    name, order = request.path_params["name"], studio.jobs.waiting(request.query_params.get("order", ""))
    if not isinstance(order, SchemaOrder) or order.table != name:
        return table_page(studio, name)
    return table_page(studio, name, lines=order.lines, settings=order.settings)


def order_of(studio: Studio, table: str, lines: Sequence[FormRow], known: Known, form: Form) -> SchemaOrder:
    """The order to learn a schema that a form describes, with its price. Nothing is read off the rows."""
    data = studio.folder.table(table)
    studio.folder.schema_place(table)
    guarantee = guarantee_in({**form, "unit": "record", "change": ""})
    account, state, source = account_in(studio, form), file_state(data), open_table(data)
    learning = _learning()
    about = learning.Description(known.id, known.leave_out, known.kinds, known.declared)
    planned = learning.PlannedSchema.of(data, about, guarantee, account)
    settings = {key: form.get(key, "") for key in SETTINGS}
    with_settings(_ANY, settings)  # what is wrong with them is said before it costs anything
    counted = guarantee.neighbours == "replace"
    return SchemaOrder(
        name=f"Schema of {table}",
        path=studio.folder.data / table,
        table=table,
        data=data,
        state=state,
        guarantee=guarantee,
        account=account and patient(studio, account),
        quotes=() if account is None else tuple(account.price(planned.request())),
        rows=source.rows,
        counted=counted,
        holds=_held(planned, known, source.rows if counted else None),
        outside=(),
        folder=studio.folder,
        known=known,
        lines=tuple(lines),
        settings=settings,
    )


def _held(planned: Any, known: Known, rows: int | None) -> dict[str, str]:
    """What a price says of a schema to learn: which columns, and what their noise and thresholds will be, in rows."""
    forecast = planned.forecast
    learned = [column.name for column in planned.calibrated.mechanism.columns]
    told = {"Learned": f"{_listing(learned)}: bounds of numbers and dates, values of texts and items"}
    if known.declared:
        told["As you describe them"] = _listing([column.name for column in known.declared])
    if known.leave_out:
        told["Left out"] = _listing(known.leave_out)
    thresholds = [found.count for found in forecast.threshold.values()]
    if thresholds:
        told["A value is listed"] = f"if its noisy count exceeds {_range(thresholds)} rows; rarer ones stay unpublished"
    if forecast.measured:
        told["Noise of a count"] = f"{_range(list(forecast.measured.values()))} rows, one standard deviation"
    return told if rows is None else told | {"Rows of the table": f"{rows:,}"}


def _listing(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{len(names):,} column{'s' * (len(names) > 1)} ({', '.join(names[:_NAMED])}{more})"


def _range(numbers: Sequence[float]) -> str:
    low, high = f"{min(numbers):,.0f}", f"{max(numbers):,.0f}"
    return low if low == high else f"{low} to {high}"
