"""Questions to a synthetic table: probabilities, counts with error bars, more rows; saved and loaded."""

import json
import math

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, ReleaseError
from sfumato.queries.parser import parse
from sfumato.tables.columns import Category, Flag, Integer, Real
from sfumato.tables.schema import Schema

SCHEMA = Schema(
    (
        Integer("age", 0, 99),
        Category("job", ("none", "clerk", "smith"), missing="none"),
        Flag("member"),
        Real("income", 0, 1000),
    )
)
QUESTIONS = [
    "age > 40",
    "age < 18",
    "age between 30 and 49",
    "member",
    "job == 'smith'",
    "not member and job == 'clerk'",
    "income == 0",
]
FACT = "age < 15 and income > 0"


def people(rows=1500):
    rng = np.random.default_rng(0)
    age = np.clip(rng.normal(40, 18, rows).round(), 0, 99).astype(int)
    return pa.table(
        {
            "age": age,
            "job": rng.choice(["none", "clerk", "smith"], rows, p=[0.2, 0.5, 0.3]),
            "member": age + rng.normal(0, 20, rows) > 40,
            "income": np.where((rng.random(rows) < 0.3) | (age < 15), 0, rng.gamma(2, 100, rows).clip(0, 1000)),
        }
    )


def truth(table, text):
    (batch,) = table.combine_chunks().to_batches()
    return int(parse(text, SCHEMA).test(SCHEMA)(SCHEMA.encode(batch)).sum())


def released(**guarantee):
    promise = sf.Guarantee(**({"epsilon": 1.0, "delta": 1e-6, "unit": "record"} | guarantee))
    return sf.release(people(), schema=SCHEMA, guarantee=promise, mechanism=sf.Table(rows=200, rounds=0, forbid=[FACT]))


@pytest.fixture(scope="module")
def made():
    return released(epsilon=5.0)


def test_a_probability_agrees_with_many_rows(made):
    rows = made.sample(100_000, seed=1)
    for text in [*QUESTIONS, "age > 40 and member and income > 123.4", "not (job in ('none', 'clerk') or age == 40)"]:
        found = made.probability(text)
        assert abs(found - truth(rows, text) / 100_000) < 5 * math.sqrt(found * (1 - found) / 100_000), text
    assert abs(made.probability("age > 40") - truth(people(), "age > 40") / 1500) < 0.1
    assert made.probability(FACT) == 0


def test_any_number_of_rows_in_the_columns_of_the_table(made):
    assert made.sample(0).schema == made.table().schema
    assert made.sample(5, seed=3).equals(made.sample(5, seed=3))
    assert not made.sample(50, seed=3).equals(made.sample(50))
    assert made.sample(700_000, seed=0).num_rows == 700_000
    assert truth(made.sample(100_000), FACT) == 0
    for wrong in (-1, 1.5, 2**31):
        with pytest.raises(ParameterError, match="n"):
            made.sample(wrong)


def test_a_count_has_error_bars(made):
    for text in QUESTIONS:
        found, exact = made.count(text), truth(people(), text)
        assert abs(found.uncut - exact) < 6 * found.standard_error, text
        assert found.interval(1 - 1e-8)[0] <= exact <= found.interval(1 - 1e-8)[1]
        assert found.limits == (0, 1500)
    assert made.count("true").value == made.records == 1500
    with pytest.raises(ReleaseError, match="no error bars"):
        made.count("age > 40 and income > 123.4")


@pytest.mark.parametrize(
    "guarantee", [{"neighbours": "add-remove"}, {"delta": 0.0}, {"neighbours": "add-remove", "delta": 0.0}]
)
def test_counts_of_other_guarantees(guarantee):
    made = released(**guarantee)
    for text in [*QUESTIONS, "true"]:
        low, high = made.count(text).interval(1 - 1e-8)
        assert low <= truth(people(), text) <= high, text
    assert made.count("true").standard_error == 0 or made.guarantee.neighbours == "add-remove"


def test_questions_are_answered_alike_after_saving(made, tmp_path):
    made.save(tmp_path / "people.release")
    loaded = sf.load(tmp_path / "people.release")
    for text in QUESTIONS:
        assert loaded.probability(text) == made.probability(text)
        assert loaded.count(text).interval() == made.count(text).interval()
    assert loaded.sample(9, seed=2).equals(made.sample(9, seed=2))
    assert loaded.model().tree == made.model().tree


def test_a_question_is_checked_against_the_schema(made):
    for ask in (made.probability, made.count):
        with pytest.raises(ParameterError, match="no column 'aeg'; near it: 'age'"):
            ask("aeg > 40")


def test_cliques_that_are_no_tree_are_refused(made):
    facts = json.loads(json.dumps(made.manifest["mechanism"]))
    facts["cliques"] = [[0, 1], [1, 2], [2, 3], [0, 3]]
    sizes = [max(bins) + 1 for bins in facts["bins"]]
    beliefs = [np.full(sizes[a] * sizes[b], 1 / (sizes[a] * sizes[b])) for a, b in facts["cliques"]]
    shares = made.beside["model.parquet"][: sum(map(len, facts["bins"]))]
    beside = {**made.beside, "model.parquet": np.concatenate([shares, *beliefs])}
    forged = type(made)({**made.manifest, "mechanism": facts}, made.data, beside)
    with pytest.raises(ReleaseError, match="form no junction tree"):
        forged.probability("age > 40")
