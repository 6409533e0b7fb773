"""The Ask screen: questions about a table, answered with noise, with the budget in view.

A question is priced, confirmed and charged as on the command line: before a row is read. Answers are kept in memory for
as long as the studio runs; the ledger keeps their digests. Nothing but noisy answers is ever shown.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sfumato import defaults
from sfumato.errors import LedgerError, ParameterError, SfumatoError
from sfumato.ledger.account import Account
from sfumato.pipeline.answers import Answer, texts_of
from sfumato.pipeline.fitting import settled
from sfumato.pipeline.session import Session
from sfumato.report.column_pictures import ColumnPicture, ShareSeries
from sfumato.report.html import Markup
from sfumato.report.numbers import number
from sfumato.studio.budget_screen import bars
from sfumato.studio.frame.jobs import JobWords, Order, Watched
from sfumato.studio.frame.pages import page, reading, writing
from sfumato.studio.frame.prices import account_in, patient, priced
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs.folder import NotHereError, file_state, read_schema
from sfumato.studio.inputs.form_fields import Form, number_in
from sfumato.studio.inputs.page_words import said
from sfumato.tables.blocks import Progress
from sfumato.tables.columns import Category, Flag, Integer, Ordinal, Real
from sfumato.tables.schema import Schema

FIELDS = ("data", "query", "epsilon", "delta", "dataset", "convert")
_MOST_SHOWN = 200  # rows of an answer on a page; the file has all of them
_MOST_PICTURES, _MOST_BARS = 4, 60
_LONGEST = 2000  # letters of a question


def routes(studio: Studio) -> list[Route]:
    """The routes of the Ask screen."""
    return [
        reading(studio, "/ask", ask),
        reading(studio, "/ask/table", about_table),
        writing(studio, "/ask/price", quote_question),
        reading(studio, "/ask/answer/{number:int}", answered),
        reading(studio, "/ask/answer/{number:int}/table", as_file),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionOrder(Order):
    """An order to answer one question. ``answers``: where its answer goes."""

    schema: Schema
    query: str
    number: int
    answers: dict[int, Answer]

    @property
    def words(self) -> JobWords:
        """How pages speak of a question."""
        return _WORDS

    @property
    def result(self) -> str:
        """The address of the answer."""
        return f"/ask/answer/{self.number}"

    def carry_out(self, account: Account | None, tick: Progress) -> None:
        """Charge, count, draw and keep the answer."""
        tick(0)
        session = Session(self.data, schema=self.schema, ledger=account, engine=Watched(tick=tick))
        promise = self.guarantee
        self.answers[self.number] = session.ask(self.query, epsilon=promise.epsilon, delta=promise.delta)


_WORDS = JobWords(
    screen="ask",
    back="/ask",
    title="A question",
    noun="question",
    button="Ask",
    unaccounted="",
    running="The question is being answered.",
    done="The question is answered.",
    cancelled="The question was stopped.",
    failed="The question was not answered.",
    opened="See the answer",
    again="Another question",
)


def ask(studio: Studio, request: Request) -> Response:
    """The Ask screen: the form, the budget, and the answers so far."""
    fields = _FIRST | {key: request.query_params[key] for key in ("data",) if key in request.query_params}
    described = _described(studio)
    fields["data"] = fields["data"] or (described[0] if described else "")
    return _form(studio, fields)


_FIRST = dict.fromkeys(FIELDS, "") | defaults.SUGGESTED_QUESTION


def _described(studio: Studio) -> list[str]:
    """Tables that can be asked about: those with a schema."""
    return [item.name for item in studio.folder.tables() if item.has_schema]


def _form(studio: Studio, fields: Mapping[str, str], error: SfumatoError | None = None) -> Response:
    payers = studio.payers(fields["data"])
    facts: dict[str, Any] = {
        "fields": fields,
        "wrong": "" if error is None else said(error),
        "refused": isinstance(error, LedgerError),
        "tables": _described(studio),
        "payers": payers,
        "budgets": [(d.name, bars(d)) for d in sorted(_datasets(studio), key=lambda d: payers.index(d.name))],
        "place": studio.place,
        "examples": _examples(studio, fields["data"]),
        "answers": [(n, one.query, number(one.epsilon)) for n, one in sorted(studio.answers.items(), reverse=True)],
    }
    return page(studio, "ask.html", 422 if error else 200, here="ask", **facts)


def _datasets(studio: Studio) -> list[Any]:
    try:
        return studio.datasets()
    except LedgerError:
        return []


def about_table(studio: Studio, request: Request) -> Response:
    """What the Ask screen's form follows when another table is chosen: examples by its schema, and who pays."""
    table = request.query_params.get("data", "")
    payer = next(iter(studio.payers(table)), "")
    return JSONResponse({"examples": _examples(studio, table), "payer": payer})


def _examples(studio: Studio, table: str) -> list[str]:
    """Questions that fit the schema of a table: each a text to begin with."""
    try:
        schema = _schema(studio, table)
    except SfumatoError:
        return []
    columns = schema.data_columns
    numbers = [_name(c.name) for c in columns if isinstance(c, Real | Integer)][:2]
    groups = [_name(c.name) for c in columns if isinstance(c, Category | Flag | Ordinal)][:2]
    found = [f"count by {group}" for group in groups[:1]]
    found += [f"mean({one})" for one in numbers[:1]] + [f"histogram({one}, 10)" for one in numbers[:1]]
    found += [f"mean({numbers[-1]}) by {groups[-1]}"] if numbers and groups else []
    found += [f"quantile({numbers[0]}, 0.25 0.5 0.75)"] if numbers else []
    return found or ["count"]


