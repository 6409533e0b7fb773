"""Facts that an owner states: no row of a synthetic table breaks them, whatever the data are."""

from datetime import date

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.queries.parser import parse
from sfumato.tables.columns import Category, Date, Flag, Integer, Ordinal, Real, Set
from sfumato.tables.schema import Schema

SCHEMA = Schema(
    (
        Integer("age", 0, 99, missing="level"),
        Real("income", 0, 1000),
        Category("job", ("none", "clerk", "smith")),
        Flag("member"),
        Ordinal("grade", ("low", "middle", "high")),
        Date("joined", date(2000, 1, 1), date(2020, 12, 31)),
        Set("goods", ("milk", "wine", "salt"), most=2),
    )
)
FACTS = [
    "age < 15 and income > 0",
    "not member and joined > 2003-05-06",
    "goods contains 'wine' and (age < 18 or age is missing)",
    "grade == 'high' and job in ('none', 'smith') and income < 333.3",
    "income == 500",
    "job is missing",
]


def records(rng, rows):
    """Records for which many facts do not hold."""
    goods = [[item for item in ("milk", "wine", "salt") if rng.random() < 0.4][:2] for _ in range(rows)]
    age = rng.integers(0, 100, rows)
    return pa.table(
        {
            "age": pa.array(age, mask=rng.random(rows) < 0.1),
            "income": np.where(rng.random(rows) < 0.2, 500.0, rng.uniform(0, 1000, rows)),
            "job": pa.array(rng.choice(["none", "clerk", "smith"], rows), mask=rng.random(rows) < 0.2),
            "member": age > 30,
            "grade": rng.choice(["low", "middle", "high"], rows),
            "joined": pa.array(
                [date(2000, 1, 1 + int(d)) if d < 28 else date(2011, 2, 3) for d in rng.integers(0, 60, rows)]
            ),
            "goods": goods,
        }
    )


def released(table, epsilon, recipe):
    guarantee = sf.Guarantee(epsilon=epsilon, delta=1e-6, unit="record")
    return sf.release(table, schema=SCHEMA, guarantee=guarantee, mechanism=recipe)


def broken(table):
    """For how many rows each fact does not hold, asked of the rows as they are read."""
    (batch,) = table.combine_chunks().to_batches()
    block = SCHEMA.encode(batch)
    return [int(parse(fact, SCHEMA).test(SCHEMA)(block).sum()) for fact in FACTS]


@pytest.mark.parametrize(("epsilon", "rounds", "label"), [(20.0, 0, None), (1.0, 2, "job"), (0.1, 1, "income")])
def test_no_row_breaks_a_fact(epsilon, rounds, label):
    table = records(np.random.default_rng(1), 1000)
    assert min(broken(table)) > 0
    made = released(table, epsilon, sf.Table(label, 4000, rounds=rounds, forbid=FACTS))
    assert broken(made.table()) == [0] * len(FACTS)
    assert made.manifest["mechanism"]["forbid"] == FACTS
    assert set(made.manifest["mechanism"]["cuts"]) == {"income", "joined"}


def test_without_facts_rows_are_as_the_records_are():
    """The test above can fail: at a large epsilon, and without facts, rows break them but for a single value."""
    table = records(np.random.default_rng(1), 1000)
    made = released(table, 20.0, sf.Table(rows=4000, rounds=0))
    assert [count > 0 for count in broken(made.table())] == [fact != "income == 500" for fact in FACTS]
    assert {"forbid", "cuts"}.isdisjoint(made.manifest["mechanism"])
