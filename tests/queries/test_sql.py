"""SQL as questions: the same numbers as a database gives, and a refusal that names the part for all the rest."""

import contextlib
import datetime as dt
import random
import string
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import MissingDependency, ParameterError
from sfumato.queries import sql
from sfumato.queries.questions import parse_question
from sfumato.queries.sql import sql_question
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Date, Flag, Integer, Ordinal, Real
from sfumato.tables.schema import Schema
from support.asking import opened
from support.twins import always, secret_of

pytest.importorskip("sqlglot")

SCHEMA = Schema(
    (
        Integer("age", 0, 120, missing="level"),
        Flag("smoker", missing="level"),
        Flag("member"),
        Category("city", ("Bern", "O'Hara", 'a "b"'), missing="level"),
        Category("Region", ("north", "south")),
        Ordinal("stage", (1, 2, 3)),
        Date("joined", dt.date(2020, 1, 1), dt.date(2020, 12, 31), missing="level"),
        Real("blood pressure", 0, 300),
        Integer("count", 0, 9),
    )
)
RNG = random.Random(5)  # noqa: S311 - a test
ROWS = 400


def some(values, missing=0.2):
    return [None if RNG.random() < missing else RNG.choice(values) for _ in range(ROWS)]


TABLE = pa.table(
    {
        "age": some(range(121)),
        "smoker": some([True, False]),
        "member": some([True, False], 0),
        "city": some(["Bern", "O'Hara", 'a "b"']),
        "Region": some(["north", "south"]),  # without missing: NULL all the same
        "stage": some([1, 2, 3], 0),
        "joined": some([dt.date(2020, month, 9) for month in range(1, 13)]),
        "blood pressure": some(np.arange(0, 300, 0.5).tolist(), 0),
        "count": some(range(10), 0),
    }
)
ATOMS = [
    "smoker",
    "member",
    "age >= 40",
    "age <> 40",
    "100 > age",
    "age = 17",
    "age between 20 and 60",
    "age not in (1, 2, 3, 50)",
    "city = 'Bern'",
    "city <> 'O''Hara'",
    "city in ('Bern', 'a \"b\"')",
    "region = 'north'",
    "Region != 'south'",
    "joined >= date '2020-06-01'",
    "joined < '2020-03-01'",
    "joined > cast('2020-09-09' as date)",
    "age is null",
    "city is not null",
    "smoker is true",
    "smoker is not false",
    "smoker = true",
    "member = false",
    "stage <= 2",
    '"blood pressure" < 120.5',
    '"count" > -1',
    "people.age < 50",
    "true",
    "false",
]


def tree(depth):
    """A random condition."""
    if depth == 0:
        return RNG.choice(ATOMS)
    shape = RNG.choice(["not", "and", "or", "leaf"])
    if shape == "not":
        return f"not ({tree(depth - 1)})"
    if shape == "leaf":
        return tree(0)
    return "(" + f" {shape} ".join(tree(depth - 1) for _ in range(RNG.choice([2, 3]))) + ")"


@pytest.fixture
def silent(monkeypatch):
    """No noise, so that the numbers below it show."""
    monkeypatch.setattr(Secret, "fresh", lambda: secret_of(always(0)))


@pytest.fixture
def database():
    found = pytest.importorskip("duckdb").connect()
    found.register("people", TABLE)
    return found


def answers(ledger, texts):
    session = opened(ledger, TABLE, schema=SCHEMA)
    return session.ask_all([sql_question(text, SCHEMA) for text in texts], epsilon=0.001)


