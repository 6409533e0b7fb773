"""Comparisons of a real table with a synthetic one: figures, the page, and the command."""

import json
import re
import stat
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from sfumato.cli import main
from sfumato.comparing import tally
from sfumato.comparing.judgement import NOT_PRIVATE
from sfumato.comparing.logistic import LogisticModel, area_under_curve, balanced_accuracy
from sfumato.comparing.quality import compare
from sfumato.comparing.quality_page import page
from sfumato.comparing.text_pictures import beside
from sfumato.errors import ParameterError
from sfumato.marginals.partition import Partition
from sfumato.pipeline.release import release
from sfumato.tables.columns import Category, Date, Flag, Integer, Ordinal, Real, Set
from sfumato.tables.schema import Schema
from support.kinds import PEOPLE, made, people
from support.synthetic_tables import RECORD, FixedTable, decoded


def synthetic(schema, table, **said):
    return release(table, schema=schema, mechanism=FixedTable(decoded(schema, table), said=said), guarantee=RECORD)


@pytest.fixture(scope="module")
def other():
    return synthetic(PEOPLE, people(120, seed=2), label="city")


def histogram(table, name, edges):
    return np.histogram(table.column(name).to_numpy(), edges)[0] / table.num_rows


def test_total_variation_is_that_of_equal_parts_and_levels(other):
    real, drawn = people(), people(120, seed=2)
    found = {c.name: c.distance for c in compare(real, other).columns}
    for name, high in (("age", 100), ("income", 10)):
        edges = np.linspace(0, high, 33)
        apart = abs(histogram(real, name, edges) - histogram(drawn, name, edges)).sum() / 2
        assert found[name] == pytest.approx(apart, abs=1e-12)
    smokers = [t.column("smoker").to_numpy(zero_copy_only=False).mean() for t in (real, drawn)]
    assert found["smoker"] == pytest.approx(abs(smokers[0] - smokers[1]), abs=1e-12)


def test_pairs_go_by_eight_parts_and_the_worst_come_first(other):
    real, drawn = people(), people(120, seed=2)
    quality = compare(real, other)
    assert quality.pairs == 6
    apart = [pair.distance for pair in quality.worst]
    assert apart == sorted(apart, reverse=True)
    pair = next(p for p in quality.worst if p.names == ("age", "income"))
    edges = np.linspace(0, 100, 9), np.linspace(0, 10, 9)
    shares = [
        np.histogram2d(t.column("age").to_numpy(), t.column("income").to_numpy(), edges)[0] / t.num_rows
        for t in (real, drawn)
    ]
    assert pair.distance == pytest.approx(abs(shares[0] - shares[1]).sum() / 2, abs=1e-12)
    assert quality.two_way == pytest.approx(np.mean(apart))


def test_a_table_beside_itself_is_no_different():
    quality = compare(people(), synthetic(PEOPLE, people()))
    assert quality.one_way == quality.two_way == 0
    assert quality.copies.synthetic == quality.rows[1]
    assert quality.copies.expected < 10  # few real rows are in the same cells
    assert quality.models == ()
    assert "no label" in quality.describe()


def test_copies_are_counted_beside_those_of_fresh_rows():
    schema = Schema([Integer("a", 0, 9), Flag("b")], scale="bounds")
    real = pa.table({"a": [1, 1, 2, 3], "b": [True, True, False, False]})
    drawn = pa.table({"a": [1, 2, 2, 9], "b": [True, True, False, False]})
    copies = compare(real, synthetic(schema, drawn)).copies
    assert copies.synthetic == 2  # (1, yes) and (2, no)
    assert copies.expected == 2.0  # half of the real rows have an equal


def test_models_and_propensity():
    quality = compare(people(3000, 5), synthetic(PEOPLE, people(3000, seed=6), label="city"))
    assert quality.label == "city"
    assert [m.model for m in quality.models] == ["logistic regression", "gradient boosting"]
    assert all(m.measure == "AUC" and m.real > 0.9 and m.synthetic > 0.9 for m in quality.models)
    assert abs(quality.propensity.auc - 0.5) < 0.05
    assert 0 <= quality.propensity.error < 0.25
    moved = people(3000, seed=6).set_column(0, "age", pa.array(np.full(3000, 99.0)))
    assert compare(people(3000, 5), synthetic(PEOPLE, moved)).propensity.auc > 0.95


def labelled(count, label):
    """Rows whose label is the larger of two columns, but for a few with another label."""
    rng = np.random.default_rng(count)
    a, b = rng.integers(0, 10, (2, count))
    classes = np.where(np.arange(count) < 3, label, np.where(a > b, "yes", "no"))
    return pa.table({"a": a, "b": b, "label": pa.array([None if c == "none" else c for c in classes])})


