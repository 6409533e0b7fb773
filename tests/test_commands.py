"""Commands beyond the sketch: plans, regions, the other kinds of release, and questions that a kind cannot answer."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.cli import main
from sfumato.releases.loading import load

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
        ("responses", "", "80 records of 6 answers each, every one true with probability 0.982"),
        ("distances", "", "squared distances of all 3,160 pairs of 80 records, with laplace noise"),
        ("distances", "--delta 1e-6", "with gaussian noise"),
        ("components", "--dimension 2", "80 records as 2 numbers each"),
        ("sketch", "--choose-dimension 1", "1 of epsilon went to choosing"),
    ],
)
def test_every_kind_is_released_shown_and_asked(kind, options, says, capsys):
    printed = run(f"release {kind} flags.parquet --schema flags.toml {PROMISE} {options} --out r", capsys)
    assert says in printed
    assert says in run("show r", capsys)
    assert "squared distance" in run("estimate distance r 3 17", capsys)
    assert "squared distance" in run("estimate nearest r 3 --k 4", capsys)
    assert "group 1:" in run("estimate cluster r 2", capsys)
    assert load("r").manifest["kind"] == ("sketch" if kind == "sketch" else kind)


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
        ("plan --columns 300 --epsilon 1 --unit attribute --purpose nearest --distance 6", "hopeless at 6"),
        ("plan --columns 99999 --epsilon 4 --unit attribute --scales 3 300", "several sketches"),
        ("plan --purpose cuts --unit edge --epsilon 1 --delta 1e-6 --rows 500 --distance 900", "edge response"),
        ("regions --columns 100 --rows 200 --epsilon 4 --unit attribute --plot regions.svg", "a sketch beats noise"),
        ("feasible 1 2 --plot feasible.png", "as published"),
    ):
        assert expected in run(line, capsys)
        assert json.loads(run(f"{line} --json", capsys))
    for name in ("plan.svg", "regions.svg", "feasible.png"):
        assert Path(name).stat().st_size > 5000


@pytest.mark.usefixtures("flags")
@pytest.mark.parametrize(
    "options", ["", "--delta 1e-6 --neighbours add-remove --centred", "--delta 1e-6 --noise sketch"]
)
def test_a_covariance_is_released_and_asked(options, capsys):
    unit = "record" if options else "attribute"
    run(f"release covariance flags.parquet --schema flags.toml --epsilon 8 --unit {unit} {options} --out c", capsys)
    assert ("80 records" in run("show c", capsys)) == ("add-remove" not in options)
    assert run("estimate variance c f1 f2=-0.5", capsys).startswith("variance ")
    assert run("estimate components c 2", capsys).count("variance ") == 2
    assert len(json.loads(run("estimate components c 2 --json", capsys))["components"]) == 2
    assert main(["estimate", "variance", "c", "f1=x"]) == 2
    assert main(["estimate", "variance", "c", "nothing"]) == 2


@pytest.mark.usefixtures("flags")
def test_synthetic_records_are_released_and_other_questions_refused(capsys):
    line = "release synthetic flags.parquet --schema flags.toml --epsilon 50 --dimension 2 --label f5 --classes --out s"
    assert "80 synthetic rows of 2 numbers and a label (f5)" in run(line, capsys)
    assert load("s").labels().shape == (80,)
    assert main(["estimate", "distance", "s", "1", "2"]) == 2
    assert "it has no distance" in capsys.readouterr().err


@pytest.mark.usefixtures("flags")
def test_synthetic_records_are_made_in_one_pass_with_a_dimension_from_public_facts(capsys):
    """The number of records, 80, is what is expected where it is public; under add-remove it is not asked for."""
    line = "release synthetic flags.parquet --schema flags.toml --epsilon 1 --centring public --out"
    run(f"{line} s", capsys)
    run(f"{line} t --expected-rows 1000000", capsys)
    run(f"{line} u --neighbours add-remove", capsys)
    dimensions = [load(name).dimension for name in ("s", "t", "u")]
    assert dimensions[0] < dimensions[1] == dimensions[2]
    assert "moves the sums and the second moments by at most" in run("show s", capsys)


@pytest.mark.usefixtures("flags")
def test_a_graph_is_released_and_asked_for_cuts(capsys):
    printed = run("release graph edges.parquet --epsilon 8 --delta 1e-6 --rows 30 --vertices 20 --out g", capsys)
    assert "edge" in printed
    assert run("estimate cut g 1 2 3", capsys).startswith("cut ")
    run("release graph edges.parquet --epsilon 8 --vertices 20 --mechanism response --out h", capsys)
    low, high = (json.loads(run("estimate cut h 1 2 3 --json", capsys))[end] for end in ("low", "high"))
    assert low <= high
    assert main(["estimate", "distance", "g", "1", "2"]) == 2
    assert "it has no distance" in capsys.readouterr().err


@pytest.mark.usefixtures("flags")
@pytest.mark.parametrize(
    ("line", "says"),
    [
        (f"plan {PROMISE}", "exactly one"),
        (f"plan --columns 5 {PROMISE} --plot plan.pdf", ".svg, .png or .html"),
        (f"release sketch flags.parquet --schema flags.toml {PROMISE} --noise gaussian --out r", "delta > 0"),
        (f"release sketch flags.parquet --schema flags.toml {PROMISE} --choose-dimension 9 --out r", "below epsilon"),
        ("release graph edges.parquet --epsilon 1 --out r", "rows"),
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


@pytest.mark.usefixtures("flags")
def test_sums_beyond_64_bits_are_one_line_too(capsys, monkeypatch):
    def too_many(*_, **__):
        raise OverflowError

    monkeypatch.setattr("sfumato.pipeline.release_to", too_many)
    assert main(f"release covariance flags.parquet --schema flags.toml {PROMISE} --out r".split()) == 2
    assert "64-bit sums" in capsys.readouterr().err