@pytest.mark.usefixtures("silent")
def test_conditions_hold_for_the_same_records_as_in_a_database(ledger, database):
    conditions = ATOMS + [f"not {atom}" for atom in ATOMS] + [tree(3) for _ in range(150)]
    texts = [f"select count(*) from people where {condition}" for condition in conditions]  # noqa: S608 - our own
    wanted = [database.execute(text).fetchone()[0] for text in texts]
    found = [answer.value for answer in answers(ledger, texts)]
    assert dict(zip(conditions, found, strict=True)) == dict(zip(conditions, wanted, strict=True))
    assert len(set(wanted)) > 50


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize(
    ("text", "rounding"),
    [
        ("select sum(age), avg(age), var_pop(age) from people", 0),
        ("select avg(age), sum(count) from people where stage = 1 and member", 0),
        ("select count(age) from people where member", 0),
        ("select count(age), avg(age) from people", 0),
        ("select count(member), sum(count) from people", 0),
        ('select avg("blood pressure"), var_pop("blood pressure") from people', 0.2),
    ],
)
def test_aggregates_are_those_of_a_database(ledger, database, text, rounding):
    wanted = database.execute(text.replace("sum(count)", 'sum("count")')).fetchone()
    found = opened(ledger, TABLE, schema=SCHEMA).sql(text, epsilon=1.0)
    assert np.atleast_1d(found.value) == pytest.approx([float(w) for w in wanted], abs=1e-9 + rounding)


@pytest.mark.usefixtures("silent")
def test_groups_are_those_of_a_database_and_all_of_the_schema(ledger, database):
    text = "select city, count(*) n, avg(age) from people where age > 100 group by city"
    table = opened(ledger, TABLE, schema=SCHEMA).sql(text, epsilon=1.0).table().to_pylist()
    wanted = {row[0]: row[1:] for row in database.execute(text).fetchall()}
    assert {row["city"]: row["value"] for row in table if row["aggregate"] == "n"} == {
        k: v[0] for k, v in wanted.items()
    }
    means = {row["city"]: row["value"] for row in table if row["aggregate"] == "avg(age)"}
    assert means == pytest.approx({k: v[1] for k, v in wanted.items()})
    assert list(means) == ["Bern", "O'Hara", 'a "b"', None]


SAME = {  # SQL, and the same question in our own language
    "select count(*) from t": "count()",
    "SELECT COUNT(1) FROM t;": "count()",
    "select avg(AGE) from t -- a comment": "mean(age)",
    "select region, var_pop(age) from t group by region": "variance(age) by Region",
    "select Region as r, variance(age) v from t group by r": "variance(age) by Region",
    "select smoker, region, sum(age) from t group by 2, smoker": "sum(age) by Region, smoker",
    "select sum(age) from db.people p where p.smoker": "sum(age) where smoker",
    "select quantile(age, 0.9), approx_quantile(age, 0.5) from t": "quantile(age, 0.9), quantile(age, 0.5)",
    "select quantile_cont(age, .1) from t": "quantile(age, 0.1)",
    "select percentile_cont(0.25) within group (order by joined) from t": "quantile(joined, 0.25)",
    "select percentile_disc(0.25) within group (order by stage) from t": "quantile(stage, 0.25)",
    "select median(age), min(joined), max(age) from t": "median(age), min(joined), max(age)",
    "select count(age) from t": "count() where age is not missing",
    "select count(member) from t": "count()",
    "select avg(count) from t where ((count)) > (3)": "mean(`count`) where `count` > 3",
    "select count(*) from t where member = 1 and smoker <> 0": "count() where member and (smoker == true)",
}


@pytest.mark.parametrize("text", SAME)
def test_sql_is_the_same_question(text):
    found, wanted = sql_question(text, SCHEMA), parse_question(SAME[text], SCHEMA)
    assert [(a.name, a.column, a.orders) for a in found.aggregates] == [
        (a.name, a.column, a.orders) for a in wanted.aggregates
    ]
    assert (found.where is None) == (wanted.where is None)
    assert [axis.name for axis in found.by] == [axis.name for axis in wanted.by]
    assert not found.plain


def test_aliases_are_labels_of_aggregates_and_groups(ledger):
    text = 'select city as "the city", avg(age) as mean_age, count(*) from t group by city'
    table = opened(ledger, TABLE, schema=SCHEMA).sql(text, epsilon=0.1).table()
    assert table.column_names == ["the city", "aggregate", "value", "standard_error", "low", "high"]
    assert set(table["aggregate"].to_pylist()) == {"mean_age", "count(*)"}


