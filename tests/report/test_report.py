"""Reports: every kind has one, it is whole and harmless, and it says nothing that the release does not."""

import base64
import dataclasses
import hashlib
import json
import math
import re
import sys
from html.parser import HTMLParser
from importlib import resources

import numpy as np
import pytest

from published_synthetic import PublishedSynthetic
from sfumato.cli import main, parser_of
from sfumato.errors import ReleaseError
from sfumato.fileformat import plain_words
from sfumato.ledger.ledger import Ledger
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.distances import NoisyDistances
from sfumato.mechanisms.graph_pairs import EdgeNoise
from sfumato.mechanisms.responses import RandomizedResponse
from sfumato.mechanisms.sketch import Sketch
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.pipeline.release import release
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.randomness.secret import Secret
from sfumato.releases.release import load
from sfumato.report import column_pictures, column_words, error_plots, maps, scenes, svg, table_scenes, words
from sfumato.report.axes import Scale
from sfumato.report.extreme import check_computable
from sfumato.report.html import data_block, escape, tag
from sfumato.report.numbers import number, tick
from sfumato.report.page import page
from sfumato.tables.columns import Category, Date, Flag, Id, Integer, Ordinal, Real, Set, Vector
from sfumato.tables.schema import Schema
from support.kinds import KINDS, ROWS, made

_VOID = {"meta", "br", "hr", "img", "input", "link"}