def _name(name: str) -> str:
    """The name of a column as a question has it."""
    return name if name.isidentifier() else f"`{name}`"


def _schema(studio: Studio, table: str) -> Schema:
    return settled(studio.folder.table(table), read_schema(studio.folder.schema(table)))[1]


def quote_question(studio: Studio, request: Request, form: Form) -> Response:
    """The Ask screen's price: what the question costs and what remains; nothing is read, drawn or spent."""
    del request
    fields = {key: form.get(key, "") for key in FIELDS}
    try:
        order = order_of(studio, fields)
    except SfumatoError as error:
        return _form(studio, fields, error)
    return priced(studio, order)


def order_of(studio: Studio, fields: Form) -> QuestionOrder:
    """The order that the Ask screen's form describes, with its price. Nothing is read off the rows."""
    table, query = fields.get("data", ""), " ".join(fields.get("query", "").split())
    if not table or not query:
        raise ParameterError("choose a table and write a question, such as mean(age) by sex")
    if len(query) > _LONGEST:
        raise ParameterError(f"a question has at most {_LONGEST:,} letters here")
    epsilon, delta = number_in(fields, "epsilon"), number_in(fields, "delta", defaults.DELTA) or 0.0
    if epsilon is None:
        raise ParameterError("epsilon must be a positive number")
    account = account_in(studio, fields)
    if account is None:
        raise ParameterError("answers are charged to a budget: choose a dataset of the ledger under Who pays")
    if delta > 0 and not any(cap.guarantee.delta for cap in account.dataset.caps):
        raise ParameterError("this budget has delta 0: set Delta to 0")
    data, schema = studio.folder.table(table), _schema(studio, table)
    session = Session(data, schema=schema, ledger=account)
    return QuestionOrder(
        name=query,
        path=data,
        table=table,
        data=data,
        state=file_state(data),
        guarantee=replace(session.promise, epsilon=epsilon, delta=delta),
        account=patient(studio, account),
        quotes=tuple(session.price([query], epsilon=epsilon, delta=delta)),
        rows=None,
        counted=False,
        holds={"Answer": "noisy numbers with their intervals; no record is shown"},
        outside=(),
        schema=schema,
        query=query,
        number=next(studio.numbers),
        answers=studio.answers,
    )


# ---- answers --------------------------------------------------------------------------------------------------------


def _answer(studio: Studio, request: Request) -> tuple[int, Answer]:
    place = request.path_params["number"]
    if place not in studio.answers:
        raise NotHereError("there is no such answer: answers are kept only while the studio runs")
    return place, studio.answers[place]


def answered(studio: Studio, request: Request) -> Response:
    """One answer: a picture where there are several numbers, and the table."""
    place, answer = _answer(studio, request)
    names, rows, right, notes = texts_of(answer, defaults.LEVEL, _MOST_SHOWN)
    facts: dict[str, Any] = {
        "place": place,
        "answer": answer,
        "left": answer.remaining,
        "pictures": pictures(answer),
        "names": names,
        "rows": rows,
        "right": right,
        "notes": notes,
    }
    return page(studio, "ask_answer.html", here="ask", **facts)


def as_file(studio: Studio, request: Request) -> Response:
    """One answer as a CSV file, with standard errors and intervals."""
    place, answer = _answer(studio, request)
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(answer.table(defaults.LEVEL), sink)
    named = {"Content-Disposition": f'attachment; filename="answer-{place}.csv"'}
    return Response(sink.getvalue().to_pybytes(), media_type="text/csv; charset=utf-8", headers=named)


def pictures(answer: Answer) -> list[Markup]:
    """Bars with intervals, one picture for each aggregate of an answer that has several numbers."""
    if answer.keys is None or any(answer.scales):
        return []
    names = answer.keys.column_names
    table = answer.table(defaults.LEVEL).to_pydict()
    asked = table[names[answer.groups]]
    found: list[Markup] = []
    for aggregate in dict.fromkeys(asked):
        known = table[_ends(table, names)[0]]  # a group without an estimate has no bar
        rows = [i for i, other in enumerate(asked) if other == aggregate and known[i] is not None]
        if 2 <= len(rows) <= _MOST_BARS and len(found) < _MOST_PICTURES:
            found.append(_picture(answer, table, rows, str(aggregate), f"answer{len(found)}"))
    return found


def _picture(answer: Answer, table: Mapping[str, list[Any]], rows: list[int], title: str, name: str) -> Markup:
    assert answer.keys is not None
    names = answer.keys.column_names
    parts = [key for place, key in enumerate(names) if place != answer.groups]
    value, low, high = (np.array([float(table[key][i]) for i in rows]) for key in _ends(table, names))
    labels = tuple(", ".join("missing" if table[p][i] is None else str(table[p][i]) for p in parts) for i in rows)
    reach = np.maximum(high - value, value - low)
    series, least = ShareSeries(title, value, errors=reach), float(reach[reach > 0].min(initial=np.inf))
    digits = 0 if least >= 10 or np.isinf(least) else min(1 - math.floor(math.log10(least)), 9)
    return ColumnPicture(title, labels, (), (series,), f"{{:,.{digits}f}}".format, "value", _MOST_BARS).drawn(name)


def _ends(table: Mapping[str, list[Any]], keys: list[str]) -> list[str]:
    """The names of value, low and high in an answer's table, beside columns of the same names."""
    return [next(n for n in table if n not in keys and n.rstrip("_") == key) for key in ("value", "low", "high")]
