"""Learning a schema from the studio: what is learned, what it costs, and what becomes of what was typed.

A stand-in takes the place of the module that learns: it records what it is asked, and charges as any release does.
"""

import re
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace

import pytest

from sfumato.ledger.ledger import Ledger
from sfumato.ledger.sources import Origin
from sfumato.ledger.state import Request
from sfumato.pipeline.charging import charged
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Gaussian
from sfumato.privacy.units import Cap
from sfumato.studio.frame.guard import Keys
from sfumato.studio.frame.jobs import Job
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs.folder import Folder
from sfumato.studio.learn_screen import Known, known_from
from sfumato.studio.schema_form import FormRow, lines_from
from sfumato.tables.columns import Category, Flag, Id, Real
from sfumato.tables.schema import Schema
from support.visiting import CELL, ROWS, Visitor, write_people

LEARNED = Category("city", ("Basel", "Bern"))
FORM = {
    "lines": "3",
    "0.name": "age",
    "0.kind": "real",
    "0.low": "0",
    "0.high": "120",
    "1.name": "smoker",
    "1.kind": "id",
    "2.name": "city",
    "2.kind": "category",
    "epsilon": "0.5",
    "delta": "1e-7",
    "dataset": "people",
}


@dataclass(frozen=True)
class Description:
    id: str | None
    leave_out: tuple
    kinds: dict
    declared: tuple


@dataclass
class StandIn:
    """A module that learns schemas, as the studio calls it."""

    asked: list = field(default_factory=list)
    failure: Exception | None = None
    deviation: float = 10.0

    def of(self, data, about, guarantee, _account):
        columns = [name for name in ("age", "smoker", "city") if name not in self._known(about)]
        mechanism = SimpleNamespace(columns=[SimpleNamespace(name=name) for name in columns])
        forecast = SimpleNamespace(
            measured={"city": 12.3, "age": 10.9}, threshold={"city": SimpleNamespace(count=1234, deviation=12.3)}
        )
        calibrated = SimpleNamespace(mechanism=mechanism)
        request = self._request(guarantee, str(data))
        return SimpleNamespace(forecast=forecast, calibrated=calibrated, request=lambda: request)

    @staticmethod
    def _known(about):
        return {about.id, *about.leave_out, *(column.name for column in about.declared)}

    def _request(self, guarantee, data):
        return Request(
            "SchemaLearning",
            guarantee,
            Gaussian(1.0, self.deviation),
            None,
            1,
            "a schema that is learned",
            Origin(data),
        )

    def learn_schema(self, data, *, epsilon, delta, ledger, neighbours, progress, **known):
        guarantee = Guarantee(epsilon=epsilon, delta=delta, neighbours=neighbours)
        self.asked.append((guarantee, Known(**known)))
        if ledger is not None:
            with charged(ledger, self._request(guarantee, str(data))) as charge:
                progress(ROWS)
                charge.draw()
                progress(ROWS)
        if self.failure is not None:
            raise self.failure
        return Schema((*known["declared"], LEARNED), scale="bounds")


@pytest.fixture
def learning(monkeypatch):
    made, module = StandIn(), ModuleType("learn_schema")
    module.Description, module.learn_schema = Description, made.learn_schema
    module.PlannedSchema = SimpleNamespace(of=made.of)
    monkeypatch.setitem(sys.modules, "sfumato.pipeline.learn_schema", module)
    return made


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "data"
    made.mkdir()
    write_people(made)
    (made / "people.toml").unlink()
    return made


@pytest.fixture
def visitor(folder, learning):
    assert learning.asked == []
    place = folder.parent / "budget.db"
    Ledger.create(place).add_dataset("people", Cap(Guarantee(epsilon=5.0, delta=1e-6, unit="record")))
    return Visitor(Studio(Folder.of(folder), str(place), Keys()))


def price(visitor, **changed):
    return visitor.send("/data/people.csv/learn", FORM | changed)


def confirm(visitor, page):
    (key,) = re.findall(r'name="order" value="([^"]+)"', page.text)
    assert visitor.send("/release/start", {"order": key, "confirmed": "yes"}).is_redirect
    visitor.studio.jobs.job.join()
    return visitor.get("/release/state").json()