class Seen(HTMLParser):
    """Elements, texts and attributes of a page, whose tags must balance."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.texts, self.wrong = [], [], [], []
        self.feed(text)
        self.close()
        self.wrong += [f"<{name}> is never closed" for name in self.open]

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes something else")

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def named(self, name):
        return [attributes for element, attributes in self.elements if element == name]

    @property
    def said(self):
        """What a reader sees."""
        return " ".join(" ".join(t for name, t in self.texts if name not in ("script", "style")).split())


def json_of(text):
    (block,) = re.findall(r'<script type="application/json" id="plots">(.*?)</script>', text, re.DOTALL)
    return json.loads(block)


# ---- every kind -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_page_that_is_whole(kind):
    text = page(made(kind))
    seen = Seen(text)
    assert seen.wrong == []
    assert plain_words.promise(made(kind).manifest) in seen.said
    for title in ("What is promised", "What it does not cover", "The budget", "How answers err", "Load it"):
        assert title in seen.said
    assert len(seen.named("svg")) >= 1
    identifiers = [a["id"] for _, a in seen.elements if "id" in a]
    assert len(identifiers) == len(set(identifiers))
    assert len(text) < 200_000
    projected = "projection" in made(kind).manifest
    assert ("The projection may be" in seen.said) <= projected


def test_a_check_of_tags_can_fail():
    assert Seen("<p>one<b>two</p></b>").wrong
    assert Seen("<div><p>one</p>").wrong


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_loaded_from_anywhere(kind):
    text = page(made(kind))
    assert "://" not in text
    assert "@import" not in text
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    for element, attributes in Seen(text).elements:
        assert not {"src", "srcset", "action", "xlink:href"} & set(attributes)
        assert element not in ("link", "iframe", "object", "embed", "base", "form", "a")
        assert attributes.get("href", "data:image/png").startswith("data:image/png")
        assert not [name for name in attributes if name.startswith("on")]


@pytest.mark.parametrize("kind", KINDS)
def test_the_policy_allows_the_one_script_by_its_digest_and_nothing_else(kind):
    text = page(made(kind))
    (policy,) = (m["content"] for m in Seen(text).named("meta") if m.get("http-equiv"))
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    (digest,) = (base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts)
    assert policy.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}';" in policy
    assert "unsafe" not in policy.replace("style-src 'unsafe-inline'", "")


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_the_same_every_time(kind, tmp_path):
    assert page(made(kind)) == page(made(kind))
    made(kind).save(tmp_path / "here.release")
    made(kind).save(tmp_path / "there.release")
    pages = [page(load(tmp_path / f"{name}.release")) for name in ("here", "there")]
    assert pages[0] == pages[1]
    assert str(tmp_path) not in pages[0]
    assert not re.search(r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d", pages[0])


@pytest.mark.parametrize("kind", KINDS)
def test_the_five_lines_run(kind, tmp_path, monkeypatch, capsys):
    made(kind).save(tmp_path / "this.release")
    (code,) = re.findall(r"<pre><code>(.*?)</code></pre>", page(made(kind)), re.DOTALL)
    lines = "".join(text for _, text in Seen(f"<p>{code}</p>").texts)
    assert len([line for line in lines.splitlines() if line]) <= 5
    monkeypatch.chdir(tmp_path)
    exec(lines, {})  # noqa: S102 - what a reader would do
    assert made(kind).guarantee.describe() in capsys.readouterr().out


def test_large_releases_make_small_pages():
    rng, schema = np.random.default_rng(1), Schema.reals(40, 0, 1)
    promise = Guarantee(epsilon=4.0, unit="attribute")
    many = release(rng.random((20_000, 40)), schema=schema, mechanism=Sketch(dimension=8, seed=1), guarantee=promise)
    text = page(many)
    assert len(text) < 150_000
    (cloud,) = re.findall(r'd="((?:M[^"]*h0)+)"', text)
    assert cloud.count("h0") == scenes.MOST_POINTS
    assert "2,000 of 20,000 records are shown" in text
    pairs = release(
        np.zeros((1, 2), int),
        schema=None,
        mechanism=EdgeNoise(vertices=700),
        guarantee=Guarantee(epsilon=1.0, unit="edge"),
    )
    assert len(page(pairs)) < 200_000


# ---- hostile texts --------------------------------------------------------------------------------------------------

_SCRIPT, _IMAGE = "</script><script>alert(1)</script>", '"><img src=x onerror=alert(2)>'
_HOSTILE = Schema(
    [Real(_SCRIPT, 0, 1), Flag("a'\"&<b>\u2028"), Category("city", [_IMAGE, "--><!--", "]]>"], missing=_IMAGE)]
)


def hostile_rows(rows=30):
    rng = np.random.default_rng(1)
    columns = {
        _SCRIPT: rng.random(rows),
        "a'\"&<b>\u2028": rng.random(rows) < 0.5,
        "city": rng.choice([_IMAGE, "]]>"], rows),
    }
    import pyarrow as pa  # noqa: PLC0415

    return pa.table(columns)


def hostile(name):
    promise = Guarantee(epsilon=4.0, delta=1e-6, unit="record")
    schema = Schema([c for c in _HOSTILE.columns if name != "responses" or c.kind != "real"])
    mechanism = {
        "sketch": Sketch(dimension=2, seed=1),
        "covariance": Covariance(noise="gaussian"),
        "responses": RandomizedResponse(),
        "synthetic": Synthetic(dimension=2, label="city", kind="classes", noise="gaussian"),
        "distances": NoisyDistances(),
    }[name]
    return release(hostile_rows(), schema=schema, mechanism=mechanism, guarantee=promise)


@pytest.mark.parametrize("name", ["sketch", "covariance", "responses", "synthetic", "distances"])
def test_hostile_names_are_shown_as_text(name):
    seen, text = Seen(page(hostile(name))), page(hostile(name))
    assert seen.wrong == []
    assert len(seen.named("script")) == 2
    assert seen.named("img") == []
    assert _IMAGE in seen.said
    assert "<b>\u2028" not in text
    assert text.count("<script") == text.count("</script>") == 2
    if name != "responses":
        assert "alert(1)" in seen.said


def test_hostile_names_in_plots_stay_within_their_block():
    plots = json_of(page(hostile("covariance")))
    assert any(_SCRIPT[:20] in told for told in plots["errors"]["told"])


def test_hostile_texts_of_a_manifest_are_shown_as_text():
    odd = made("sketch")
    manifest = odd.manifest | {
        "warnings": [_SCRIPT],
        "randomness": _IMAGE,
        "software": {"sfumato": _SCRIPT, _IMAGE: "1"},
        "ledger": {"dataset": _IMAGE, "entry": 3, "hash": "0" * 64},
        "accounted": True,
    }
    seen = Seen(page(dataclasses.replace(odd, manifest=manifest)))
    assert seen.wrong == []
    assert len(seen.named("script")) == 2
    assert seen.named("img") == []
    assert seen.said.count("alert(1)") >= 2
    assert seen.said.count("onerror=alert(2)") >= 3


def test_json_in_a_page_cannot_end_its_element():
    value = {"a": "</script><!--&\u2028\u2029"}
    block = data_block("plots", value)
    inside = block.removeprefix('<script type="application/json" id="plots">').removesuffix("</script>")
    assert not set(inside) & set("<>&\u2028\u2029")
    assert json.loads(inside) == value
    with pytest.raises(ValueError, match="Out of range"):
        data_block("plots", [math.nan])


def test_texts_are_escaped_and_characters_that_html_cannot_hold_are_replaced():
    assert escape("<a href='\"&") == "&lt;a href=&#x27;&quot;&amp;"
    assert escape("a\x00b\x1bc\u202e") == "a\ufffdb\ufffdc\ufffd"
    assert tag("p", "<", tag("b", ">"), title='"') == '<p title="&quot;">&lt;<b>&gt;</b></p>'
    assert tag("line", x1=0, class_="a", hidden=True, data_x=None) == '<line x1="0" class="a" hidden/>'


# ---- numbers that no picture holds ----------------------------------------------------------------------------------


def extremes(columns):
    """Finite numbers at the ends of what the type holds, and columns in which all are equal."""
    facts, rng = np.finfo(columns.dtype), np.random.default_rng(1)
    signs = rng.choice([-1.0, 1.0], columns.shape)
    for size in (facts.max, facts.smallest_subnormal, 0.0):
        yield np.full_like(columns, size)
        yield (signs * size).astype(columns.dtype)
        alone = columns.copy()
        alone[:, 0] = size
        yield alone
    top = np.log10(float(facts.max)) - 1
    yield (signs * 10 ** rng.uniform(-top, top, columns.shape)).astype(columns.dtype)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "responses" not in kind and kind != "table"])
def test_extreme_numbers_make_a_page_all_the_same(kind):
    """Warnings are errors in these tests: nothing overflows on the way either."""
    ordinary = made(kind)
    for columns in extremes(ordinary.columns):
        if "label" in ordinary.manifest["mechanism"]:
            columns[-1] = ordinary.columns[-1]
        text = page(dataclasses.replace(ordinary, columns=columns))
        assert Seen(text).wrong == []
        assert not re.search(r"\b(nan|inf)\b", text.replace("infinite", ""))
        size = np.abs(columns.astype(np.float64))
        too_extreme = (size > 1e50) | ((size < 1e-50) & (size > 0))
        assert ("of the published numbers are too large" in text) == too_extreme.any()


@pytest.mark.parametrize("number", [1e300, 1e150, 1e-300, 5e-324])
@pytest.mark.parametrize(
    ("kind", "group", "name"),
    [
        ("sketch", "mechanism", "standard_deviation"),
        ("covariance", "mechanism", "anchor"),
        ("responses", "mechanism", "epsilon_per_value"),
        ("sketch", "schema", "weight"),
    ],
)
def test_a_manifest_of_extreme_numbers_has_no_report_and_no_answers(kind, group, name, number):
    odd = made(kind)
    changed = odd.manifest[group] | {name: number}
    if group == "schema":
        changed = odd.manifest[group] | {"columns": [c | {name: number} for c in odd.manifest[group]["columns"]]}
    odd = dataclasses.replace(odd, manifest=odd.manifest | {group: changed})
    for ask in (page, check_computable):
        with pytest.raises(ReleaseError, match="cannot be computed"):
            ask(odd)


def test_answers_are_refused_where_the_numbers_are_too_large(tmp_path, capsys):
    for kind, questions in (
        ("distances", ("distance {} 0 1", "nearest {} 0")),
        ("covariance", ("components {} 2",)),
    ):
        ordinary, folder = made(kind), tmp_path / kind
        dataclasses.replace(ordinary, columns=np.full_like(ordinary.columns, 1e300)).save(folder)
        for question in questions:
            assert main(["estimate", *question.format(folder).split()]) == 2
            said = capsys.readouterr().err
            assert ("nothing can be computed" in said, said.count("\n")) == (True, 1)


# ---- only what is in the release ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["counted covariance"])
def test_a_protected_number_of_rows_is_not_shown(kind):
    text = page(made(kind))
    assert "rows" not in made(kind).manifest
    assert not re.search(rf"(?<![\d.,]){ROWS}(?![\d.,])", Seen(text).said)
    assert "number of records is protected" in text
    assert re.search(rf"(?<![\d.,]){ROWS}(?![\d.,])", Seen(page(made("covariance"))).said)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_follows_from_the_release_alone(kind, tmp_path, monkeypatch):
    """Loaded elsewhere, in another folder and another zone of time, it is the same to the bit; no part has a clock."""
    made(kind).save(tmp_path / "r")
    found = load(tmp_path / "r")
    before = page(found)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert page(found) == before
    parts = {name: vars(module) for name, module in sys.modules.items() if name.startswith("sfumato.report")}
    assert "sfumato.report.page" in parts
    assert [name for name, part in parts.items() if {"time", "datetime", "dt"} & part.keys()] == []


# ---- warnings and the promise ---------------------------------------------------------------------------------------


def test_every_warning_of_a_manifest_appears_first():
    for kind in KINDS:
        seen = Seen(page(made(kind))).said
        for warning in made(kind).manifest["warnings"]:
            assert seen.index(warning[1:]) < seen.index("What is promised")


def test_bounds_from_data_are_confessed():
    schema = dataclasses.replace(Schema.reals(2, 0, 1), bounds_from_data=True)
    odd = release(np.eye(2), schema=schema, mechanism=Sketch(dimension=1, seed=1), guarantee=Guarantee(epsilon=1.0))
    seen = Seen(page(odd)).said
    assert "the bounds were taken from the data" in seen.lower()
    assert "harmless only if" not in seen


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (Real("c", 0, 120.5), "0 to 120.5"),
        (Integer("c", -3, 9, missing="level"), "\u22123 to 9, or missing"),
        (Flag("c", missing="level"), "true or false, or missing"),
        (Ordinal("c", ("low", "high")), "in this order: low, high"),
        (Category("c", tuple(range(10))), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more"),
        (Category("c", ("a", "level"), missing="level"), "a, level"),
        (Date("c", "1900-01-01", "2030-01-01"), "1900-01-01 to 2030-01-01"),
        (
            Date("c", "1900-01-01T00:00:00", "2030-01-01T12:00:00", step=60),
            "1900-01-01 00:00:00 to 2030-01-01 12:00:00, in steps of 60 seconds",
        ),
        (Vector("c", 384, -1, 1, bound=3), "384 numbers, \u22121 to 1, of length at most 3"),
        (
            Vector("c", low=0, high=1, columns=tuple(f"w{i}" for i in range(9)), whole=False),
            "9 numbers in the columns w0, w1, w2, w3, w4, w5, w6, w7 and 1 more, 0 to 1, each a value of its own",
        ),
        (Set("c", ("a", "b", "d"), most=2), "at most 2 of a, b, d"),
        (Set("c", buckets=4096, most=8), "at most 8 of 4,096 buckets"),
        (Id("c"), "public, as it was"),
    ],
)
def test_every_kind_of_column_is_said_in_words(column, said):
    written = Schema((column, Real("other", 0, 7))).to_dict()["columns"][0]
    assert column_words.may_be(written) == said


def test_a_report_says_how_columns_count_and_what_learning_them_cost():
    def below(**more):
        columns = [{"name": "c", "kind": "flag"}]
        return Seen(column_words.schema({"schema": {"columns": columns} | more})).said

    assert "in their own units" in below()
    assert "in units of their declared range" in below(scale="bounds")
    price = {"epsilon": 0.2, "delta": 1e-7, "ledger": {"dataset": "people", "entry": 3}}
    seen = below(learned=price)
    assert "\u03b5 = 0.2" in seen
    assert "charged to the dataset people" in seen
    assert "in addition" in seen


def test_test_noise_is_said_to_protect_nobody():
    terms = {
        "schema": Schema.reals(2, 0, 1),
        "mechanism": Sketch(dimension=1, seed=1),
        "guarantee": Guarantee(epsilon=1.0),
    }
    seen = Seen(page(release(np.eye(2), secret=Secret.for_testing(1), **terms))).said
    assert "PROTECTS NOBODY" in seen
    assert "does not keep it" in seen
    assert "allow_unprotected=True" in seen
    assert "PROTECTS NOBODY" not in Seen(page(release(np.eye(2), **terms))).said


def test_a_promise_that_is_not_kept_is_said_not_to_be():
    mechanism, rows = PublishedSynthetic(dimension=2), np.random.default_rng(1).random((60, 5))
    odd = release(rows, schema=Schema.reals(5, 0, 1), mechanism=mechanism, guarantee=Guarantee(epsilon=1.0))
    assert not odd.manifest["mechanism"]["satisfies_claim"]
    seen = Seen(page(odd)).said
    assert "NOT KEPT" in seen
    assert "does not keep it" in seen


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("sketch", ("Several values of a record", "two together by ε = 8", "x ij")),
        ("fresh sketch", ("Data chosen after the projection", "≤ 1 , in weighted units", "Larger differences")),
        ("covariance", ("People with more rows", "ε = 4, with a larger δ", "they differ in one row")),
        ("counted covariance", ("the number of records is", "one row more than the other")),
        ("covariance sketch", ("computed in doubles",)),
        ("graph-noise", ("All edges of a vertex", "number of vertices", "a uv")),
        ("synthetic", ("no error bars",)),
    ],
)
def test_what_is_not_covered_depends_on_unit_and_kind(kind, said):
    text = Seen(page(made(kind))).said.replace(" ,", ",").replace("1, in", "1 , in")
    for words_ in said:
        assert words_ in text
    assert ("weight of a pair" in text or "one weight" in text) == kind.startswith("graph")
    assert ("Data chosen after" in text) == (kind == "fresh sketch")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "holds two candidates at even odds"),
        ({"neighbours": "add-remove"}, "whether it is in the data"),
        ({"change": Change.l1(2.0)}, "no farther apart than 2"),
        ({"unit": "edge"}, "everything but one edge"),
        ({"group": 3}, "one person\u2019s 3 records"),
    ],
)
def test_what_an_attacker_must_do_depends_on_the_promise(fields, said):
    assert said in words.meaning(Guarantee(epsilon=1.0, **fields))


def test_what_an_attacker_can_reach_is_rounded_up():
    assert "at most 73.2% of cases" in words.meaning(Guarantee(epsilon=1.0))
    assert math.exp(1) / (1 + math.exp(1)) <= 0.732
    assert "at most nearly all of cases" in words.meaning(Guarantee(epsilon=20.0))


# ---- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sketch", "components", "responses", "distances", "covariance"])
def test_the_unit_of_errors_is_said(kind):
    found = made(kind)
    unit = found.variance("age").unit if kind == "covariance" else found.distance(0, 1).unit
    assert unit.startswith("variance about the mean" if kind == "covariance" else "squared distance")
    assert f"Unit: {unit}" in Seen(page(found)).said


@pytest.mark.parametrize("kind", ["sketch", "fresh sketch", "components", "distances"])
def test_the_plotted_curve_is_that_of_the_releases_own_error_bars(kind):
    found, plot = made(kind), error_plots.plot(made(kind))
    first = np.arange(60)
    own = found.distances(first, first + 60)
    curve = found.error_at(np.maximum(own.value, 0.0))
    np.testing.assert_allclose(curve, own.standard_error, rtol=1e-12)
    line = plot.traces[0]
    np.testing.assert_allclose(line.ys, found.error_at(line.xs**2), rtol=1e-15)


def test_the_curve_of_answers_is_that_of_their_error_bars():
    flags = Schema([Flag(f"f{i}") for i in range(9)])
    bits = np.random.default_rng(1).random((40, 9)) < 0.5
    found = release(
        bits, schema=flags, mechanism=RandomizedResponse(), guarantee=Guarantee(epsilon=1.0, unit="attribute")
    )
    own = found.distances(np.arange(20), np.arange(20, 40))
    np.testing.assert_allclose(found.error_at(own.value), own.standard_error, rtol=1e-12)
    cities = Schema([Category(f"c{i}", ["a", "b", "c"], missing="a") for i in range(6)])
    codes = np.random.default_rng(2).choice(["a", "b", "c"], (40, 6))
    import pyarrow as pa  # noqa: PLC0415

    table = pa.table({f"c{i}": codes[:, i] for i in range(6)})
    found = release(
        table, schema=cities, mechanism=RandomizedResponse(), guarantee=Guarantee(epsilon=3.0, unit="attribute")
    )
    own = found.distances(*np.triu_indices(40, 1))
    inside = own.uncut == own.value
    assert inside.sum() > 100
    np.testing.assert_allclose(found.error_at(own.value[inside]), own.standard_error[inside], rtol=1e-9)


@pytest.mark.parametrize("kind", ["graph-sketch", "graph-noise", "graph-responses"])
def test_the_curve_of_cuts_is_that_of_their_error_bars(kind):
    found = made(kind)
    for side in (1, 7, 20):
        own = found.cut(list(range(side)))
        assert found.error_at(own.value, side) == pytest.approx(own.standard_error, rel=1e-9)
    plot = error_plots.plot(found)
    np.testing.assert_allclose(plot.traces[0].ys, found.error_at(0.0, plot.traces[0].xs), rtol=1e-12)
    assert len(plot.traces) == (3 if kind == "graph-sketch" else 1)


def test_the_spectrum_is_that_of_the_releases_own_components():
    found = made("covariance")
    plot, own = error_plots.plot(found), found.principal_components(5).variances
    (bars,) = plot.bars
    np.testing.assert_array_equal(bars.ys, own.value)
    np.testing.assert_array_equal(bars.lows, own.interval(0.95)[0])
    np.testing.assert_array_equal(bars.highs, own.interval(0.95)[1])
    assert [name for name, _ in error_plots.column_errors(found)] == list(found.names)


def test_the_detectable_distance_is_the_plans_own():
    found = made("distances")
    least = error_plots.detectable_distance(found)
    assert least == pytest.approx(math.sqrt(1.96 * found.noise.scale))
    assert any(mark.at == least for mark in error_plots.plot(found).marks)
    said = Seen(page(found)).said
    assert f"Distances below {number(least, 3)} are indistinguishable from 0" in said


def test_what_is_told_of_a_point_is_its_error():
    plot = error_plots.plot(made("sketch"))
    probe = plot.probe()
    assert len(probe["x"]) == len(probe["told"]) == len(plot.traces[0].xs)
    for i in (0, 40, 120):
        assert f"standard error of {number(plot.traces[0].ys[i], 3)}" in probe["told"][i]
    assert json_of(page(made("sketch")))["errors"]["told"] == probe["told"]


# ---- drawing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"),
        (1217, "1,217"),
        (0.0123456, "0.01235"),
        (1e-6, "10⁻⁶"),
        (2.5e-9, "2.5 \u00d7 10⁻⁹"),
        (-3.5, "\u22123.5"),
        (math.inf, "∞"),
        (math.nan, "unknown"),
    ],
)
def test_numbers_are_written_for_people(value, said):
    assert number(value) == said


def test_ticks_are_short_and_round():
    assert [tick(v) for v in (20_000, 1_500_000, 900, 0.25)] == ["20k", "1.5M", "900", "0.25"]
    assert Scale(0, 47, 0, 1).ticks() == [0, 10, 20, 30, 40]
    assert Scale(1, 2000, 0, 1, log=True).ticks() == [1, 10, 100, 1000]
    assert Scale(4, 30, 0, 1, log=True).ticks() == [5, 10, 20]


def test_a_heat_map_is_a_picture_of_its_matrix():
    import io  # noqa: PLC0415

    image = pytest.importorskip("PIL.Image")
    raw = maps._png(np.array([[1.0, -0.5], [0.0, 2.0]]), 2.0)
    pixels = np.asarray(image.open(io.BytesIO(raw)))
    assert pixels.shape == (2, 2, 4)
    assert pixels[..., 3].tolist() == [[128, 64], [0, 255]]
    assert tuple(pixels[0, 1, :3]) == maps._NEGATIVE


def test_some_of_many_are_chosen_by_a_public_rule():
    assert scenes.sampled(5, 10).tolist() == [0, 1, 2, 3, 4]
    chosen = scenes.sampled(10_000, 50)
    assert len(set(chosen.tolist())) == 50
    assert (np.diff(chosen) > 0).all()
    np.testing.assert_array_equal(chosen, scenes.sampled(10_000, 50))


# ---- the ledger -----------------------------------------------------------------------------------------------------


def charged(tmp_path, name="people"):
    ledger = Ledger.create(tmp_path / "budget.db")
    ledger.add_dataset(name, Guarantee(epsilon=3.0, delta=1e-6))
    terms = {
        "schema": Schema.reals(2, 0, 1),
        "mechanism": Sketch(dimension=1, seed=1),
        "guarantee": Guarantee(epsilon=1.0),
    }
    return ledger, release(np.eye(2), ledger=ledger.account(name), **terms)


def test_the_ledgers_state_is_shown_where_it_is_given(tmp_path):
    ledger, found = charged(tmp_path)
    text = page(found, ledger=ledger.dataset("people"))
    seen = Seen(text)
    assert seen.wrong == []
    assert "Charged to the budget of people as entry" in seen.said
    assert "it is committed" in seen.said
    assert "1 of 3 spent by 1 release" in seen.said
    assert "Left: \u03b5 = 2 (pure)." in seen.said
    assert ledger.dataset("people").releases[0].at[:10] not in text
    alone = Seen(page(found)).said
    assert "charged to the budget of 'people'" in alone
    assert "spent by" not in alone


def test_a_release_that_was_not_charged_there_is_said_not_to_be(tmp_path):
    ledger, _ = charged(tmp_path, _IMAGE)
    seen = Seen(page(made("sketch"), ledger=ledger.dataset(_IMAGE)))
    assert "This release was not charged to the budget of" in seen.said
    assert seen.named("img") == []
    assert "No ledger was used" in Seen(page(made("sketch"))).said


# ---- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made("sketch").save("people.release")
    return tmp_path


def test_the_command_writes_a_report_and_never_over_another(folder, capsys):
    assert main(["report", "people.release", "--out", "r.html"]) == 0
    assert capsys.readouterr().out.endswith("written to r.html\n")
    assert (folder / "r.html").read_text() == page(load("people.release"))
    (folder / "r.html").write_text("mine")
    assert main(["report", "people.release", "--out", "r.html"]) == 2
    assert "already exists" in capsys.readouterr().err
    assert (folder / "r.html").read_text() == "mine"
    assert main(["report", "people.release", "--out", "r.html", "--force", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["bytes"] == (folder / "r.html").stat().st_size
    assert facts["warnings"] == load("people.release").manifest["warnings"]


@pytest.mark.usefixtures("folder")
def test_help_shows_an_example_that_parses(capsys):
    with pytest.raises(SystemExit):
        main(["report", "--help"])
    (example,) = re.findall(r"example:\n  sfumato (.*)", capsys.readouterr().out)
    assert parser_of().parse_args(example.split()).release == "people.release"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("report nothing --out r.html", "no release folder"),
        ("report people.release --out r.txt", "must end in .html"),
        ("report people.release --out no/r.html", "no folder"),
        ("report people.release --out r.html --dataset people", "needs --ledger"),
        ("report people.release --out r.html --ledger none.db", "none.db"),
        ("report people.release", "--out"),
    ],
)
def test_refusals_are_one_line_and_write_nothing(folder, line, says, capsys):
    before = sorted(p.name for p in folder.iterdir())
    try:
        code = main(line.split())
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    told = capsys.readouterr().err
    assert says in told
    assert told.count("\n") == 1
    assert sorted(p.name for p in folder.iterdir()) == before


def test_damaged_and_unprotected_releases_are_refused(folder, capsys):
    terms = {
        "schema": Schema.reals(2, 0, 1),
        "mechanism": Sketch(dimension=1, seed=1),
        "guarantee": Guarantee(epsilon=1.0),
    }
    release(np.eye(2), secret=Secret.for_testing(1), **terms).save("odd.release")
    assert main(["report", "odd.release", "--out", "r.html"]) == 2
    assert "protects nobody" in capsys.readouterr().err
    assert main(["report", "odd.release", "--out", "r.html", "--allow-unprotected"]) == 0
    assert "PROTECTS NOBODY" in (folder / "r.html").read_text()
    with (folder / "people.release" / "data.parquet").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ReleaseError):
        load("people.release")
    assert main(["report", "people.release", "--out", "s.html"]) == 2
    assert "do not trust it" in capsys.readouterr().err
    assert not (folder / "s.html").exists()


def test_a_ledger_must_know_the_release_that_names_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _, found = charged(tmp_path)
    found.save("a.release")
    assert main(["report", "a.release", "--out", "a.html", "--ledger", "budget.db"]) == 0
    assert "1 of 3 spent by 1 release" in Seen((tmp_path / "a.html").read_text()).said
    (tmp_path / "other").mkdir()
    charged(tmp_path / "other")
    assert main(["report", "a.release", "--out", "b.html", "--ledger", "other/budget.db"]) == 2
    assert "another ledger" in capsys.readouterr().err
    assert not (tmp_path / "b.html").exists()


# ---- looks ----------------------------------------------------------------------------------------------------------


def test_every_colour_is_declared_for_light_and_dark_in_one_place():
    sheets = {"pictures": svg.style()}
    root = resources.files("sfumato")
    sheets |= {name: (root / "studio" / "static" / f"{name}.css").read_text() for name in ("sfumato", "explore")}
    sheets["report"] = (root / "report" / "report.css").read_text()
    roots = re.findall(r":root \{(.*?)\}", svg.style(), re.DOTALL)
    declared = [re.findall(r"(--[a-z0-9-]+): #", root) for root in roots]
    assert sorted(declared[0]) == sorted(declared[1])
    for name in ("sfumato", "explore"):
        assert not set(re.findall(r"(--[a-z0-9-]+):", sheets[name])) & set(declared[0])
    known = set(re.findall(r"(--[a-z0-9-]+):", "".join(sheets.values())))
    assert set(re.findall(r"var\((--[a-z0-9-]+)\)", "".join(sheets.values()))) <= known


# ---- synthetic tables -----------------------------------------------------------------------------------------------


def test_a_table_shows_its_columns_beside_noisy_counts_and_its_structure():
    text = page(made("table"))
    seen = Seen(text)
    assert "Which columns are related" in seen.said
    assert "3 pairs of columns whose relation the model keeps" in seen.said
    for column in ("age", "income", "smoker", "city"):
        assert f"<h3>{column}</h3>" in text
    assert seen.said.count("noisy counts") >= 4
    assert "every column by itself, over fine cells (40.0%): 4 tables, standard deviation 3 per count" in seen.said


def test_bars_of_noisy_counts_have_the_deviation_of_their_cells():
    release_ = made("table")
    counts = dict(table_scenes._one_ways(release_.manifest["mechanism"], release_.beside["counts.parquet"]))
    variable = table_scenes.column_counts(release_)[0].variables[2]
    _, noisy = table_scenes._picture(variable, np.array([100, 57]), counts[2], 157.0).series
    assert noisy.shares == pytest.approx(counts[2][0] / 157)
    assert noisy.errors == pytest.approx(np.full(2, 1.96 * 3.0 / 157))


def test_a_part_that_towers_is_cut_off_and_said():
    series = (column_pictures.ShareSeries("rows", np.array([0.9, 0.06, 0.04])),)
    picture = column_pictures.ColumnPicture("gain", ("0", "1", "2"), ("0", "1", "2"), series)
    assert picture.cut_off == "Higher than the picture: 0 has 90.0% (rows)."
    low = (column_pictures.ShareSeries("rows", np.array([0.5, 0.3, 0.2])),)
    assert column_pictures.ColumnPicture("gain", ("0", "1", "2"), ("0", "1", "2"), low).cut_off == ""


def test_many_levels_become_the_commonest_and_the_others():
    levels = tuple(f"level {i}" for i in range(30))
    shares = np.full(30, 0.01)
    shares[7], shares[29] = 0.5, 0.22
    series = (column_pictures.ShareSeries("rows", shares, "c0", np.full(30, 0.001)),)
    names, (found,) = column_pictures.ColumnPicture("town", levels, (), series)._common()
    assert len(names) == column_pictures.MOST_BARS + 1
    assert names[-1] == "18 others"
    assert {"level 7", "level 29"} <= set(names)
    assert found.shares.sum() == pytest.approx(shares.sum())
    assert found.errors[-1] == 0
