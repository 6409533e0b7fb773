"""Histograms in the analyst's hands: labelled counts, questions, and intervals that cover."""

import math

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, ReleaseError
from sfumato.randomness.secret import Secret
from sfumato.releases.histogram import HistogramRelease

SCHEMA = sf.Schema(
    [
        sf.Integer("age", 0, 99, missing="level"),
        sf.Category("sex", ["F", "M"]),
        sf.Real("income", 0, 100),
        sf.Date("day", "2020-01-01", "2020-12-31"),
        sf.Flag("count"),
    ]
)
ROWS = 400


def people(rows=ROWS):
    luck = np.random.default_rng(5)
    return pa.table(
        {
            "age": pa.array(luck.integers(0, 100, rows), mask=luck.random(rows) < 0.1),
            "sex": luck.choice(["F", "M"], rows),
            "income": np.where(luck.random(rows) < 0.2, 0.0, luck.uniform(0, 100, rows)),
            "day": luck.choice(np.array(["2020-02-03", "2020-11-30"]), rows),
            "count": luck.random(rows) < 0.5,
        }
    )


def made(tables=None, noise="laplace", neighbours="replace", epsilon=1.0, seed=1, **more):
    promise = sf.Guarantee(epsilon=epsilon, delta=1e-6 if noise == "gaussian" else 0.0, neighbours=neighbours)
    recipe = sf.Histogram(tables, noise=noise, **more)
    return sf.release(people(), schema=SCHEMA, mechanism=recipe, guarantee=promise, secret=Secret.for_testing(seed))


def nearly_exact(tables=None, **more):
    """Noise of at most a hundredth of a record."""
    return made(tables, epsilon=1e4, **more)


def test_counts_are_labelled_by_what_the_cells_hold():
    found = nearly_exact((("sex", "age"), ("income",), ("day",), ("count",)), bins={"age": [50], "income": 4, "day": 2})
    by_both = found.counts("sex", "age")
    assert by_both.column_names == ["sex", "age", "count", "standard_error", "low", "high"]
    assert by_both["age"].to_pylist()[:3] == ["0 to 49", "50 to 99", None]
    assert by_both["sex"].to_pylist() == ["F"] * 3 + ["M"] * 3 + [None] * 3
    table = people().to_pandas()
    women = (table.sex == "F") & (table.age < 50)
    assert by_both["count"][0].as_py() == pytest.approx(women.sum(), abs=0.5)
    assert found.counts("income")["income"].to_pylist() == ["[0, 25)", "[25, 50)", "[50, 75)", "[75, 100]"]
    assert found.counts("day")["day"].to_pylist() == ["2020-01-01 to 2020-07-01", "2020-07-02 to 2020-12-31"]
    flags = found.counts("count")
    assert flags.column_names == ["count", "_count", "standard_error", "low", "high"]
    assert flags["count"].to_pylist() == [False, True]
    assert sum(flags["_count"].to_pylist()) == pytest.approx(ROWS, abs=0.5)


def test_a_value_of_its_own_is_a_cell():
    found = nearly_exact((("income",),)).counts()
    assert found["income"].to_pylist()[:2] == ["0", pytest.approx("(0, 0.0244141)")]
    zeros = (people()["income"].to_numpy() == 0).sum()
    assert found["count"][0].as_py() == pytest.approx(zeros, abs=0.5)


def test_other_columns_of_a_table_are_added_up():
    found = made((("age", "sex"), ("sex", "income")), noise="gaussian", seed=4)
    whole = found.counts("sex", "age").to_pandas()
    assert (
        found.counts("age")["count"].to_pylist()
        == whole.groupby("age", sort=False, dropna=False)["count"].sum().tolist()
    )
    one, two = (np.asarray(found.counts(*names)["standard_error"])[0] for names in (("age",), ("sex", "age")))
    assert one == pytest.approx(two * math.sqrt(3))