def test_the_page_offers_to_learn_and_names_who_pays(visitor):
    page = visitor.get("/data/people.csv").text
    assert 'formaction="/data/people.csv/learn"' in page
    assert '<option value="people">people</option>' in page


def test_the_price_says_what_is_learned_and_from_how_many_rows_on_a_value_is_listed(visitor, learning, folder):
    page = price(visitor)
    assert page.status_code == 200
    text = re.sub(r"<[^>]*>", " ", page.text)
    for told in ("1 column (city)", "1 column (age)", "exceeds 1,234 rows", "11 to 12 rows", "e^0.5"):
        assert told in text, told
    assert "This schema costs" in text
    assert "The projection" not in text
    assert learning.asked == []
    assert not (folder / "people.toml").exists()
    assert visitor.studio.ledger().dataset("people").releases == ()


def test_what_was_confirmed_is_learned_charged_and_fills_the_form(visitor, learning, folder):
    told = confirm(visitor, price(visitor, scale="raw"))
    assert (told["state"], told["said"]) == ("done", "The schema is learned, and saved beside the table.")
    (asked,) = learning.asked
    assert asked[0] == Guarantee(epsilon=0.5, delta=1e-7)
    assert asked[1] == Known("smoker", (), {}, (Real("age", 0, 120),))
    assert Schema.read(folder / "people.toml") == Schema((Real("age", 0, 120), LEARNED), scale="raw")
    page = visitor.get("/release/job").text
    assert 'href="/data/people.csv?learned"' in page
    assert "Basel\nBern" in visitor.get("/data/people.csv?learned").text
    assert len(visitor.studio.ledger().dataset("people").releases) == 1


def test_a_draft_from_types_decides_nothing():
    drafted = {"a": FormRow("a", "real"), "b": FormRow("b", "flag"), "c": FormRow("c", "category")}
    form = {"lines": "5", "0.name": "a", "0.kind": "real", "1.name": "b", "1.kind": "flag"}
    form |= {"2.name": "c", "2.kind": "date", "3.name": "d", "3.kind": "", "4.name": "e", "4.kind": "id"}
    lines, known = known_from(lines_from(form), drafted, None)
    assert not any(line.wrong for line in lines)
    assert known == Known("e", ("d",), {"c": "date"}, ())
    _, known = known_from(lines_from(form | {"0.kind": "flag", "1.missing": "level"}), drafted, None)
    assert known == Known("e", ("d",), {"c": "date"}, (Flag("a"), Flag("b", "level")))


def test_a_saved_schema_is_the_owners_word():
    before = Schema((Flag("b"), Real("a", 0, 1)))
    form = {"lines": "2", "0.name": "a", "0.kind": "real", "1.name": "b", "1.kind": "flag"}
    _, known = known_from(lines_from(form), {}, before)
    assert known == Known(None, (), {"a": "real"}, (Flag("b"),))


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"0.high": ""}, "f0-high-wrong"),
        ({"0.low": "", "0.high": "", "0.weight": "2"}, "f0-low-wrong"),
        ({"0.low": "x"}, "f0-low-wrong"),
        ({"2.kind": "ordinal"}, "f2-values-wrong"),
        ({"2.kind": "id"}, "f2-kind-wrong"),
    ],
)
def test_a_column_that_is_half_described_is_marked_and_nothing_is_priced(visitor, changed, place):
    answer = price(visitor, **changed)
    assert answer.status_code == 422
    assert f'id="{place}"' in answer.text
    assert "The price" not in answer.text


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"epsilon": "-1"}, "epsilon"),
        ({"epsilon": ""}, "epsilon"),
        ({"dataset": "other"}, "other"),
        ({"norm": "l2", "norm_bound": "many"}, "bound of the clip"),
        ({"scale": "miles"}, "scale"),
    ],
)
def test_what_is_refused_keeps_what_was_typed(visitor, changed, reason):
    answer = price(visitor, **changed)
    assert answer.status_code == 422
    assert reason in answer.text
    assert 'value="120"' in answer.text
    assert 'name="delta" inputmode="decimal" value="1e-7"' in answer.text


def test_a_price_that_does_not_fit_cannot_be_confirmed(visitor, learning):
    learning.deviation = 0.05
    page = price(visitor, epsilon="50").text
    assert "does not fit" in page
    assert "confirmed" not in page


