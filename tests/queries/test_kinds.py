"""Questions about every kind of column: what they mean cell by cell, what is refused, and the levels of a domain."""

import math
from datetime import date

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.queries.domain import Domain
from sfumato.queries.histogram import SyntheticHistogram
from sfumato.queries.parser import parse
from sfumato.tables.columns import Category, Date, Flag, Integer, Ordinal, Set, Vector
from sfumato.tables.lists import bucket
from sfumato.tables.schema import Schema
from support.asked_kinds import CELLS, KINDS, LEVELS, table

BLOCK = KINDS.encode(table())


def holding(text):
    return np.flatnonzero(parse(text, KINDS).test(KINDS)(BLOCK)).tolist()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("age >= 40", [1, 2, 3, 5, 6, 7]),
        ("age == 40", [1, 3, 6]),
        ("age == 41", [2, 7]),
        ("age > 40.5", [2, 5, 7]),
        ("age in (39, 41)", [0, 2, 7]),
        ("age == 120", [5]),
        ("children >= 1", [1, 2, 4, 6, 7]),
        ("children < 100", [0, 1, 2, 4, 5, 6, 7]),
        ("children == 4", [7]),  # the encoded number of a missing cell is the middle of the bounds, 4.5
        ("children is missing", [3]),
        ("children is not missing", [0, 1, 2, 4, 5, 6, 7]),
        ("children IS NOT MISSING and children != 0", [1, 2, 4, 6, 7]),
        ("children != 0", [1, 2, 3, 4, 6, 7]),
        ("not children >= 0", [3]),
        ("income < 10 or income >= 10", [0, 1, 3, 4, 5, 6, 7]),
        ("income == 10", [1]),
        ("income != 10", [0, 2, 3, 4, 5, 6, 7]),
        ('education >= "HS-grad"', [1, 2, 3, 4, 5, 6]),
        ('education == "PhD"', [3, 6]),
        ('"none" < education <= "Bachelors"', [1, 2, 4, 5]),
        ('education in ("none", "PhD")', [0, 3, 6, 7]),
        ('education != "PhD"', [0, 1, 2, 4, 5, 7]),
        ("stage > 1", [1, 2, 5, 7]),
        ("stage is missing", [3, 4]),
        ("stage <= 3", [0, 1, 2, 5, 6, 7]),
        ("joined >= 2020-01-03", [2, 3, 4, 7]),
        ('joined >= "2020-01-03"', [2, 3, 4, 7]),
        ("2020-01-02 <= joined < 2020-01-04", [1, 2]),
        ("joined between 2020-01-02 and 2020-01-04", [1, 2, 3]),
        ("joined == 2020-01-01", [0, 5, 6]),
        ("week == 2020-01-08", [2, 3]),  # rounded to the nearest step
        ("week > 2020-01-07", [2, 3, 4, 7]),
        ("week is missing", [5]),
        ("seen >= 2020-01-01 04:00", [4, 5, 6]),
        ("seen >= 2020-01-01T04:00:00", [4, 5, 6]),
        ("seen >= '2020-01-01T06:00+02:00'", [4, 5, 6]),
        ("seen >= 2020-01-02", []),
        ("smoker", [0, 3, 6]),
        ("smoker == true", [0, 3, 6]),
        ("smoker == false", [1, 4, 7]),
        ("not smoker", [1, 2, 4, 5, 7]),
        ("smoker is missing", [2, 5]),
        ('city == "Bern"', [0, 4, 6]),
        ('city != "Bern"', [1, 2, 3, 5, 7]),
        ("city is missing", [2, 3, 7]),
        ("sex is missing", [2, 3]),
        ('basket contains "milk"', [1, 4, 7]),
        ('basket CONTAINS "eggs"', [2, 6, 7]),  # the third row of three items keeps the first two
        ('basket not contains "eggs"', [0, 1, 3, 4, 5]),
        ('not basket contains "eggs" and basket contains "bread"', [4]),
    ],
)
def test_questions_mean_what_they_say_of_every_kind(text, rows):
    assert holding(text) == rows