def test_held_out_rows_are_what_models_are_tested_on():
    schema = Schema([Integer("a", 0, 9), Integer("b", 0, 9), Category("label", ["yes", "no"])], scale="bounds")
    made = synthetic(schema, labelled(400, "yes"), label="label")
    turned = labelled(300, "no")
    turned = turned.set_column(
        2, "label", pa.array(["no" if c == "yes" else "yes" for c in turned["label"].to_pylist()])
    )
    known, wrong = (compare(labelled(500, "no"), made, held_out=rows) for rows in (labelled(300, "no"), turned))
    assert (known.held_out, compare(labelled(500, "no"), made).held_out) == (300, 0)
    assert all(m.synthetic > 0.9 and m.real > 0.9 for m in known.models)
    assert all(m.synthetic < 0.1 and m.real < 0.1 for m in wrong.models)
    assert "tested on 300 held-out real rows" in known.describe()
    assert "in neither table" in page(known)


def test_a_class_that_only_noise_made_is_not_trained_on():
    schema = Schema([Integer("a", 0, 9), Integer("b", 0, 9), Category("label", ["yes", "no"])], scale="bounds")
    quality = compare(labelled(20_000, "no"), synthetic(schema, labelled(19_000, "none"), label="label"))
    assert all(m.synthetic > 0.9 for m in quality.models)


@pytest.mark.parametrize("classes", [2, 3])
def test_logistic_regression_and_scores_agree_with_scikit_learn(classes):
    rng = np.random.default_rng(classes)
    rows = scipy.sparse.csr_matrix(rng.random((400, 5)) * (rng.random((400, 5)) < 0.5))
    truth = (rows @ rng.normal(size=5) + rng.normal(size=400) * 0.3 > 0).astype(int) + (rng.random(400) < 0.3) * (
        classes - 2
    )
    ours, theirs = LogisticModel.trained(rows, truth), LogisticRegression(max_iter=1000, tol=1e-8).fit(rows, truth)
    assert ours.classes.tolist() == theirs.classes_.tolist() == list(range(classes))
    assert ours.chances(rows) == pytest.approx(theirs.predict_proba(rows), abs=2e-3)
    score = np.round(ours.chances(rows)[:, 1], 1)  # with ties
    assert area_under_curve(truth == 1, score) == pytest.approx(roc_auc_score(truth == 1, score), abs=1e-12)
    found = ours.chances(rows).argmax(axis=1)
    assert balanced_accuracy(truth, found) == pytest.approx(balanced_accuracy_score(truth, found), abs=1e-12)


def test_another_label_can_be_chosen_and_a_number_is_halved(other):
    assert compare(people(), other, label="income").label == "income"
    with pytest.raises(ParameterError, match="label"):
        compare(people(), other, label="nobody")


def test_a_label_of_one_class_and_few_rows_are_said():
    drawn = people(60, 3).set_column(2, "smoker", pa.array([True] * 60))
    quality = compare(people(), synthetic(PEOPLE, drawn, label="smoker"))
    assert "single class of smoker" in quality.describe()
    assert "Single class" in page(quality) or "single class of smoker" in page(quality)
    assert "too few rows" in compare(people(2), synthetic(PEOPLE, people(2, 3))).describe()


