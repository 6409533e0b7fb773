"""Commands beyond the sketch: plans, regions, the other kinds of release, and questions that a kind cannot answer."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.cli import main
from sfumato.commands import reproduce
from sfumato.commands.console.estimates import print_bar
from sfumato.errors import RangeError
from sfumato.intervals.estimate import Estimate, Quantity
from sfumato.releases.release import load

FLAGS = "\n".join(f'[[columns]]\nname = "f{i}"\nkind = "flag"\n' for i in range(6))
PROMISE = "--epsilon 4 --unit attribute"


@pytest.fixture
def flags(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bits = np.random.default_rng(1).random((80, 6)) < 0.4
    pq.write_table(pa.table({f"f{i}": column for i, column in enumerate(bits.T)}), "flags.parquet")
    (tmp_path / "flags.toml").write_text(FLAGS)
    edges = [(u, v) for u in range(20) for v in range(u) if (u + v) % 3 == 0]
    pq.write_table(pa.table({"from": [u for u, _ in edges], "to": [v for _, v in edges]}), "edges.parquet")
    return tmp_path


def run(line, capsys):
    assert main(line.split()) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("flags")
@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("responses", "", "80 records of 6 randomized answers: each is true with probability 0.982"),
        ("distances", "", "squared distances of all 3,160 pairs of 80 records, with laplace noise"),
        ("distances", "--delta 1e-6", "with gaussian noise"),
        ("components", "--dimension 2", "80 records as 2 numbers each"),
        ("sketch", "--choose-dimension 1", "Epsilon 1 went to choosing the dimension."),
    ],
)
def test_every_kind_is_released_shown_and_asked(kind, options, says, capsys):
    printed = run(f"release {kind} flags.parquet --schema flags.toml {PROMISE} {options} --out r", capsys)
    assert says in printed
    assert says in run("show r", capsys)
    assert "Squared distance: " in run("estimate distance r 3 17", capsys)
    assert "squared distance" in run("estimate nearest r 3 --k 4", capsys)
    assert "Cluster 1:" in run("estimate cluster r 2", capsys)
    assert load("r").manifest["kind"] == ("sketch" if kind == "sketch" else kind)


@pytest.mark.usefixtures("flags")
def test_estimates_are_printed_within_the_bounds_and_with_their_unit(capsys):
    """Six flags are at most 6 apart, squared; at this epsilon the uncut estimates are thousands."""
    run("release sketch flags.parquet --schema flags.toml --epsilon 0.1 --unit attribute --dimension 4 --out r", capsys)
    unit, whole = "squared distance in the columns' own units", []
    for first in range(0, 40, 2):
        facts = json.loads(run(f"estimate distance r {first} {first + 1} --json", capsys))
        assert 0 <= facts["low"] <= facts["high"] <= 6
        assert facts["value"] == min(max(load("r").distance(first, first + 1).uncut, 0), 6)
        assert facts["unit"] == unit
        printed = run(f"estimate distance r {first} {first + 1}", capsys)
        assert f"\nUnit: {unit}.\n" in printed
        whole.append("nothing is excluded" in printed)
        assert whole[-1] == (facts["low"] == 0 and facts["high"] == 6)
    assert any(whole)  # each but with probability 1/20
    near = json.loads(run("estimate nearest r 0 --k 3 --level 0.5 --prior none --json", capsys))
    assert near["unit"] == unit
    assert "all records" in near["covers"]
    own = load("r").nearest(0, 3, prior="none").distances
    assert [line["high"] for line in near["nearest"]] == own.interval(0.5)[1].tolist()
    assert [line["squared_distance"] for line in near["nearest"]] == own.value.tolist()
    printed = run("estimate nearest r 0 --k 3 --prior none", capsys)
    assert f"squared distance {own.value[0]:.6g} (95%: {own.interval()[0][0]:.6g} to " in printed
    assert f"\nUnit: {unit}.\n" in printed


def test_nearest_records_are_printed_with_credible_intervals_and_the_expected_hits(flags, capsys):
    """Flags that go together, so that a prior can be learned."""
    rng = np.random.default_rng(2)
    bits = rng.random((400, 2))[:, [0, 0, 0, 1, 1, 1]] < 0.5
    pq.write_table(pa.table({f"f{i}": column for i, column in enumerate(bits.T)}), flags / "flags.parquet")
    run("release sketch flags.parquet --schema flags.toml --epsilon 6 --unit attribute --dimension 6 --out r", capsys)
    near = json.loads(run("estimate nearest r 0 --k 4 --json", capsys))
    assert near["intervals"] == "credible"
    assert 0 <= near["expected"]["among_k"] <= near["expected"]["among_2k"] <= near["expected"]["among_10k"] <= 4
    assert [line["record"] for line in near["nearest"]] == load("r").nearest(0, 4, prior="learned").indices.tolist()
    printed = run("estimate nearest r 0 --k 4 --prior learned", capsys)
    assert "(95% credible: 0 to " in printed
    assert "Expected among the truly nearest 4: " in printed
    plain = run("estimate nearest r 0 --k 4 --prior none", capsys)
    assert "credible" not in plain
    assert "Expected" not in plain
    run("release distances flags.parquet --schema flags.toml --epsilon 4 --unit attribute --out d", capsys)
    assert main(["estimate", "nearest", "d", "0", "--prior", "learned"]) != 0
    assert "'distances', of which no prior is learned" in capsys.readouterr().err
    assert "squared distance" in run("estimate nearest d 0 --prior none", capsys)


@pytest.mark.usefixtures("flags")
def test_a_sketch_without_a_dimension_is_planned_and_the_plan_is_printed(capsys):
    printed = run(f"release sketch flags.parquet --schema flags.toml {PROMISE} --distance 1.5 --out r", capsys)
    assert printed.startswith("distances at distance 1.5")
    assert "written to r" in printed
    facts = json.loads(run(f"release sketch flags.parquet --schema flags.toml {PROMISE} --out s --json", capsys))
    assert facts["plan"]["distance_assumed"]
    assert facts["manifest"]["projection"]["dim_out"] == facts["plan"]["options"][0]["dimension"]


@pytest.mark.usefixtures("flags")
def test_plans_regions_and_feasible_promises_are_printed_and_drawn(capsys):
    for line, expected in (
        (f"plan --schema flags.toml {PROMISE} --rows 80 --distance 1.5 --plot plan.svg", "responses"),
        ("plan --columns 300 --epsilon 0.02 --unit attribute --purpose nearest --rows 300", "Hopeless: of the 10"),
        ("plan --columns 99999 --epsilon 4 --unit attribute --scales 3 300", "several sketches"),
        ("plan --purpose cuts --unit edge --epsilon 1 --delta 1e-6 --rows 500 --distance 900", "edge response"),
        (
            "regions --columns 100 --rows 200 --epsilon 4 --unit attribute --plot regions.svg",
            "a sketch beats noisy distances",
        ),
        ("feasible 1 2 --plot feasible.html", "epsilon"),
    ):
        assert expected in run(line, capsys)
        assert json.loads(run(f"{line} --json", capsys))
    for name in ("plan.svg", "regions.svg", "feasible.html"):
        assert Path(name).stat().st_size > 5000


@pytest.mark.usefixtures("flags")
@pytest.mark.parametrize(
    "options",
    ["", "--delta 1e-6 --neighbours add-remove --centred", "--delta 1e-6 --noise sketch --no-centred", "--no-centred"],
)
def test_a_covariance_is_released_and_asked(options, capsys):
    unit = "record" if "delta" in options else "attribute"
    run(f"release covariance flags.parquet --schema flags.toml --epsilon 8 --unit {unit} {options} --out c", capsys)
    assert ("80 records" in run("show c", capsys)) == ("add-remove" not in options)
    about = "the middle of the bounds" if "--no-centred" in options else "the mean"
    assert run("estimate variance c f1 f2=-0.5", capsys).startswith(f"Variance about {about}: ")
    assert run("estimate components c 2", capsys).count(": variance ") == 3
    assert f"Unit: variance about {about} in the columns' own units." in run("estimate components c 2", capsys)
    facts = json.loads(run("estimate components c 2 --json", capsys))
    assert len(facts["components"]) == 2
    assert facts["unit"] == f"variance about {about} in the columns' own units"
    assert main(["estimate", "variance", "c", "f1=x"]) == 2
    assert main(["estimate", "variance", "c", "nothing"]) == 2
    assert main(["estimate", "correlation", "c"]) == (2 if "--no-centred" in options else 0)


@pytest.mark.usefixtures("flags")
def test_correlations_covariances_and_regressions_are_printed_as_tables(capsys):
    run("release covariance flags.parquet --schema flags.toml --epsilon 300 --unit attribute --out c", capsys)
    made = load("c")
    lines = run("estimate correlation c --most 4", capsys).splitlines()
    assert lines[0].split() == ["columns", "correlation", "standard", "error", "95%", "from", "to"]
    strengths = [abs(float(line.split()[2])) for line in lines[1:5]]
    assert strengths == sorted(strengths, reverse=True)
    assert lines[5] == "11 more entries (--most N prints more)."
    assert "from -1 to 1" in lines[6]
    facts = json.loads(run("estimate correlation c f1 f2 --json --level 0.9", capsys))
    (entry,) = facts["entries"]
    low, high = made.correlation()["f1", "f2"].interval(0.9)
    assert (entry["row"], entry["column"], entry["low"], entry["high"]) == ("f1", "f2", low, high)
    wide = json.loads(run("estimate covariance c f1 f2 --json --simultaneous", capsys))["entries"]
    assert [(e["row"], e["column"]) for e in wide] == [("f1", "f1"), ("f2", "f2"), ("f1", "f2")]
    narrow = json.loads(run("estimate covariance c f1 f2 --json", capsys))["entries"]
    assert all(w["high"] - w["low"] > n["high"] - n["low"] for w, n in zip(wide, narrow, strict=True))
    facts = json.loads(run("estimate regression c f1 f2 f3 --json", capsys))
    assert [term["term"] for term in facts["terms"]] == ["(intercept)", "f2", "f3"]
    assert facts["terms"][1]["coefficient"] == made.regression("f1", ["f2", "f3"]).coefficients.value[0]
    assert run("estimate regression c f1", capsys).splitlines()[0].startswith("term ")
    assert main(["estimate", "regression", "c", "g1"]) == 2
    assert "did you mean f1" in capsys.readouterr().err


@pytest.mark.usefixtures("flags")
def test_synthetic_records_are_released_and_other_questions_refused(capsys):
    line = "release synthetic flags.parquet --schema flags.toml --epsilon 50 --dimension 2 --label f5 --classes --out s"
    assert "80 synthetic rows of 2 numbers and a label (f5)" in run(line, capsys)
    assert load("s").labels().shape == (80,)
    assert main(["estimate", "distance", "s", "1", "2"]) == 2
    assert "which cannot estimate distance" in capsys.readouterr().err


@pytest.mark.usefixtures("flags")
def test_synthetic_records_are_made_in_one_pass_with_a_dimension_from_public_facts(capsys):
    """The number of records, 80, is what is expected where it is public; under add-remove it is not asked for."""
    line = "release synthetic flags.parquet --schema flags.toml --epsilon 1 --centring public --out"
    run(f"{line} s", capsys)
    run(f"{line} t --expected-rows 1000000", capsys)
    run(f"{line} u --neighbours add-remove", capsys)
    dimensions = [load(name).dimension for name in ("s", "t", "u")]
    assert dimensions[0] < dimensions[1] == dimensions[2]
    assert "for the sums and second moments." in run("show s", capsys)


@pytest.mark.usefixtures("flags")
def test_a_graph_is_released_and_asked_for_cuts(capsys):
    printed = run("release graph edges.parquet --epsilon 8 --delta 1e-6 --rows 30 --vertices 20 --out g", capsys)
    assert "edge" in printed
    assert run("estimate cut g 1 2 3", capsys).startswith("Cut: ")
    run("release graph edges.parquet --epsilon 8 --vertices 20 --mechanism response --out h", capsys)
    low, high = (json.loads(run("estimate cut h 1 2 3 --json", capsys))[end] for end in ("low", "high"))
    assert low <= high
    unweighted = "release graph edges.parquet --epsilon 8 --vertices 20 --unweighted --out"
    run(f"{unweighted} i --mechanism response", capsys)
    assert "whether the edge weight is at least one half" in run("show i", capsys)
    assert main([*unweighted.split(" "), "j", "--mechanism", "noise"]) == 2
    assert "--unweighted needs --mechanism response" in capsys.readouterr().err
    assert main(["estimate", "distance", "g", "1", "2"]) == 2
    assert "which cannot estimate distance" in capsys.readouterr().err
    assert main(["estimate", "cut", "g", "20"]) == 2
    assert "vertices are numbered 0 to 19" in capsys.readouterr().err


@pytest.mark.usefixtures("flags")
def test_a_graph_too_small_for_its_sketch_is_told_what_would_do(capsys):
    options = "--distortion 0.5 --failure-probability 0.05 --vertices 20"
    printed = run(f"release graph edges.parquet --epsilon 1 --delta 1e-6 {options} --out g", capsys)
    assert "warning: only 20.7% of what is published is the graph" in printed
    assert "too little: half of the graph would show with epsilon=" in printed
    assert load("g").manifest["mechanism"]["rows"] == 119
    facts = json.loads(run(f"release graph edges.parquet --epsilon 60 --delta 1e-6 {options} --out h --json", capsys))
    assert facts["verdict"]["enough"]
    assert not any("only" in line for line in facts["manifest"]["warnings"])


@pytest.mark.usefixtures("flags")
@pytest.mark.parametrize(
    ("line", "says"),
    [
        (f"plan {PROMISE}", "exactly one"),
        (f"plan --columns 5 {PROMISE} --plot plan.pdf", ".svg or .html"),
        (f"release sketch flags.parquet --schema flags.toml {PROMISE} --noise gaussian --out r", "delta > 0"),
        (f"release sketch flags.parquet --schema flags.toml {PROMISE} --choose-dimension 9 --out r", "below epsilon"),
        ("release graph edges.parquet --epsilon 1 --out r", "rows"),
        ("release graph edges.parquet --epsilon 1 --mechanism noise --rows 5 --out r", "need --mechanism sketch"),
        ("release graph nothing.parquet --epsilon 1 --delta 1e-6 --rows 5 --out r", "nothing.parquet"),
        ("feasible 0", "scales[0]"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_and_nothing_is_left(line, says, capsys, tmp_path):
    assert main(line.split()) == 2
    complaint = capsys.readouterr().err
    assert says in complaint
    assert complaint.count("\n") == 1
    assert not (tmp_path / "r").exists()


def ended_by(error, monkeypatch, capsys):
    """What the command says of a release that ends so."""

    def ending(*_, **__):
        raise error

    monkeypatch.setattr("sfumato.pipeline.release.release_to", ending)
    assert main(f"release covariance flags.parquet --schema flags.toml {PROMISE} --out r".split()) == 2
    return capsys.readouterr().err


@pytest.mark.usefixtures("flags")
def test_what_is_too_large_is_said_as_it_is(capsys, monkeypatch):
    too_many = ended_by(RangeError("more rows than 64-bit sums can hold"), monkeypatch, capsys)
    assert too_many == "sfumato: more rows than 64-bit sums can hold\n"
    said = ended_by(OverflowError(34, "Numerical result out of range"), monkeypatch, capsys)
    assert "an extreme epsilon, bound or size" in said
    assert "64-bit sums" not in said

    def late():
        raise OverflowError("timestamp too large to convert to C _PyTime_t")

    monkeypatch.setattr("sfumato.cli.time.time", late)
    said = ended_by(OverflowError("timestamp too large"), monkeypatch, capsys)
    assert said == "sfumato: the system clock is past the year 2262, which Python cannot represent: correct the clock\n"


@pytest.mark.parametrize(("module", "refused"), [("sklearn", True), ("sfumato.gone", False)])
def test_experiments_that_need_a_package_say_so_and_an_error_of_ours_is_shown(module, refused, monkeypatch, capsys):
    def absent(_):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(reproduce, "importlib", SimpleNamespace(import_module=absent))
    if refused:
        assert main(["reproduce"]) == 2
        assert "the experiments need sklearn" in capsys.readouterr().err
    else:
        with pytest.raises(ModuleNotFoundError, match=module):
            main(["reproduce"])


@pytest.mark.usefixtures("flags")
@pytest.mark.parametrize("epsilon", ["1e-5", "1e-160", "1e-300"])
def test_a_huge_noise_scale_is_refused_by_the_epsilon_that_asks_for_it(epsilon, capsys):
    assert main(f"release synthetic flags.parquet --schema flags.toml --epsilon {epsilon} --out r".split()) == 2
    said = capsys.readouterr().err
    assert "64-bit sums" not in said
    assert f"epsilon={float(epsilon)}" in said


@pytest.mark.parametrize(
    ("raw", "error", "ends", "limits", "said"),
    [
        (29.0, 14.0, (1.0, 57.0), (0.0, 3.0), "give 29 +- 14, outside what is possible (0 to 3): the noise hides"),
        (708.0, 3.0, (700.0, 710.0), (0.0, 5.0), "give 708 +- 3, outside what is possible (0 to 5): the noise hides"),
        (-2.0, 3.0, (-8.0, 4.0), (0.0, 650.0), "give -2 +- 3, outside what is possible (0 to 650): the nearest that"),
        (-2.0, 3.0, (-8.0, 4.0), (0.0, math.inf), "outside what is possible (0 or more): the nearest that"),
        (2.0, 3.0, (-4.0, 8.0), (-math.inf, 1.0), "outside what is possible (at most 1): the nearest that"),
        (2.0, 3.0, (-4.0, 8.0), (0.0, 3.0), None),
        (0.0, 3.0, (-4.0, 8.0), (0.0, 3.0), None),
        (math.nan, math.nan, (math.nan, math.nan), (0.0, 3.0), None),
    ],
)
def test_an_estimate_outside_of_what_is_possible_does_not_look_exact(capsys, raw, error, ends, limits, said):
    found = Estimate(raw, error, "noise", lambda _: ends, Quantity("squared distance", *limits))
    print_bar(SimpleNamespace(level=0.95, json=False), "Squared distance", found)
    line = capsys.readouterr().out.splitlines()[1]
    assert line.startswith("The released numbers") == (said is not None)
    assert said is None or said in line
    print_bar(SimpleNamespace(level=0.95, json=True), "Squared distance", found)
    assert set(json.loads(capsys.readouterr().out)) == {"value", "standard_error", "low", "high", "unit", "covers"}