def test_hashed_items_are_told_apart_as_far_as_their_buckets():
    items = {bucket(b"a", 8)}
    rows = [i for i, cell in enumerate(CELLS["words"]) if {bucket(w.encode(), 8) for w in cell or ()} & items]
    assert holding('words contains "a"') == rows


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("face > 0", "is a vector, which cannot be asked about"),
        ("face is missing", "is a vector, which cannot be asked about"),
        ("age is missing", "keeps no missing cells of 'age': missing = \"level\" would keep them"),
        ("basket is missing", "keeps no missing cells"),
        ("children is", "'missing' should be"),
        ("children is not 4", "'missing' should be"),
        ("age contains 3", "contains nothing: use =="),
        ('basket == "milk"', "use contains"),
        ('basket in ("milk")', "use contains"),
        ('basket contains "tea"', "has no value 'tea'"),
        ("basket", "ask whether it contains something"),
        ("age >= 2020-01-01", "is a whole number, which is not compared with a date"),
        ("joined >= 5", "is a date, which is not compared with a number"),
        ("joined >= 2020-13-01", "compared with a date such as 2020-12-31, got '2020-13-01'"),
        ("joined >= 2020-01-01T10:00", "compared with a date such as 2020-12-31, got"),
        ("joined >= 2020-01-01x", "a date runs into what follows it"),
        ('joined >= "yesterday"', "compared with a date such as"),
        ('seen >= "noon"', "or with a time: 2020-12-31T10:30:00"),
        ('education >= "MBA"', "has no value 'MBA'"),
        ("2020-01-01", "where a comparison should be"),
        ("joined", "is a date: compare it with something"),
        ('city >= "Bern"', "has no order: use == or !="),
    ],
)
def test_what_a_kind_cannot_be_asked_is_refused_in_one_line(text, words):
    with pytest.raises(ParameterError) as caught:
        parse(text, KINDS)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_words_of_the_language_may_still_name_columns():
    schema = Schema((Integer("is", 0, 9, missing="level"), Integer("missing", 0, 9), Set("contains", ("a",), most=1)))
    for text in ("is > 3 and missing < 2", "is is missing", 'contains contains "a"', "missing == 3"):
        assert parse(text, schema).text == text


# ---- domains --------------------------------------------------------------------------------------------------------

ASKED = [
    "age >= 40",
    "age == 41",
    "age <= 60",
    "age < 40.5",
    "age > 119",
    "age == 7.5",
    "children >= 3",
    "children is missing",
    "income < 10",
    "income is not missing",
    'education >= "HS-grad"',
    'education != "PhD"',
    "stage == 2",
    "stage is missing",
    "joined >= 2020-01-03",
    "week > 2020-01-07",
    "week != 2020-01-08",
    "seen < 2020-01-01 04:00",
    "smoker",
    "smoker == false",
    'city == "Bern"',
    "city is missing",
    'basket contains "milk"',
    'basket contains "eggs"',
    "sex is missing",
]


@pytest.mark.parametrize("text", ASKED)
def test_a_row_satisfies_a_question_exactly_if_its_cell_does(text):
    asked = parse(text, KINDS)
    others = [parse(other, KINDS) for other in ASKED if other.split()[0] == text.split()[0]]
    for questions in ([asked], others):
        domain = Domain.of_questions(KINDS, questions)
        assert (domain.mask(asked)[domain.cells(BLOCK)] == asked.test(KINDS)(BLOCK)).all()


def axis(column, bins=None):
    schema = Schema((column,))
    return Domain.of(schema, bins=None if bins is None else {column.name: bins}).axis(column.name)


DAYS = Date("d", date(2020, 1, 1), date(2020, 1, 10))


@pytest.mark.parametrize(
    ("made", "levels"),
    [
        (axis(Integer("i", 1, 3)), (1, 2, 3)),
        (axis(Integer("i", 1, 3, missing="level")), (1, 2, 3, None)),
        (axis(Integer("i", 0, 9), 2), ((0, 4), (5, 9))),
        (axis(Integer("i", 0, 9), [3, 9]), ((0, 2), (3, 8), 9)),
        (axis(Integer("i", 0, 9), [2.5]), ((0, 2), (3, 9))),
        (axis(Ordinal("o", LEVELS)), LEVELS),
        (axis(Ordinal("o", LEVELS), ["Bachelors"]), (("none", "HS-grad"), ("Bachelors", "PhD"))),
        (axis(DAYS, 2), ((date(2020, 1, 1), date(2020, 1, 5)), (date(2020, 1, 6), date(2020, 1, 10)))),
        (axis(DAYS, ["2020-01-02"]), (date(2020, 1, 1), (date(2020, 1, 2), date(2020, 1, 10)))),
        (axis(DAYS, [date(2020, 1, 10)]), ((date(2020, 1, 1), date(2020, 1, 9)), date(2020, 1, 10))),
        (axis(Flag("f", missing="level")), (False, True, None)),
        (axis(Category("c", ("x", "y"), missing="level")), ("x", "y", None)),
        (axis(Set("s", ("a", "b", "c"), most=1), ["a", "c"]), tuple(map(frozenset, ("", "a", "c")))),
        (axis(Set("s", ("a", "b"), most=2), ["b", "a"]), tuple(map(frozenset, ("", "a", "b", "ab")))),
    ],
)
def test_levels_say_what_they_stand_for(made, levels):
    assert made.levels == levels
    assert made.size == len(levels)
    assert made.codes(made.encoded()).tolist() == list(range(made.size))


