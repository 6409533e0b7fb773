"""The Ask screen: a question is priced, charged before a row is read, and answered with noise."""

import re
from dataclasses import replace

import pytest

from sfumato.aggregates import asked
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.units import Cap
from sfumato.studio import ask_screen
from support.forms import untouched
from support.visiting import CELL, Visitor, make_studio, write_people


@pytest.fixture
def visitor(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    write_people(folder)
    studio = make_studio(folder, epsilon=None)
    Ledger.create(studio.place).add_dataset("people", Cap(Guarantee(epsilon=3.0, delta=1e-6, unit="record")))
    return Visitor(studio)


def priced(visitor, **fields):
    form = untouched(visitor.get("/ask").text, "/ask/price") | {"query": "count by smoker"} | fields
    return visitor.send("/ask/price", form)


def confirmed(visitor, page):
    key = re.search(r'name="order" value="([^"]+)"', page.text)[1]
    visitor.send("/release/start", {"order": key, "confirmed": "yes"})
    visitor.studio.jobs.job.join()
    return visitor.get("/release/state").json()


def spent(visitor):
    return visitor.studio.ledger().dataset("people").total(0).epsilon


def test_the_price_is_shown_before_anything_is_read_or_spent(visitor, monkeypatch):
    monkeypatch.setattr("sfumato.pipeline.session.Blocks", None)  # what would read rows
    page = priced(visitor, epsilon="0.5")
    assert page.status_code == 200
    assert "Nothing has been read, drawn or spent so far." in page.text
    assert 'class="big">0.5<' in page.text
    assert spent(visitor) == 0


def test_an_answer_is_charged_once_and_shown_with_intervals(visitor):
    page = priced(visitor, epsilon="0.5")
    told = confirmed(visitor, page)
    assert (told["state"], told["spent"]) == ("done", "The price is spent, and on record.")
    assert spent(visitor) == pytest.approx(0.5)
    answer = visitor.get("/ask/answer/1").text
    assert "low (95%)" in answer
    assert answer.count("<svg") == 1  # bars of the two groups
    assert "Left for answers with delta 0: " in answer
    assert CELL not in answer
    file = visitor.get("/ask/answer/1/table")
    assert file.headers["content-disposition"] == 'attachment; filename="answer-1.csv"'
    assert len(file.text.splitlines()) == 3
    assert "count by smoker" in visitor.get("/ask").text
    assert confirmed_again(visitor, page) != 303  # the same confirmation buys nothing more
    assert spent(visitor) == pytest.approx(0.5)


def confirmed_again(visitor, page):
    key = re.search(r'name="order" value="([^"]+)"', page.text)[1]
    return visitor.send("/release/start", {"order": key, "confirmed": "yes"}).status_code


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"query": "mean(nobody)"}, "nobody"),
        ({"query": ""}, "write a question"),
        ({"epsilon": "0"}, "epsilon"),
        ({"epsilon": "many"}, "epsilon must be a number"),
        ({"dataset": ""}, "Who pays"),
        ({"data": "../people.csv"}, "no such file"),
    ],
)
def test_what_is_wrong_is_said_on_the_form_and_costs_nothing(visitor, fields, said):
    page = priced(visitor, **fields)
    assert page.status_code in (404, 422)
    assert said in page.text
    assert "--" not in re.search(r'role="alert">(.*?)</div>', page.text, re.DOTALL)[1]
    assert spent(visitor) == 0


def test_what_does_not_fit_cannot_be_confirmed(visitor):
    page = priced(visitor, epsilon="5")
    assert "does not fit" in page.text
    assert 'name="order"' not in page.text


def test_a_question_stops_where_the_table_has_changed(visitor):
    page = priced(visitor)
    path = visitor.studio.folder.table("people.csv")
    path.write_text(path.read_text() + "30,true,Bern\n")
    assert confirmed_again(visitor, page) == 400
    assert spent(visitor) == 0


def test_examples_fit_the_schema(visitor):
    told = visitor.get("/ask/table", params={"data": "people.csv"}).json()
    assert told["payer"] == "people"
    for text in told["examples"]:
        assert priced(visitor, query=text, epsilon="0.01").status_code == 200, text
    assert visitor.get("/ask/table", params={"data": "nothing.csv"}).json()["examples"] == []


def test_answers_that_are_not_there_are_not_found(visitor):
    assert visitor.get("/ask/answer/7").status_code == 404


def test_every_question_that_is_paid_for_keeps_its_answer(visitor):
    """One is priced while another is not answered yet, and confirmed afterwards."""
    first = priced(visitor, epsilon="0.25")
    key = re.search(r'name="order" value="([^"]+)"', first.text)[1]
    order = visitor.studio.jobs.waiting(key)
    second = priced(visitor, epsilon="0.5")
    assert confirmed(visitor, second)["state"] == "done"
    visitor.studio.jobs.keep(replace(order, quotes=ask_screen.order_of(visitor.studio, PAID).quotes))
    assert confirmed(visitor, first)["state"] == "done"
    assert len(visitor.studio.answers) == 2
    assert spent(visitor) == pytest.approx(0.75)


PAID = {"data": "people.csv", "query": "count by smoker", "epsilon": "0.25", "delta": "0", "dataset": "people"}


def test_a_question_that_is_stopped_while_rows_are_counted_costs_nothing(visitor, monkeypatch):
    counting = asked.sums_of

    def stopped(*given):
        visitor.studio.jobs.job.cancel()
        return counting(*given)

    monkeypatch.setattr("sfumato.pipeline.session.sums_of", stopped)
    told = confirmed(visitor, priced(visitor, epsilon="0.5"))
    assert (told["state"], told["spent"]) == ("cancelled", "Nothing was spent.")
    assert spent(visitor) == 0
    assert not visitor.studio.answers
