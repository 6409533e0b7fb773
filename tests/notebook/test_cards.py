"""What a notebook shows: cards of values, drawings of releases. Texts are escaped, and styles reach nothing else."""

import html
import re

import numpy as np
import pytest

import sfumato as sf
from sfumato.intervals.estimate import HIDDEN, Estimate, Quantity
from support.kinds import KINDS, PEOPLE, made, people

PROMISE = sf.Guarantee(epsilon=1.0, delta=1e-6)
EVIL = "<img src=x onerror=alert(1)>"


def text_of(card):
    """What a card shows, without its markup."""
    return html.unescape(re.sub(r"<[^>]*>", " ", re.sub(r"<style>.*?</style>", "", card, flags=re.DOTALL)))


@pytest.fixture
def ledger(tmp_path):
    found = sf.Ledger.create(tmp_path / "budget.db")
    found.add_dataset("people", sf.Guarantee(epsilon=3.0, delta=1e-6))
    return found


def test_a_schema_shows_its_columns_escaped():
    schema = sf.Schema([sf.Category(EVIL, [EVIL, "<b>"]), sf.Integer("age", 0, 120, weight=2.0)])
    card = schema._repr_html_()
    assert "<img" not in card
    assert "<b>" not in card
    assert EVIL in text_of(card)
    assert "0 to 120" in text_of(card)
    assert "61 columns" in sf.Schema.reals(61, 0, 1)._repr_html_()
    assert "1 more columns are not shown" in sf.Schema.reals(61, 0, 1)._repr_html_()
    assert "x*" in sf.Schema([sf.Real("x*", 0, 1)])._repr_html_()


def test_plans_show_verdict_and_advice():
    for plan in (
        sf.plan(schema=PEOPLE, guarantee=PROMISE, purpose="table", rows=500),
        sf.plan(schema=PEOPLE, guarantee=PROMISE, rows=500),
    ):
        shown = text_of(plan._repr_html_())
        assert plan.verdict.split(":")[0] in shown
        assert all(line in shown for line in plan.advice)


def test_prices_and_ledgers_show_what_was_spent(ledger):
    terms = {"schema": PEOPLE, "mechanism": "table", "guarantee": PROMISE, "ledger": ledger}
    assert "Spent: epsilon 0 of 3" in text_of(ledger._repr_html_())
    quotes = sf.price(people(), **terms)
    assert isinstance(quotes, list)
    assert str(quotes).endswith("Spent: epsilon 0. After this release: epsilon 1. Within the cap.")
    assert "After this release: 1. Within the cap." in text_of(quotes._repr_html_())
    assert text_of(quotes[0]._repr_html_()) == text_of(quotes._repr_html_())
    sf.release(people(), **terms)
    for value in (ledger, ledger.account(), ledger.dataset("people")):
        assert "Spent: epsilon 1 of 3" in text_of(value._repr_html_())
    assert "committed" in ledger._repr_html_()
    dear = terms | {"guarantee": sf.Guarantee(epsilon=5.0, delta=1e-6)}
    assert "does not fit" in text_of(sf.price(people(), **dear)._repr_html_())


def test_an_empty_ledger_says_what_to_do(tmp_path):
    assert "add_dataset" in sf.Ledger.create(tmp_path / "empty.db")._repr_html_()


def test_estimates_show_errors_units_and_intervals():
    one = Estimate(2.5, 0.5, "noise only", lambda _: (np.array(1.5), np.array(3.5)), Quantity("<km>", 0.0, 9.0))
    assert "2.5" in text_of(one._repr_html_())
    assert "1.5 to 3.5" in text_of(one._repr_html_())
    assert "<km>" in text_of(one._repr_html_())
    assert "<km>" not in one._repr_html_()
    blind = Estimate(2.5, 9.0, "noise only", lambda _: (np.array(-9.0), np.array(99.0)), Quantity("km", 0.0, 9.0))
    assert HIDDEN in text_of(blind._repr_html_())

    def never(_):
        raise AssertionError("intervals of many estimates may take long")

    many = Estimate(np.arange(30.0), np.ones(30), "noise only", never)
    assert "30 estimates" in many._repr_html_()
    assert many._repr_html_().count("<tr>") == 21


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_release_has_a_card_and_a_drawing(kind, tmp_path):
    release = made(kind)
    assert "epsilon" in text_of(release._repr_html_())
    drawing = release.plot()
    shown = drawing._repr_html_()
    assert "<svg" in shown
    assert "script" not in shown
    assert "://" not in shown
    assert drawing.mark == f"d{release.manifest['digest'][:8]}"
    assert all(name.startswith(f"{drawing.mark}-") for name in re.findall(r' id="([^"]+)"', shown))
    drawing.save(tmp_path / "drawing.html")
    assert shown in (tmp_path / "drawing.html").read_text(encoding="utf-8")
    with pytest.raises(sf.ParameterError, match=r"path must end in \.html"):
        drawing.save(tmp_path / "drawing.png")


def test_columns_to_draw_are_those_of_a_table():
    table = sf.release(people(), schema=PEOPLE, mechanism="table", guarantee=PROMISE)
    assert [scene.title for scene in table.plot("city", "age").pictures] == ["age", "city"]
    assert len(table.plot().pictures) == 4
    with pytest.raises(sf.ParameterError, match="columns must be one of 'age'"):
        table.plot("nobody")
    with pytest.raises(sf.ParameterError, match="columns are drawn of tables"):
        made("sketch").plot("age")


def test_a_table_shows_rows_that_are_public():
    table = sf.release(people(), schema=PEOPLE, mechanism="table", guarantee=PROMISE)
    shown = text_of(table._repr_html_())
    assert all(str(cell) in shown for cell in table.table().slice(0, 1).to_pylist()[0].values())
    assert "No ledger was used" in shown


def test_the_style_of_a_card_reaches_nothing_else():
    (style,) = re.findall(r"<style>(.*?)</style>", PEOPLE._repr_html_(), re.DOTALL)
    depth, outside = 0, ""
    for letter in style:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        outside += letter if depth == 0 and letter not in "{}" else ""
    assert outside.split() == [".sfumato-view"]
    assert ":root" not in style
