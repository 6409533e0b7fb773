"""Structural facts: what is refused, what they cut, and that no row breaks them."""

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.marginals.binning import Bins
from sfumato.marginals.forbidden import StructuralFacts
from sfumato.marginals.partition import Partition
from sfumato.tables.columns import Category, Flag, Integer, Real, Set
from sfumato.tables.schema import Schema

SCHEMA = Schema(
    (
        Integer("age", 0, 99),
        Real("income", 0, 1000),
        Category("job", ("none", "clerk", "smith"), missing="none"),
        Flag("member"),
        Set("goods", ("milk", "wine", "salt"), most=2),
        Set("hashed", buckets=4, most=2),
        Integer("steps", 0, 100_000),
    )
)


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        ("aeg < 15", "forbid: .*no column 'aeg'; near it: 'age'"),
        ("age < 15 and", "forbid: "),
        ("age < 15 and income > 0 and job == 'smith' and member", "is about 4 columns or items: at most 3"),
        ("age >= 0", "holds for every record, so that none could exist"),
        ("true", "holds for every record"),
        ("age < 15 and false", "holds for no record whatever: leave it out"),
        ("age > 300 and member", "holds for no record whatever"),
        ("hashed contains 'milk'", "items of 'hashed' are hashed"),
        ("not goods contains 'milk' and age > 3", "only what a record has can be forbidden, not what it lacks"),
    ],
)
def test_a_fact_that_cannot_be_kept_is_refused(fact, said):
    with pytest.raises(ParameterError, match=said) as error:
        StructuralFacts.of(SCHEMA, [fact])
    assert "\n" not in str(error.value)


def test_facts_that_together_leave_nothing_are_refused():
    together = [
        "member and age < 50",
        "member and age >= 50",
        "not member and income > 3",
        "not member and income <= 3",
    ]
    with pytest.raises(ParameterError, match="together leave no record"):
        StructuralFacts.of(SCHEMA, together)
    assert len(StructuralFacts.of(SCHEMA, together[:3]).questions) == 3


def test_facts_that_relate_too_much_are_refused():
    levels = tuple(f"level {i}" for i in range(400))
    schema = Schema(tuple(Category(name, levels) for name in "abc"))
    with pytest.raises(ParameterError, match="too many levels: state fewer facts"):
        StructuralFacts.of(schema, ["a == 'level 1' and b == 'level 2' and c == 'level 3'"])


def test_only_cuts_that_the_schema_does_not_give_are_added():
    facts = StructuralFacts.of(SCHEMA, ["age < 15 and income > 123.4", "steps == 777 or income >= 123.4"])
    assert facts.cuts == {"income": (123.4, np.nextafter(123.4, 1000)), "steps": (777.0, 778.0)}
    assert facts.partition.sizes == Partition.of(SCHEMA, facts.cuts).sizes
    assert StructuralFacts.of(SCHEMA, []).cuts == {}


def test_cells_that_a_fact_tells_apart_stay_apart():
    facts = StructuralFacts.of(SCHEMA, ["age between 20 and 29 and member", "age < 15 and job != 'none'"])
    apart = facts.apart(0)
    assert len(set(apart)) == 3
    assert apart[14] != apart[15] == apart[19] != apart[20] == apart[29] != apart[30] == apart[15]
    assert facts.apart(1) is None


def test_forbidden_tables_are_where_the_fact_holds():
    facts = StructuralFacts.of(SCHEMA, ["age < 15 and (job != 'none' or member)"])
    bins = [Bins.of([[cell] for cell in range(size)], np.ones(size), 0.0) for size in facts.partition.sizes]
    ((columns, cells),) = facts.forbidden(bins)
    age, job, member = np.ix_(range(100), range(3), range(2))
    assert columns == (0, 2, 3)
    assert np.array_equal(cells, (age < 15) & ((job != 0) | (member == 1)))
    bins[0] = Bins.of([list(range(100))], np.ones(100), 0.0)
    with pytest.raises(ParameterError, match="keep apart"):
        facts.forbidden(bins)
