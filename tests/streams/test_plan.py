"""Plans of streams: they read nothing, use the noise of the mechanism itself, and say which way is best when."""

import json
import math

import numpy as np
import pytest

import sfumato as sf
from sfumato.cli import main
from sfumato.errors import ParameterError
from sfumato.mechanisms.covariance import Covariance
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.losses import Gaussian
from sfumato.streams import plan as stream_plan
from sfumato.streams.factorisation import Repeated, SquareRoot, Tree, variances
from sfumato.streams.plan import OwnRows

GUARANTEE = sf.Guarantee(epsilon=1.0, delta=1e-6, unit="record")
SCHEMA = sf.Schema((sf.Real("a", 0, 10), sf.Real("b", -1, 1), sf.Category("c", ("x", "y", "z"))))


def planned(horizon=365, **changed):
    facts = {"schema": SCHEMA, "guarantee": GUARANTEE} | changed
    return sf.plan_stream(horizon=horizon, **facts)


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 12, 100, 365])
def test_ways_have_the_variances_of_their_factorisations(horizon):
    plan = planned(horizon)
    methods = {"square-root": SquareRoot(), "tree": Tree(), "own": OwnRows(), "repeated": Repeated()}
    one = plan.option("end").last ** 2
    for way, method in methods.items():
        found, wanted = plan.option(way), variances(method, horizon)
        assert found.last**2 / one == pytest.approx(wanted[-1], rel=0.01)  # coarsening differs, by less
        assert found.mean**2 / one == pytest.approx(wanted.mean(), rel=0.01)
    ranked = [option.mean for option in plan.options[:-1]]
    assert ranked == sorted(ranked)
    assert plan.options[-1].way == "end"


def test_own_rows_are_a_factorisation_of_running_sums():
    method, size = OwnRows(), 6
    measured = np.array([np.pad(method.weights(*method.measured(t)), (0, size - t)) for t in range(1, size + 1)])
    decoded = np.array([np.pad(method.decoder(t)[1], (0, size - t)) for t in range(1, size + 1)])
    assert np.array_equal(decoded @ measured, np.tril(np.ones((size, size))))
    assert np.square(measured).sum(axis=0).max() == method.squared_norm(size)
    assert [method.variance(t) for t in (1, 5)] == [np.square(method.decoder(t)[1]).sum() for t in (1, 5)]
    assert method.touched(size, 3) == 3


def test_a_release_at_the_end_is_an_ordinary_one():
    """Its noise is that of the mechanism's own release, in records at an end of the bounds."""
    prepared = Covariance().prepare(SCHEMA, GUARANTEE)
    facts = prepared.facts(calibrate(prepared, GUARANTEE).level, None)["mechanism"]
    half = float(np.median(prepared.moment.grid.half)) * prepared.moment.grid.step
    assert planned().option("end").last == pytest.approx(facts["standard_deviation"] / half**2, rel=0.01)


def test_a_stream_is_far_below_releases_anew_over_a_year():
    plan = planned(365)
    assert plan.best.way == "square-root"
    assert plan.best.ratio <= 0.024
    assert plan.option("tree").ratio <= 0.061
    assert plan.option("own").ratio == pytest.approx(0.5, abs=0.01)
    assert plan.option("end").last < plan.best.last


def test_what_is_best_when():
    assert "all ways are the same" in planned(1).verdict
    assert not planned(1).advice
    few = planned(4)
    assert any("so few periods" in line for line in few.advice)
    assert any("a stream by tree errs less" in line for line in few.advice)  # after the fourth period alone
    long = planned(5000)
    assert long.best.way == "tree"
    assert any("goes up to 4,096" in line for line in long.advice)
    with pytest.raises(StopIteration):
        long.option("square-root")


