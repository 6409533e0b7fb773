"""Questions with aggregates: what a text asks, and what newcomers and strangers are told."""

import datetime as dt

import pytest

from sfumato.errors import ParameterError
from sfumato.queries.questions import EXTREME, MOST_AGGREGATES, parse_question
from sfumato.tables.columns import Category, Date, Flag, Id, Integer, Ordinal, Real, Set, Vector
from sfumato.tables.schema import Schema

SCHEMA = Schema(
    (
        Id("name"),
        Integer("age", 0, 120),
        Real("blood pressure", 50, 250),
        Flag("smoker"),
        Category("city", ("Bern", "Basel")),
        Ordinal("stage", ("a", "b", "c")),
        Date("joined", dt.date(2020, 1, 1), dt.date(2020, 12, 31)),
        Set("basket", ("milk", "eggs"), most=2),
        Vector("face", 3, -1, 1),
        Integer("salary", 0, 1_000_000),
    )
)


def asked(text):
    return parse_question(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "names", "columns"),
    [
        ("count", ["count"], [None]),
        ("COUNT(*)", ["count"], [None]),
        ("count()", ["count"], [None]),
        ("Mean(age)", ["mean"], ["age"]),
        ("avg(age), var(age), variance(smoker)", ["mean", "variance", "variance"], ["age", "age", "smoker"]),
        ("sum(`blood pressure`)", ["sum"], ["blood pressure"]),
        ("median(joined), min(age), max(stage)", ["quantile"] * 3, ["joined", "age", "stage"]),
        ("histogram(age, 10), top(city)", ["histogram", "top"], ["age", "city"]),
    ],
)
def test_aggregates_are_read(text, names, columns):
    found = asked(text)
    assert [aggregate.name for aggregate in found.aggregates] == names
    assert [aggregate.column and aggregate.column.name for aggregate in found.aggregates] == columns
    assert (found.where, found.by, found.plain, found.groups) == (None, (), False, 1)


def test_a_condition_alone_counts_records():
    found = asked("age >= 40 and smoker")
    assert found.plain
    assert [aggregate.name for aggregate in found.aggregates] == ["count"]
    grouped = asked("age >= 40 by city")
    assert not grouped.plain
    assert grouped.where.text == "age >= 40"


@pytest.mark.parametrize("by", ["by", "BY", "group by", "GROUP BY"])
def test_conditions_and_groups_follow(by):
    assert asked(f"count {by} city").groups == 3
    found = asked(f"mean(age), count where smoker or age < 3 {by} city, stage, smoker")
    assert found.where.text == "smoker or age < 3"
    assert [axis.name for axis in found.by] == ["city", "stage", "smoker"]
    assert found.groups == 3 * 3 * 2  # cells that the schema does not list are one more level of a category
    assert [column.name for column in found.columns] == ["age", "smoker", "city", "stage"]


def test_numbers_of_aggregates():
    assert asked("quantile(age, 0.25 0.5 0.75)").aggregates[0].orders == (0.25, 0.5, 0.75)
    assert asked("quantile(age, 0.25, 0.5)").aggregates[0].orders == (0.25, 0.5)
    assert asked("min(age), max(age)").aggregates[1].orders == (1 - EXTREME,)
    assert asked("top(city, 1)").aggregates[0].most == 1
    assert asked("top(city)").aggregates[0].most == 5
    assert asked("histogram(age, 6)").aggregates[0].axis.size == 6
    assert asked("histogram(age, 18 40 65)").aggregates[0].axis.size == 4
    assert asked("histogram(city)").aggregates[0].axis.size == 3
    assert asked("histogram(salary)").aggregates[0].axis.size == 10
    assert asked("histogram(joined, 12)").aggregates[0].axis.size == 12