REFUSED = {
    "select count(*) from t join u using (age)": "JOIN: a question is about one table",
    "select count(*) from t, u": "JOIN",
    "select count(*) from (select * from t)": "FROM that is not the name of a table",
    "select count(*) from read_csv('/etc/passwd')": "FROM that is not the name of a table",
    "select count(*) from t tablesample (10)": "TABLESAMPLE",
    "select count(*)": "without FROM",
    "select count(*) from t where age > (select 1)": "a comparison with a subquery",
    "select count(*) from t where age in (select 1)": "IN with a subquery",
    "select count(*) from t where exists (select 1)": "EXISTS",
    "with x as (select 1) select count(*) from x": "WITH",
    "select count(*) from t union select 1": "UNION",
    "select region, count(*) from t group by region having count(*) > 5": "HAVING",
    "select region, count(*) from t group by region order by 2": "ORDER BY: sort the answer",
    "select count(*) from t limit 3": "LIMIT",
    "select count(*) from t offset 3": "OFFSET",
    "select distinct region, count(*) from t group by 1": "DISTINCT",
    "select count(distinct region) from t": "DISTINCT",
    "select avg(distinct age) from t": "DISTINCT",
    "select avg(age) over () from t": "OVER",
    "select avg(age) filter (where smoker) from t": "FILTER",
    "select avg(age + 1) from t": r"\+ \(arithmetic\)",
    "select 2 * avg(age) from t": r"\* \(arithmetic\)",
    "select sum(case when smoker then 1 end) from t": "CASE",
    "select stddev(age) from t": "STDDEV: ask VAR_POP",
    "select load_file(age) from t": "the function 'LOAD_FILE'",
    "select upper(city), count(*) from t group by upper(city)": "GROUP BY of something other than a column",
    "select region, count(*) from t group by cube (region)": "GROUP BY",
    "select region, count(*) from t group by rollup (region)": "GROUP BY",
    "select region, count(*) from t group by all": "GROUP BY ALL",
    "select region, count(*) from t group by 3": "has 2 items",
    "select region, count(*) from t group by region, region": "'Region' twice",
    "select city a, region a, count(*) from t group by 1, 2": "the same alias",
    "select region, count(*) from t": "'Region' outside of aggregates: add GROUP BY Region",
    "select region from t group by region": "without an aggregate",
    "select * from t": r"\* outside of count",
    "select age, 1 from t group by age": "a value where",
    "select count(*) from t where city like 'B%'": "LIKE",
    "select count(*) from t where age = null": "write IS NULL",
    "select count(*) from t where age + 1 > 3": "arithmetic",
    "select count(*) from t where age > count": "a comparison of two columns",
    "select count(*) from t where age::text = 'x'": "CAST",
    "select count(*) from t where joined > current_date": "CURRENT_DATE",
    "select count(*) from t where age > ?": "a parameter",
    "select count(*) from t where 1 = 1": "a comparison without a column",
    "select count(*) from t where 'x'": "a value where",
    "select count(*) from t where member is null": "keeps no missing cells",
    'select count(*) from t where city = "Bern"': "no column 'Bern'.*texts stand in single quotes",
    "select avg(agee) from t": "no column 'agee'; near it: 'age'",
    "select avg(u.age) from t": "a column of another table, 'u'",
    'select avg("AGE") from t': "no column 'AGE'",
    "select avg(city) from t": "avg is of columns of kind real, integer, flag",
    "select median(city) from t": "median is of columns of kind real, integer, ordinal, date",
    "select quantile(age, 2) from t": "strictly between 0 and 1",
    "select quantile(age, member) from t": "no number between 0 and 1",
    "select percentile_cont(0.1) within group (order by age desc) from t": "DESC",
    "select count(age), count(*) from t": "COUNT of a column beside aggregates of others",
    "select count(age, city) from t": "several columns",
    "select count(*) from t where city = 'Zug'": "no value 'Zug'",
    "select count(*) from t where age > 1e999": "beyond what a double holds",
    "select count(*) from t; drop table t": "2 statements",
    "select count(*) from t for update": "FOR UPDATE",
    "select count(*) into u from t": "INTO",
    "drop table t": "DROP",
    "exec xp_cmdshell 'ls'": "EXEC",
    "copy t to '/tmp/x'": "COPY",
    "pragma table_info(t)": "PRAGMA",
    "attach 'x.db'": "ATTACH",
    "": "an empty text",
    "-- nothing": "an empty text",
    "select": "without FROM",
    "select count(* from t": "line 1, column",
    "select count(*) from t where city = 'open": "cannot be parsed",
    "select count(*) from t where \x1b[31m": "cannot be parsed|no column",
    "select count(*) from t where " + "(" * 400 + "age" + ")" * 400: "cannot be parsed|too deep|deep in each other",
    "select count(*) from t where " + "not " * 900 + "member": "cannot be parsed|too deep|answer|compare",
    "select " + "9" * 20_000: "at most 10,000 characters",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:60])