def test_a_verdict_needs_the_number_of_records():
    assert planned(12).error is None
    assert "Say how many records" in planned(12).verdict
    words = [planned(12, rows=rows).verdict.split(":")[0] for rows in (5, 100, 10_000)]
    assert words == ["Hopeless", "Rough", "Good"]
    assert planned(12, rows=5).hopeless
    assert planned(24, rows=100).error < planned(12, rows=100).error  # more records in all


@pytest.mark.parametrize("horizon", [10, 365, 4097])
def test_a_longer_horizon_costs_what_the_norm_of_its_columns_says(horizon):
    """The extension composed with what was charged is the whole, and so is a stream declared at once."""
    method = SquareRoot() if horizon <= 4096 else Tree()
    mu = 1 / calibrate(Covariance().prepare(SCHEMA, GUARANTEE), GUARANTEE).level
    for longer in planned(horizon).longer:
        grown = method.squared_norm(longer.horizon) / method.squared_norm(horizon)
        whole = Gaussian(mu * math.sqrt(grown), 1.0)
        assert longer.noise == pytest.approx(math.sqrt(grown), rel=0.002)
        assert whole.delta(longer.whole) == pytest.approx(1e-6, rel=0.05)
        alone = Gaussian(mu * math.sqrt(grown - 1), 1.0)
        assert alone.delta(longer.extra) == pytest.approx(1e-6, rel=0.1)
        assert GUARANTEE.epsilon < longer.whole < GUARANTEE.epsilon + longer.extra


@pytest.mark.parametrize("changed", [{"neighbours": "add-remove"}, {"group": 3}, {"epsilon": 0.1}])
def test_ratios_do_not_depend_on_the_promise(changed):
    promise = sf.Guarantee(**({"epsilon": 1.0, "delta": 1e-6, "unit": "record"} | changed))
    plan = planned(100, guarantee=promise)
    assert plan.best.ratio == pytest.approx(planned(100).best.ratio, rel=0.01)
    assert plan.best.last != pytest.approx(planned(100).best.last, rel=0.1)


def test_classes_are_planned_by_their_counts():
    recipe = sf.Synthetic(dimension=2, label="c", kind="classes", centring="public")
    plan = planned(52, mechanism=recipe, rows=1000)
    assert plan.unit == "records in a class"
    assert "a class of average size" in plan.verdict
    assert plan.error == pytest.approx(plan.best.last * 3 / 52_000)
    alone = planned(52, mechanism=sf.Synthetic(dimension=2, centring="public"), rows=1000)
    assert "length 1" in alone.unit


def test_counts_are_planned_by_their_largest_table():
    plan = planned(52, mechanism=sf.Histogram((("c",), ("b", "c")), bins={"b": 4}), rows=1000)
    assert "cell of average size" in plan.verdict
    prepared = plan.mechanism.prepare(SCHEMA, GUARANTEE)
    assert plan.error == pytest.approx(plan.best.last * max(prepared.cells.sizes) / 52_000)
    scale = prepared.scale(calibrate(prepared, GUARANTEE).level)
    assert plan.option("end").last == pytest.approx(scale, rel=1e-6)


def test_what_cannot_be_planned_is_refused():
    with pytest.raises(ParameterError, match="delta"):
        planned(guarantee=sf.Guarantee(epsilon=1.0, unit="record"))
    with pytest.raises(ParameterError, match="horizon=0"):
        planned(0)
    with pytest.raises(ParameterError, match="rows=0"):
        planned(rows=0)
    with pytest.raises(ParameterError, match="needs a schema"):
        planned(schema=None)
    with pytest.raises(ParameterError, match="Sketch"):
        planned(mechanism=sf.Sketch(dimension=2))


@pytest.fixture
def stated(tmp_path):
    (tmp_path / "people.toml").write_text(SCHEMA.to_toml())
    return ["plan", "--purpose", "stream", "--schema", str(tmp_path / "people.toml"), "--epsilon=1", "--delta=1e-6"]