def test_without_scikit_learn_the_rest_is_there(other, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    quality = compare(people(), other)
    assert [m.model for m in quality.models] == ["logistic regression"]
    assert quality.propensity is None
    assert "pip install" in quality.describe()
    assert quality.one_way > 0
    assert "pip install" in page(quality)


def test_a_comparison_is_the_same_every_time_and_samples_large_tables(other, monkeypatch):
    monkeypatch.setattr(tally, "SAMPLED", 50)
    assert compare(people(), other).to_dict() == compare(people(), other).to_dict()


def test_rows_are_sampled_evenly(monkeypatch):
    monkeypatch.setattr(tally, "SAMPLED", 40)
    schema = Schema([Integer("a", 0, 199)], scale="bounds")
    partition = Partition.of(schema)
    batches = pa.table({"a": np.arange(200)}).to_batches(max_chunksize=30)
    compared = tally.ComparedParts.of(partition, tally.fine_counts(partition, batches))
    seen = np.zeros(200)
    for seed in range(400):
        sample = tally.tally(compared, batches, seed).sample[0]
        assert len(np.unique(sample)) == 40
        seen[sample] += 1
    assert abs(seen - 80).max() < 45  # standard deviation 8


MIXED = Schema(
    [
        Real("weight", 0, 10, missing="level"),
        Integer("children", 0, 12),
        Ordinal("school", ["none", "some", "much"]),
        Date("born", "1950-01-01", "2000-12-31"),
        Category("<town>", [f"place {i}" for i in range(90)]),
        Set("hobbies", ["chess", "golf"], most=2),
    ],
    scale="bounds",
)


def mixed(seed, rows=300):
    rng = np.random.default_rng(seed)
    born = np.datetime64("1950-01-01") + rng.integers(0, 18000, rows)
    return pa.table(
        {
            "weight": pa.array([None if rng.random() < 0.2 else float(rng.gamma(2)) for _ in range(rows)]),
            "children": rng.poisson(1.5, rows).clip(0, 12),
            "school": rng.choice(["none", "some", "much"], rows),
            "born": pa.array(born.astype("datetime64[D]")),
            "<town>": [f"place {i}" for i in rng.zipf(1.6, rows) % 90],
            "hobbies": [[h for h in ("chess", "golf") if rng.random() < 0.3] for _ in range(rows)],
        }
    )


def test_every_kind_of_column_has_its_picture():
    quality = compare(mixed(1), synthetic(MIXED, mixed(2)))
    text = page(quality)
    columns = {c.name: c for c in quality.columns}
    assert set(columns) == {"weight", "children", "school", "born", "<town>", "hobbies: chess", "hobbies: golf"}
    real = mixed(1).column("weight").null_count / 300
    assert columns["weight"].missing[0] == pytest.approx(real)
    assert columns["children"].means[0][0] == pytest.approx(mixed(1).column("children").to_numpy().mean())
    assert columns["born"].parts.starts[0].startswith("195")
    assert "<town>" not in text
    assert "&lt;town&gt;" in text
    assert "others" in text


def test_the_page_is_marked_throughout_and_runs_nothing(other):
    text = page(compare(people(), other))
    assert text.index(NOT_PRIVATE) < text.index("<h1>")
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", text, re.DOTALL)
    assert len(captions) == 4 + 6
    assert all("Not private: real data." in caption for caption in captions)
    assert "<script" not in text
    assert "script-src" not in text
    assert "://" not in text
    identifiers = re.findall(r' id="([^"]+)"', text)
    assert len(identifiers) == len(set(identifiers))


def test_few_or_wrong_rows_are_refused(other):
    with pytest.raises(ParameterError, match="at least two rows"):
        compare(people(1), other)
    with pytest.raises(ParameterError, match="kind table"):
        compare(people(), made("synthetic"))


# ---- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch, other):
    monkeypatch.chdir(tmp_path)
    pc.write_csv(people(), "people.csv")
    other.save("people.release")
    return tmp_path


def test_the_command_writes_a_page_for_its_owner_and_prints_a_summary(folder, capsys):
    assert main(["compare", "people.csv", "people.release", "--out", "quality.html"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("One column: total variation 0.")
    assert lines[-1].endswith(NOT_PRIVATE)
    assert stat.S_IMODE((folder / "quality.html").stat().st_mode) == 0o600
    assert NOT_PRIVATE in (folder / "quality.html").read_text(encoding="utf-8")
    assert sorted(p.name for p in folder.iterdir()) == ["people.csv", "people.release", "quality.html"]


@pytest.mark.usefixtures("folder")
def test_the_command_refuses_to_overwrite_and_tells_json(capsys):
    line = "compare people.csv people.release --out quality.html --json"
    assert main(line.split()) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] == {"real": 157, "synthetic": 120}
    assert told["not_private"] == NOT_PRIVATE
    assert main(line.split()) == 2
    assert "already exists" in capsys.readouterr().err
    assert main([*line.split(), "--force"]) == 0
    assert main(["compare", "people.csv", "people.release", "--out", "quality.txt"]) == 2
    assert "comparison must end in .html" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_the_command_prints_columns_and_tests_models_on_rows_of_their_own(capsys):
    line = "compare people.csv people.release --out quality.html"
    assert main([*line.split(), "--held-out", "people.csv", "--show", "age", "city"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["age", "real", "synthetic"]
    assert "tested on 157 held-out real rows" in "".join(lines)
    assert main([*line.split(), "--force", "--show", "nobody"]) == 2
    assert "show must be one of" in capsys.readouterr().err
    assert main([*line.split(), "--force", "--epsilon", "1", "--show", "age"]) == 2


def test_columns_in_a_terminal_show_shares_of_neighbours_and_of_common_levels():
    columns = {c.name: c for c in compare(mixed(1), synthetic(MIXED, mixed(2))).columns}
    for column in columns.values():
        head, *lines = beside(column)
        assert head.split()[-2:] == ["real", "synthetic"]
        assert 2 <= len(lines) <= 10
        for place in (0, 1):
            total = sum(float(re.findall(r"([\d.]+)%", line)[place]) for line in lines)
            assert total == pytest.approx(100, abs=0.6)
    assert beside(columns["<town>"])[-1].startswith("83 others")  # one of them: missing
    assert beside(columns["weight"])[-1].startswith("missing")
    first = beside(columns["children"])[1]
    real = mixed(1).column("children").to_numpy()
    assert first.split()[:2] == ["0", f"{100 * (real == 0).mean():.1f}%"]