def test_what_has_no_translation_is_refused_in_one_line_that_names_it(text):
    with pytest.raises(ParameterError, match=REFUSED[text]) as caught:
        sql_question(text, SCHEMA)
    told = str(caught.value)
    assert "\n" not in told
    assert told.isprintable()
    assert len(told) < 300


def test_names_that_differ_by_case_alone_must_be_quoted():
    schema = Schema((Flag("Member"), Flag("member"), Real("age", 0, 1)))
    assert sql_question('select count(*) from t where "Member"', schema).columns[0].name == "Member"
    assert sql_question("select count(*) from t where member", schema).columns[0].name == "member"
    with pytest.raises(ParameterError, match="'Member', 'member' differ by case only, so quote the name"):
        sql_question("select count(*) from t where MEMBER", schema)


def test_values_cannot_end_their_quotes():
    schema = Schema((Category("c", ('x" or true or c == "x', "y", "`", "a\\")), Real("age", 0, 1)))
    for value in schema.columns[0].values:
        text = f"""select count(*) from t where c = '{value}'"""  # noqa: S608 - that is the test
        (leaf,) = sql_question(text, schema).where.leaves
        assert leaf.places == (schema.columns[0].values.index(value),)
    name = 'a` or true or `b" c'
    odd = Schema((Flag(name), Flag("b")))
    text = 'select count(*) from t where "' + name.replace('"', '""') + '"'  # noqa: S608 - likewise
    assert [leaf.column.name for leaf in sql_question(text, odd).where.leaves] == [name]


def test_random_texts_are_refused_and_nothing_else_happens(capfd):
    words = [
        *string.punctuation,
        *ATOMS,
        "select",
        "from",
        "t",
        "where",
        "group by",
        "count(*)",
        "avg(age)",
        "1",
        "'x'",
    ]
    words += [
        "\0",
        "\u202e",
        "\n",
        "é",
        "case",
        "end",
        "interval",
        "array[1]",
        "x.y.z",
        "{",
        "@v",
        ":p",
        "$$a$$",
        "0x1f",
    ]
    rng = random.Random(9)  # noqa: S311 - a test
    for _ in range(300):
        text = "select " + " ".join(rng.choices(words, k=rng.randrange(1, 12)))
        if rng.random() < 0.5:
            text = "select count(*) from t where " + " ".join(rng.choices(words, k=rng.randrange(1, 8)))  # noqa: S608
        with contextlib.suppress(ParameterError):
            sql_question(text, SCHEMA)
    assert capfd.readouterr() == ("", "")


def test_sqlglot_is_imported_when_sql_is_asked_and_missing_it_is_said(monkeypatch):
    code = "import sys, sfumato; sfumato.Session; assert 'sqlglot' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own line

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(sql.importlib, "import_module", missing)
    with pytest.raises(MissingDependency, match=r"SQL needs sqlglot: pip install 'sfumato\[sql\]'"):
        sql_question("select count(*) from t", SCHEMA)
    with pytest.raises(ParameterError, match="SQL is a text"):
        sql_question(3, SCHEMA)


def test_a_question_for_other_columns_is_refused(ledger):
    other = Schema((Integer("age", 0, 9), Flag("smoker")))
    with pytest.raises(ParameterError, match="other columns"):
        opened(ledger, TABLE, schema=SCHEMA).ask(sql_question("select avg(age) from t", other), epsilon=0.1)