def test_the_command_tells_the_plan(stated, capsys):
    assert main([*stated, "--unit=record", "--horizon=365", "--rows=500"]) == 0
    assert capsys.readouterr().out.strip() == planned(365, rows=500).describe()
    assert main([*stated, "--unit=record", "--horizon=365", "--rows=500", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == planned(365, rows=500).to_dict()
    assert main([*stated, "--unit=record", "--horizon=9", "--statistic=synthetic", "--label=c"]) == 0
    assert "records in a class" in capsys.readouterr().out
    assert main([*stated, "--unit=record", "--horizon=9", "--statistic=histogram", "--of=a", "--of=b,c"]) == 0
    assert "records in a cell" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "--horizon"),
        (["--horizon=9", "--distance=2"], "--distance"),
        (["--horizon=9", "--of=a"], "--statistic histogram"),
        (["--horizon=9", "--label=c"], "--statistic synthetic"),
        (["--horizon=9", "--purpose=covariance"], "--horizon is for --purpose stream"),
        (["--horizon=9", "--of=a", "--purpose=table"], "--horizon and --of are for"),
    ],
)
def test_the_command_refuses_what_says_nothing(stated, more, said, capsys):
    assert main([*stated, *more]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


def test_the_command_plans_what_can_be_made(stated, tmp_path, capsys):
    """Each statistic under the same name and with the same options, and the plan is of the recipe that is made."""
    for number, more in enumerate(
        (
            [],
            ["--statistic=covariance", "--no-centred"],
            ["--statistic=histogram", "--of=a", "--bins=a=7"],
            ["--statistic=synthetic", "--label=c", "--dimension=2"],
        )
    ):
        options = [*more, "--horizon=9", "--unit=record"]
        assert main([*stated, *options, "--json"]) == 0
        planned_last = json.loads(capsys.readouterr().out)["options"][0]["last"]
        path = tmp_path / f"{number}.stream"
        assert main(["stream", "init", str(path), *stated[3:], *options, "--json"]) == 0
        made = json.loads(capsys.readouterr().out)
        name = more[0].partition("=")[2] if more else "covariance"
        assert (made["statistic"]["name"], made["method"]) == (name, "square-root")
        about = sf.Stream(path).description.measuring.statistic
        worth = stream_plan._worth(about)[0]
        description = sf.Stream(path).description
        noise = description.measuring.noise(description.scale, 9, 9)[1]
        assert noise / worth == pytest.approx(planned_last)
    assert main([*stated, "--horizon=9", "--purpose=covariance", "--bins=a=7"]) == 2
    assert "--horizon and --bins are for --purpose stream" in capsys.readouterr().err


def test_a_stream_is_made_with_the_schema_of_a_space_and_without_what_never_works(stated, tmp_path, capsys):
    sf.Space(SCHEMA, dimension=2).save(tmp_path / "c.space")
    init = ["stream", "init", str(tmp_path / "a.stream"), *stated[5:], "--horizon=9"]
    for more in (["--unit=edge"], ["--fresh"]):
        with pytest.raises(SystemExit):
            main([*init, *stated[3:5], *more])
        said = capsys.readouterr().err
        assert (more[0].partition("=")[0] in said, said.count("\n")) == (True, 1)
    for more in ([], [*stated[3:5], "--space", str(tmp_path / "c.space")]):
        assert main([*init, *more]) == 2
        assert "--schema, or --space" in capsys.readouterr().err
    assert main([*init, "--space", str(tmp_path / "c.space")]) == 0
    assert sf.Stream(tmp_path / "a.stream").description.schema == SCHEMA


def test_a_plan_says_in_short_what_it_is():
    shown = repr(planned(12, rows=500))
    assert shown.startswith("<plan of a stream of 12 periods of 500 records each; ")
    assert "square root errs least" in shown
    assert len(shown) < 300


def test_a_notebook_shows_the_plan():
    assert "a stream by square root" in planned(12)._repr_html_()