def test_questions_are_sums_of_cells():
    found = nearly_exact((("age", "sex"), ("age",)))
    table = people().to_pandas()
    for text, truth in (
        ("age >= 40", table.age >= 40),
        ("age = 17", table.age == 17),
        ("sex = 'F'", table.sex == "F"),
        ("not (sex = 'F') and age < 24", (table.sex == "M") & (table.age < 24)),
        ("age is missing", table.age.isna()),
    ):
        if text.startswith("not"):
            with pytest.raises(ParameterError, match="holds for a part of the level from 21 to 24"):
                found.count(text)
            continue
        assert found.count(text).value == pytest.approx(truth.sum(), abs=0.5), text
    assert found.count("age < 5 or age >= 5 or age is missing").value == ROWS


def test_the_table_with_the_least_noise_answers_and_the_smaller_side():
    found = made((("age",), ("age", "sex")), noise="gaussian")
    alone = np.asarray(found.counts("age")["standard_error"])[0]
    assert found.count("age >= 1").standard_error == pytest.approx(alone * math.sqrt(2))  # below 1, and missing
    assert found.count("age = 7").standard_error == pytest.approx(alone)
    protected = made((("age",),), neighbours="add-remove")
    one = np.asarray(protected.counts("age")["standard_error"])[0]
    assert protected.count("age >= 1").standard_error == pytest.approx(one * math.sqrt(99))


def test_what_no_table_holds_is_refused_by_what_there_is():
    found = made((("age",), ("sex", "income")))
    with pytest.raises(ReleaseError, match="no table of this release holds 'age' and 'sex' together"):
        found.count("age > 3 and sex = 'F'")
    with pytest.raises(ReleaseError, match="it has tables of 'age'; 'sex' and 'income'"):
        found.counts("age", "sex")
    with pytest.raises(ParameterError, match="name different columns"):
        found.counts()
    with pytest.raises(ParameterError, match="part of the level"):
        found.count("income < 1.234")


def test_the_number_of_records_is_public_or_estimated():
    public = made()
    assert (public.rows, public.records, public.total().interval()) == (ROWS, ROWS, (ROWS, ROWS))
    found = made(neighbours="add-remove")
    assert "rows" not in found.manifest
    with pytest.raises(ReleaseError, match="protected"):
        _ = found.rows
    low, high = found.total().interval(0.999)
    assert low <= ROWS <= high
    assert repr(found).startswith("<histogram of ")
    each = [noisy.sum() for noisy in found.cells.split(found.array())]
    assert min(each) <= found.records <= max(each)


def test_a_release_is_the_same_after_it_was_written(tmp_path):
    found = made((("age",), ("sex", "income")), neighbours="add-remove")
    found.save(tmp_path / "h.release")
    again = sf.load(tmp_path / "h.release", allow_unprotected=True)
    assert isinstance(again, HistogramRelease)
    assert (again.array() == found.array()).all()
    assert again.cells == found.cells
    assert again.names == ("age", "sex", "income")
    assert again.counts("age").equals(found.counts("age"))


def covered(noise, neighbours, level, stretch=1.0, turns=14):
    """How often the intervals of counts and of sums hold the truth, and how many there are."""
    hits = []
    truth = nearly_exact((("age", "sex"), ("income",)), bins={"income": 20}).cells.counts(encoded())
    for seed in range(turns):
        found = made((("age", "sex"), ("income",)), noise, neighbours, seed=seed, bins={"income": 20})
        for tables, exact in zip(found.tables, found.cells.split(truth), strict=True):
            counts = found.counts(*tables, level=level)
            low, high = (np.asarray(counts[name]) for name in ("low", "high"))
            middle, half = (low + high) / 2, stretch * (high - low) / 2
            hits += (np.abs(exact - middle) <= half).tolist()
    return np.mean(hits), len(hits)


def encoded():
    (batch,) = people().combine_chunks().to_batches()
    return SCHEMA.encode(batch)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_intervals_cover_as_they_say(noise, neighbours):
    share, count = covered(noise, neighbours, 0.9)
    error = math.sqrt(0.9 * 0.1 / count)
    assert share >= 0.9 - 6.1 * error
    assert share <= 0.9 + 0.07  # whole numbers, and counts of 0
    broken, _ = covered(noise, neighbours, 0.9, stretch=0.8, turns=5)
    assert broken < 0.9 - 6.1 * error