@pytest.mark.parametrize(
    ("column", "bins", "words"),
    [
        (DAYS, None, "'d' is a date: say how to cut it"),
        (DAYS, [3], "a list of dates"),
        (DAYS, ["2021-01-01"], "rise strictly"),
        (DAYS, 11, "rise strictly"),
        (Integer("i", 0, 1 << 40), None, "say how to cut it"),
        (Integer("i", 0, 3), 5, "rise strictly"),
        (Integer("i", 0, 3), ["1"], "a list of cuts"),
        (Integer("i", 0, 3), [math.inf], "rise strictly"),
        (Ordinal("o", LEVELS), ["MBA"], "a list of its values"),
        (Set("s", ("a", "b"), most=1), None, "list the items to ask about"),
        (Set("s", ("a", "b"), most=1), 2, "list the items to ask about"),
        (Set("s", ("a", "b"), most=1), ["z"], "item must be one of"),
        (Set("s", tuple(map(str, range(60))), most=30), list(range(60)), "too many combinations"),
        (Vector("v", 2, 0, 1), None, "is a vector, which has no levels"),
        (Flag("f"), 2, "got bins for 'f'"),
    ],
)
def test_what_has_no_levels_is_refused(column, bins, words):
    with pytest.raises(ParameterError, match=words):
        axis(column, bins)


@pytest.mark.parametrize(
    ("column", "bins", "text", "words"),
    [
        (Integer("i", 0, 9), [5], "i >= 6", "'i' >= 6 holds for a part of the level from 5 to 9"),
        (Integer("i", 0, 9), [5], "i <= 5", "holds for a part of the level from 5 to 9"),
        (DAYS, [date(2020, 1, 5)], "d < 2020-01-07", "'d' < 2020-01-07 holds for a part of the level from 2020-01-05"),
        (
            Ordinal("o", LEVELS),
            ["PhD"],
            'o == "none"',
            "'o' == none holds for a part of the level from none to Bachelors",
        ),
        (Set("s", ("a", "b"), most=1), ["a"], 's contains "b"', "no level of the domain"),
    ],
)
def test_a_question_about_a_part_of_a_level_is_refused(column, bins, text, words):
    schema = Schema((column,))
    with pytest.raises(ParameterError, match=words):
        Domain.of(schema, bins={column.name: bins}).mask(parse(text, schema))


def test_a_whole_number_between_two_of_them_cuts_no_level():
    schema = Schema((Integer("i", 0, 9),))
    domain = Domain.of(schema, bins={"i": [5]})
    assert domain.mask(parse("i > 4.5", schema)).tolist() == [False, True]
    assert domain.mask(parse("i <= 4", schema)).tolist() == [True, False]
    assert domain.mask(parse("i == 2.5", schema)).tolist() == [False, False]


def test_a_histogram_names_levels_of_every_kind():
    schema = Schema((Integer("i", 0, 9, missing="level"), Set("s", ("b", "a"), most=2), DAYS))
    domain = Domain.of(schema, bins={"i": 2, "s": ["a", "b"], "d": 1})
    made = SyntheticHistogram(domain, np.ones(domain.size)).table().to_pydict()
    assert set(made["i"]) == {"0 to 4", "5 to 9", None}
    assert set(made["s"]) == {"{}", "{a}", "{b}", "{a, b}"}
    assert set(made["d"]) == {"2020-01-01 to 2020-01-10"}


# ---- privacy --------------------------------------------------------------------------------------------------------

HOSTILE = {
    "age": [None, 1e300, "x"], "children": [None, -1, 4.5], "joined": [None, "2020-02-30", date(1, 1, 1)],
    "smoker": [None, "maybe", True], "basket": [None, ["milk"] * 50, ["milk", None, "bread", "eggs"]],
    "stage": [None, 99, "2"], "week": [None, "never", "2020-01-04"],
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_one_record_moves_one_cell_and_every_answer_by_at_most_one(name):
    """Neighbours of every kind: the other records fall where they fell."""
    asked = [parse(text, KINDS) for text in ASKED if text.split()[0] == name]
    domain = Domain.of_questions(KINDS, asked)
    for cell in HOSTILE[name]:
        cells = [str(c) if isinstance(cell, str) and c is not None else c for c in CELLS[name]]
        before, after = (KINDS.encode(table(**{name: [first, *cells[1:]]})) for first in (cells[0], cell))
        one, two = domain.cells(before), domain.cells(after)
        assert (one[1:] == two[1:]).all()
        assert ((two >= 0) & (two < domain.size)).all()
        for question in asked:
            counts = [np.count_nonzero(question.test(KINDS)(block)) for block in (before, after)]
            assert abs(counts[0] - counts[1]) <= 1