def test_the_way_back_from_the_price_loses_nothing(visitor):
    (back,) = re.findall(r'href="(/data/people\.csv/learn\?order=[^"]+)"', price(visitor, epsilon="0.75").text)
    page = visitor.get(back)
    assert page.status_code == 200
    assert 'value="120"' in page.text
    assert 'value="0.75"' in page.text
    for other in (back[:-1], back.replace("people", "persons"), "/data/people.csv/learn"):
        assert 'value="0.75"' not in visitor.get(other).text


def test_a_file_that_is_no_schema_is_not_replaced(visitor, folder):
    (folder / "people.toml").write_text("something else")
    assert "is not a schema" in price(visitor).text
    assert (folder / "people.toml").read_text() == "something else"


def test_learning_can_be_stopped_and_says_what_stays_spent(visitor, folder, monkeypatch):
    tick = Job.tick

    def stop(job, rows):
        job.cancel()
        tick(job, rows)

    monkeypatch.setattr(Job, "tick", stop)
    told = confirm(visitor, price(visitor))
    assert (told["state"], told["said"]) == ("cancelled", "Learning was stopped.")
    assert told["spent"] == "Nothing was spent."
    assert not (folder / "people.toml").exists()


def test_an_error_while_learning_shows_no_cell(visitor, learning):
    learning.failure = RuntimeError(CELL)
    told = confirm(visitor, price(visitor))
    assert told["state"] == "failed"
    assert CELL not in str(told)


def test_no_rows_are_counted_where_their_number_is_private(visitor):
    page = price(visitor, neighbours="add-remove", dataset="")
    assert "Rows of the table" not in page.text
    told = confirm(visitor, page)
    assert (told["rows"], told["total"]) == (None, None)


def test_without_a_dataset_nothing_is_charged_and_the_price_says_so(visitor, folder):
    page = price(visitor, dataset="")
    assert "No ledger is charged" in page.text
    assert confirm(visitor, page)["state"] == "done"
    assert visitor.studio.ledger().dataset("people").releases == ()
    assert isinstance(Schema.read(folder / "people.toml").columns[0], Real | Id)


def test_the_real_thing_is_learned_through_the_pages(folder):
    pytest.importorskip("sfumato.pipeline.learn_schema")
    rows = [f"{20 + i % 40},{i % 2 == 0},{CELL if i == 3 else 'Bern'}" for i in range(2_000)]
    (folder / "people.csv").write_text("\n".join(["age,smoker,city", *rows]) + "\n")
    place = folder.parent / "budget.db"
    Ledger.create(place).add_dataset("people", Cap(Guarantee(epsilon=5.0, delta=1e-6, unit="record")))
    visitor = Visitor(Studio(Folder.of(folder), str(place), Keys()))
    page = price(visitor, epsilon="2", **{"0.low": "", "0.high": ""})
    assert "if its noisy count exceeds" in page.text
    assert confirm(visitor, page)["state"] == "done"
    found = {column.name: column for column in Schema.read(folder / "people.toml").columns}
    assert list(found) == ["age", "smoker", "city"]
    assert found["smoker"] == Id("smoker")
    assert found["city"].values == ("Bern",)
    assert found["age"].low <= 20
    assert found["age"].high >= 59
    shown = visitor.get("/data/people.csv?learned").text
    assert "learned from the data at epsilon 2" in shown
    assert CELL not in shown


def test_a_schema_keeps_the_record_of_its_price(visitor, monkeypatch):
    record = SimpleNamespace(epsilon=0.5, delta=1e-7, cut={"age": 900, "x": 3}, unlisted={}, noise={"age": 9, "x": 9})
    schema = SimpleNamespace(
        norm=None, columns=(), learned=record, bounds_from_data=False, data_columns=(), scale="raw"
    )
    monkeypatch.setattr("sfumato.studio.data_screen.schema_form.scale_in", lambda _: "bounds")
    monkeypatch.setattr("sfumato.studio.data_screen._saved", lambda *_: ("text", schema, ""))
    page = visitor.get("/data/people.csv").text
    assert "at epsilon 0.5" in page
    assert "age about 900." in page
