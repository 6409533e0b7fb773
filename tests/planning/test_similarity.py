"""Forecasts of what analysts find of similar records: against real releases, closed forms, and words."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.cli import main
from sfumato.errors import ParameterError, SchemaError
from sfumato.estimation import neighbours
from sfumato.intervals.moments import Geometry, NoiseLaw, SketchLaw
from sfumato.ledger.ledger import Ledger
from sfumato.pipeline.release import release
from sfumato.planning import per_record, planner, public_guess, similarity
from sfumato.planning.option import Alike
from sfumato.planning.per_record import SketchErrors
from sfumato.planning.public_guess import PublicGuess
from sfumato.planning.similarity import RehearsalSize
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.releases.sketch import SketchRelease
from sfumato.tables.columns import Category, Flag, Integer, Real, Set
from sfumato.tables.schema import Schema

WIDTH = 40
SCHEMA = Schema.reals(WIDTH, low=-4, high=4)
PROMISE = Guarantee(epsilon=16.0, unit="attribute")


def gaussian(count, seed):
    """Records of a normal law with few large directions, turned."""
    rng = np.random.default_rng(seed)
    turned = np.linalg.qr(np.random.default_rng(9).standard_normal((WIDTH, WIDTH)))[0]
    return rng.standard_normal((count, WIDTH)) * (3.0 / np.arange(1, WIDTH + 1)) @ turned


def measured(rows, option):
    """Recall of the ten nearest in a real release."""
    made = release(rows, schema=SCHEMA, mechanism=option.mechanism, guarantee=option.guarantee,
                   secret=Secret.for_testing(4))  # fmt: skip
    believed, asked = made.posterior() if isinstance(made, SketchRelease) else None, np.arange(0, len(rows), 2)
    points = believed.means() if believed is not None and believed.learned else made.array()
    shown = neighbours.nearest(points, asked, 10, NoiseLaw("gaussian", 1.0)).indices
    true = similarity.squared_distances(np.asarray(rows) * SCHEMA.encoding.weights, asked)
    return float(np.mean(np.take_along_axis(true, shown, 1) <= np.sort(true, axis=1)[:, 9:10] + 1e-9))


def test_the_forecast_is_what_a_release_gives():
    made = planner.plan(schema=SCHEMA, guarantee=PROMISE, purpose="nearest", rows=1_000, spectrum=gaussian(1_000, 1))
    assert made.guessed == "1,000 records; records like the 1,000 public rows"
    best = made.only(lambda option: option.name == "sketch").best
    found = measured(gaussian(1_000, 2), best)
    assert 0.15 < found < 0.9
    assert best.alike.recall == pytest.approx(found, abs=0.03)
    wrong = replace(best, noise_scale=1.0, errors=_noisier(best.errors, 2.0))
    (other,) = similarity.with_expected([wrong], made.request, similarity.FULL)
    assert abs(other.alike.recall - found) > 0.06  # with twice the noise it is another one


def test_levels_are_forecast_and_chosen_where_they_find_more():
    facts = {"schema": SCHEMA, "purpose": "nearest", "rows": 1_000, "spectrum": gaussian(1_000, 1)}
    made = planner.plan(guarantee=Guarantee(epsilon=8.0, unit="attribute"), **facts)
    assert (made.best.name, made.best.settings) == ("responses", "28 levels")
    assert made.to_dict()["options"][0]["levels"] == 28
    assert "responses  28 levels" in made.describe()
    found = measured(gaussian(1_000, 2), made.best)
    assert made.best.alike.recall == pytest.approx(found, abs=0.05)
    others = [option.alike.recall for option in made.options if option.levels in (2, 14)]
    assert len(others) == 2
    assert max(abs(recall - found) for recall in others) > 0.06  # with another number of levels it is another one


def test_columns_that_have_few_values_are_not_cut():
    request = planner.ask(schema=Schema([Flag("a"), Category("b", ["x", "y"])]), guarantee=PROMISE, purpose="nearest")
    assert list(per_record.by_levels(request)) == []


def _noisier(errors, factor):
    law = errors.law
    return replace(errors, law=replace(law, noise=NoiseLaw(law.noise.kind, factor * law.noise.scale)))


def test_more_records_than_public_rows_are_extrapolated():
    facts = {"schema": SCHEMA, "guarantee": PROMISE, "purpose": "nearest", "spectrum": gaussian(1_600, 1)}
    request = planner.ask(rows=1_600, **facts)
    (option, *_) = similarity.finalists(request, similarity.LEAST)
    (whole,) = similarity.with_expected([option], request, RehearsalSize(1, 1_600))
    (part,) = similarity.with_expected([option], request, RehearsalSize(1, 400))
    assert (whole.alike.simulated, part.alike.simulated, part.alike.rows) == (1_600, 400, 1_600)
    (few,) = similarity.with_expected([option], replace(request, rows=400), RehearsalSize(1, 400))
    assert few.alike.recall > whole.alike.recall + 0.05
    assert part.alike.recall == pytest.approx(whole.alike.recall, abs=0.05)


def test_columns_that_vary_together_are_kept_and_others_projected():
    facts = {"schema": Schema.reals(300, low=0, high=1), "guarantee": Guarantee(epsilon=6.0, unit="attribute")}
    found = {
        shape: planner.outline(planner.ask(purpose="nearest", rows=800, spectrum=shape, **facts), assumed=True)
        for shape in ("decaying", "flat")
    }
    sketches = {shape: next(o for o in made.options if o.family) for shape, made in found.items()}
    assert sketches["decaying"].dimension > 2 * sketches["flat"].dimension
    assert sketches["decaying"].alike.recall > 2 * sketches["flat"].alike.recall
    assert planner.ask(purpose="nearest", rows=800, **facts).guess is found["decaying"].request.guess


def test_a_forecast_is_the_same_whenever_it_is_made():
    facts = {"schema": Schema.reals(12, low=0, high=1), "guarantee": PROMISE, "purpose": "nearest", "rows": 300}
    one, two = (planner.plan(**facts) for _ in range(2))
    assert [o.alike for o in one.options] == [o.alike for o in two.options]
    assert [getattr(o.mechanism, "seed", None) for o in one.options] == [
        getattr(o.mechanism, "seed", None) for o in two.options
    ]


@pytest.mark.parametrize("noise", [0.05, 0.3, 2.0])
def test_the_closed_form_is_the_correlation_of_squared_distances(noise):
    """Of normal records whose covariance the analyst knows all but exactly, by brute force."""
    rng, deviations = np.random.default_rng(3), 1 / np.arange(1, 9)
    rows = rng.standard_normal((20_000, 8)) * deviations
    guess = PublicGuess(rows, Schema.reals(8, low=-9, high=9), "")
    errors = SketchErrors(SketchLaw(NoiseLaw("gaussian", noise), Geometry("identity", 8, 8)))
    released = rows + rng.normal(0, noise, rows.shape)
    believed = released * (deviations**2 / (deviations**2 + noise**2))
    first, second = rng.integers(len(rows), size=(2, 200_000))
    true, seen = (np.sum((points[first] - points[second]) ** 2, axis=1) for points in (rows, believed))
    found = similarity.correlation(errors, guess, 10**9)
    assert found == pytest.approx(np.corrcoef(true, seen)[0, 1], abs=0.02)
    assert similarity.correlation(errors, guess, 10) < found  # a prior is learned from few rows


def test_guessed_records_keep_to_the_schema():
    schema = Schema((Real("x", 0, 3), Flag("f"), Category("c", ("a", "b", "d")), Set("s", ("p", "q", "r", "t"), most=3),
                     Integer("n", -5, 5, missing="level")))  # fmt: skip
    for shape in ("flat", "decaying"):
        rows = public_guess.guess(shape, schema, 2_000).rows / schema.encoding.weights
        columns = dict(zip(schema.encoding.names, rows.T, strict=True))
        assert (columns["x"].min() >= 0, columns["x"].max() <= 3) == (True, True)
        assert columns["x"].std() == pytest.approx(0.5, rel=0.1)
        assert columns["f"].mean() == pytest.approx(0.1, abs=0.03)
        assert set(columns["c=a"] + columns["c=b"] + columns["c=d"]) == {1.0}
        assert set(sum(columns[f"s={v}"] for v in "pqrt")) == {2.0}
        assert not columns["n=(missing)"].any()


def test_what_is_found_counts_from_chance():
    found = Alike(0.06, 0.05, 0.9, 10, 1_001, 1_001)
    assert found.gain("nearest") == pytest.approx(0.05 / 0.99)
    assert (found.hopeless("nearest"), found.hopeless("learning"), found.hopeless("clustering")) == (False, True, False)
    assert found.gain("learning") == 0
    assert found.gain("clustering") == pytest.approx(0.8)
    assert Alike(1.0, 1.0, 1.0, 10, 11, 11).gain("nearest") == 1


def test_a_hopeless_plan_gives_its_mechanism_only_on_request():
    promise = Guarantee(epsilon=0.1, unit="attribute")
    made = sf.plan(schema=Schema.reals(6, low=0, high=1), guarantee=promise, rows=200, purpose="clustering")
    assert made.hopeless
    assert made.verdict.startswith("Hopeless: of two records")
    assert any(line.startswith("More budget: epsilon ") for line in made.advice)
    with pytest.raises(ParameterError, match=r"take best\.mechanism"):
        _ = made.mechanism
    assert made.best.mechanism.width is not None or made.best.family == "identity"


def test_learning_is_planned_from_sums_and_from_neighbours():
    made = sf.plan(schema=Schema.reals(6, low=0, high=1), guarantee=PROMISE, rows=500, purpose="learning")
    assert made.best.name == "covariance"
    assert "From a sketch: " in made.verdict
    sketches = made.only(lambda option: option.family != "")
    assert sketches.best.alike.near > 0.5
    assert "among the nearest 5%" in sketches.verdict
    facts = made.to_dict()
    assert facts["options"][-1]["expected"]["rows"] == 500
    assert "spectrum decaying, a guess" in facts["assumed"]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"purpose": "distances", "spectrum": "flat"}, "spectrum is for purposes nearest, clustering, learning"),
        ({"columns": 5_000, "schema": None, "spectrum": "flat"}, "at most 4,096"),
        ({"columns": 5, "schema": None, "spectrum": np.zeros((200, 5))}, "public rows need a schema"),
        ({"spectrum": np.zeros((20, 6))}, "at least 100 public rows"),
        ({"spectrum": "nowhere.csv"}, "no such file"),
    ],
)
def test_a_spectrum_that_makes_no_sense_is_refused(facts, said):
    given = {"schema": Schema.reals(6, low=0, high=1), "purpose": "nearest", "rows": 500, "guarantee": PROMISE} | facts
    with pytest.raises((ParameterError, SchemaError), match=said):
        sf.plan(**given)


# ---- commands -------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Schema(tuple(Real(f"x{i}", 0, 1) for i in range(6))).write("people.toml")
    for name, seed in (("people", 1), ("public", 2)):
        rows = np.clip(np.random.default_rng(seed).normal(0.5, 0.2, (300, 1)) + np.zeros((1, 6)), 0, 1)
        pq.write_table(pa.table({f"x{i}": column for i, column in enumerate(rows.T)}), f"{name}.parquet")
    return tmp_path


def refused(line, capsys):
    """The complaint of a command that exits with code 2, which is one line."""
    assert main(line.split()) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    return complaint


@pytest.mark.usefixtures("folder")
def test_a_hopeless_release_is_refused_before_it_is_charged(folder, capsys):
    main(["ledger", "init", "budget.db", "--dataset", "people", "--epsilon", "10", "--unit", "attribute"])
    before = Ledger("budget.db").journal.entries()
    line = "release sketch people.parquet --schema people.toml --epsilon 0.01 --unit attribute --ledger budget.db "
    for wanted in ("--purpose nearest", "--purpose clustering --dimension 2", "--distance 0.5"):
        said = refused(f"{line} --dataset people {wanted} --out r", capsys)
        assert "Hopeless" in said
        assert "add --anyway" in said
    assert Ledger("budget.db").journal.entries() == before
    assert not (folder / "r").exists()
    assert main(f"{line} --dataset people --purpose nearest --anyway --out r".split()) == 0
    assert len(Ledger("budget.db").dataset("people").releases) == 1


@pytest.mark.usefixtures("folder")
def test_public_rows_are_read_from_a_file_that_is_not_the_table(capsys):
    line = "release sketch people.parquet --schema people.toml --epsilon 8 --unit attribute --purpose nearest --out r"
    assert main([*line.split(), "--spectrum", "public.parquet", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert "300 public rows in public.parquet" in facts["plan"]["assumed"]
    assert facts["manifest"]["projection"]["dim_out"] == facts["plan"]["options"][0]["dimension"]
    assert "names the table itself" in refused(f"{line}2 --spectrum people.parquet", capsys)
    plan = "plan --schema people.toml --epsilon 8 --unit attribute --purpose nearest --rows 300 --spectrum "
    pq.write_table(pa.table({"y": np.zeros(200)}), "other.parquet")
    assert "x0" in refused(f"{plan} other.parquet", capsys)
    assert main([*plan.split(), "public.parquet"]) == 0
    assert "records like the 300 public rows in public.parquet" in capsys.readouterr().out