FIRST_TRIES = {  # what a newcomer may write first, and what the line that refuses it says
    "mean(agee)": "no column 'agee'; near it: 'age'",
    "mean(Age)": "no column 'Age'; near it: 'age'",
    "avg age": r"in parentheses: avg\(age\)",
    "mean age by city": r"in parentheses: mean\(age\)",
    "count smoker": "write 'count where smoker' or 'count by smoker'",
    "mean by city": r"mean needs a column in parentheses: mean\(age\)",
    "select avg(age) from people": "this looks like SQL, which `sfumato sql` and Session.sql answer",
    "by city": "write 'count by city'",
    "count(age)": "count takes no column, it counts records",
    "stddev(age)": "no column .stddev., nor is it an aggregate: these are count, sum, mean",
    "mean(*)": r"'\*' stands where a column should be",
    "mean()": "stands where a column should be",
    "mean(city)": "mean is of columns of kind real, integer, flag; 'city' is of kind category",
    "quantile(city, 0.5)": "kind real, integer, ordinal, date; 'city'",
    "mean(name)": "is the id of the rows",
    "mean(face)": "is a vector",
    "mean(basket)": "of kind set",
    "count by joined": "groups go by columns of kind flag, category, ordinal or integer",
    "count by `blood pressure`": "use histogram, or a condition",
    "count by age, age": "'age' twice",
    "count by": "the query ends where|stands where a column should be",
    "count where": "the query ends where",
    "count group city": "the by of group by",
    "mean(age) by city where smoker": "'where' stands where",
    "count, age > 40": "stands where another of count",
    "mean(age) count": "'count' stands where where, by, or the end",
    "mean(age, 3)": "mean takes a column alone",
    "mean(age + 1)": r"'\+' stands where '\)'",
    "mean(age)/2": "'/' means nothing",
    "quantile(age)": "quantile takes a column and orders between 0 and 1",
    "quantile(age, 25)": "strictly between 0 and 1, got '25'",
    "top(city, 0)": "one whole number",
    "top(city, 1 2)": "one whole number",
    "top(city, x)": "one whole number",
    "histogram(city, 3)": "has values and not bins",
    "histogram(age, 50 40)": "must rise strictly",
    "age": "compare it with something",
    "": "the query is empty",
}
HOSTILE = {
    "digits": f"histogram(age, {'9' * 5000})",
    "digits of a top": f"top(city, {'9' * 5000})",
    "a huge order": "quantile(age, 1e999)",
    "a huge cut": f"histogram(age, 1e{'9' * 50} 3)",
    "many bins": "histogram(age, 999999999)",
    "many numbers": f"quantile(age, {'.5 ' * 3000})",
    "many aggregates": ", ".join(["count"] * (MOST_AGGREGATES + 1)),
    "many groups": "count by salary",
    "products of groups": "count by age, salary",
    "a deep condition": "count where " + "(" * 5000 + "smoker",
    "controls": "count where city == '\x1b[31m\n\x00'",
    "controls outside": "count where \x1b[31m",
    "a name of controls": "mean(`\x1b]0;x\x07`)",
    "directions": "mean(\u202e)",
    "long names": f"mean({'a' * 9000})",
    "a call": "__import__('os')",
}


@pytest.mark.parametrize("text", FIRST_TRIES)
def test_a_first_try_is_told_what_to_write(text):
    with pytest.raises(ParameterError, match=FIRST_TRIES[text]):
        asked(text)


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_texts_are_refused_in_one_short_line(case):
    with pytest.raises(ParameterError) as caught:
        asked(HOSTILE[case])
    told = str(caught.value)
    assert told.isprintable()
    assert told.isascii()
    assert len(told) < 400


def test_what_is_no_text_is_refused():
    with pytest.raises(ParameterError, match="a question is a text such as 'mean\\(age\\) by sex', got a int"):
        asked(3)


def test_columns_that_are_called_as_words_of_the_language():
    schema = Schema((Flag("count"), Integer("mean", 0, 9), Flag("by"), Flag("where"), Flag("select"), Flag("group")))
    assert parse_question("count", schema).plain  # the flag
    assert parse_question("count(*)", schema).aggregates[0].column is None
    assert parse_question("mean(mean) where select by by, where", schema).groups == 4
    assert parse_question("select", schema).plain
    assert parse_question("count() where group by group", schema).groups == 2
