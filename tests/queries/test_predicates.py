"""Questions as texts: what they mean, row by row, and what is refused before anything is charged."""

import math
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.queries import parser
from sfumato.queries.domain import Domain
from sfumato.queries.parser import DEEPEST, LONGEST, MOST, parse
from sfumato.tables.columns import Category, Flag, Real
from sfumato.tables.schema import Schema
from support.hostile import HOSTILE, SCHEMA

AGES = ["39", "40", "40.0", "", "nonsense", "-5", "1000", "inf", "-inf", "41.5", "nan", None, "120", "0"]
FLAGS = ["true", "no", "1", "0", "maybe", "", None]
CITIES = ["Bern", "Basel", "it's", "age", "Zug", "", None]
CODES = ["1", "2", "10", "3", "1.0", None]


def batch(rows):
    columns = list(zip(*rows, strict=True)) if rows else [()] * 6
    names = ["age", "smoker", "city", "code", "blood pressure", "größe"]
    return pa.table({n: pa.array(c, pa.string()) for n, c in zip(names, columns, strict=True)})


def seen(row):
    """What a row says by the rules of the schema: written anew, cell by cell, in plain Python."""

    def number(cell, low, high, missing):
        try:
            value = float(cell)
        except (TypeError, ValueError):
            value = math.nan
        return missing if math.isnan(value) else min(max(value, low), high)

    def truth(cell):
        return cell in ("true", "1", "yes")

    age, smoker, city, code, pressure, size = row
    return {
        "age": number(age, 0, 120, 40.0),
        "smoker": truth(smoker),
        "city": city if city in ("Bern", "Basel", "it's", "age") else None,
        "code": {"1": "1", "1.0": "1", "2": "2", "10": "10"}.get(code, "2"),
        "blood pressure": number(pressure, 50, 250, 50),
        "größe": truth(size),
    }


OPERATORS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<>": lambda a, b: a != b,
}
NUMBERS = st.sampled_from(["0", "39", "40", "40.0", "41.5", "4e1", ".5", "-3", "120", "121", "50", "250", "+40"])
REALS = st.sampled_from([("age", "age"), ("`blood pressure`", "blood pressure"), ('"age"', "age")])
RELATIONS = st.sampled_from(sorted(OPERATORS))
TRUTHS = st.sampled_from([("smoker", "smoker"), ("`größe`", "größe"), ('"größe"', "größe")])
VALUES = st.sampled_from(
    [('"Bern"', "Bern"), ("'Basel'", "Basel"), ("'it''s'", "it's"), ('"it\'s"', "it's"), ('"age"', "age")]
)
WHOLES = st.sampled_from([("1", "1"), ('"2"', "2"), ("10", "10")])


def leaves():
    """(text, what it means for a row as ``seen``)."""
    compared = st.builds(
        lambda c, o, n: (f"{c[0]} {o} {n}", lambda r: OPERATORS[o](r[c[1]], float(n))), REALS, RELATIONS, NUMBERS
    )
    turned = st.builds(
        lambda c, o, n: (f"{n}{o}{c[0]}", lambda r: OPERATORS[o](float(n), r[c[1]])), REALS, RELATIONS, NUMBERS
    )
    chained = st.builds(
        lambda c, o, p, n, m: (
            f"{n} {o} {c[0]} {p} {m}",
            lambda r: OPERATORS[o](float(n), r[c[1]]) and OPERATORS[p](r[c[1]], float(m)),
        ),
        REALS, RELATIONS, RELATIONS, NUMBERS, NUMBERS,
    )  # fmt: skip
    between = st.builds(
        lambda c, w, n, m: (
            f"{c[0]} {w} {n} and {m}",
            lambda r: (float(n) <= r[c[1]] <= float(m)) == (w == "between"),
        ),
        REALS, st.sampled_from(["between", "not between"]), NUMBERS, NUMBERS,
    )  # fmt: skip
    flagged = st.builds(lambda c: (c[0], lambda r: r[c[1]]), TRUTHS)
    told = st.builds(
        lambda c, o, t: (f"{c[0]} {o} {t}", lambda r: OPERATORS[o](r[c[1]], t.lower() == "true")),
        TRUTHS, st.sampled_from(["==", "!="]), st.sampled_from(["true", "False", "TRUE"]),
    )  # fmt: skip
    category = st.builds(
        lambda o, v: (f"city {o} {v[0]}", lambda r: OPERATORS[o](r["city"], v[1])),
        st.sampled_from(["==", "=", "!=", "<>"]), VALUES,
    )  # fmt: skip
    listed = st.builds(
        lambda c, w, vs: (
            f"{c} {w} ({', '.join(v[0] for v in vs)})",
            lambda r: (r[c] in {v[1] for v in vs}) == (w == "in"),
        ),
        st.just("city"), st.sampled_from(["in", "not in", "NOT IN"]), st.lists(VALUES, min_size=1, max_size=3),
    )  # fmt: skip
    wholes = st.builds(lambda v: (f"{v[0]} == code", lambda r: r["code"] == v[1]), WHOLES)
    always = st.sampled_from([("true", lambda _: True), ("false", lambda _: False)])
    return st.one_of(compared, turned, chained, between, flagged, told, category, listed, wholes, always)


def joined(parts):
    def both(a, b):
        return f"{a[0]} and {b[0]}", lambda r: a[1](r) and b[1](r)

    def either(a, b):
        return f"({a[0]} OR {b[0]})", lambda r: a[1](r) or b[1](r)

    return st.one_of(
        st.builds(both, parts, parts),
        st.builds(either, parts, parts),
        st.builds(lambda a: (f"not ({a[0]})", lambda r: not a[1](r)), parts),
        st.builds(lambda a: (f"( {a[0]}\t)", a[1]), parts),
    )


QUERIES = st.recursive(leaves(), joined, max_leaves=8)
CELLS = st.tuples(
    st.sampled_from(AGES),
    st.sampled_from(FLAGS),
    st.sampled_from(CITIES),
    st.sampled_from(CODES),
    st.sampled_from(AGES),
    st.sampled_from(FLAGS),
)


@settings(max_examples=300)
@given(QUERIES, st.lists(CELLS, max_size=12))
def test_a_query_means_what_it_says_row_by_row(query, rows):
    text, meaning = query
    holds = parse(text, SCHEMA).test(SCHEMA)(SCHEMA.encode(batch(rows)))
    assert holds.tolist() == [bool(meaning(seen(row))) for row in rows]


@settings(max_examples=50)
@given(QUERIES, st.lists(CELLS, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_a_row_is_judged_by_itself(query, rows, random):
    """Other rows, other places and a schema of the needed columns alone change nothing."""
    predicate = parse(query[0], SCHEMA)
    whole = predicate.test(SCHEMA)(SCHEMA.encode(batch(rows)))
    place = random.randrange(len(rows))
    names = {leaf.column.name for leaf in predicate.leaves} | {"größe"}
    small = Schema(tuple(c for c in SCHEMA.data_columns if c.name in names))
    alone = predicate.test(small)(small.encode(batch(rows[place : place + 1])))
    assert alone.tolist() == [whole[place]]


def test_and_binds_tighter_than_or_and_not_tighter_than_both():
    rows = [("50", s, c, "1", "60", g) for s in ("true", "no") for c in ("Bern", "Basel") for g in ("true", "no")]
    cases = {
        'smoker or city = "Bern" and `größe`': lambda r: r["smoker"] or (r["city"] == "Bern" and r["größe"]),
        'not smoker and city = "Bern"': lambda r: (not r["smoker"]) and r["city"] == "Bern",
        "not smoker or `größe`": lambda r: (not r["smoker"]) or r["größe"],
    }
    for text, meaning in cases.items():
        holds = parse(text, SCHEMA).test(SCHEMA)(SCHEMA.encode(batch(rows)))
        assert holds.tolist() == [meaning(seen(row)) for row in rows]


def test_numbers_are_seen_within_their_bounds_and_not_rounded_further():
    rows = [(a, "no", "Bern", "1", "60", "no") for a in ("1000", "-1000", "39.99999999999999", "40")]
    at_bounds = parse("age = 120 or age = 0", SCHEMA).test(SCHEMA)(SCHEMA.encode(batch(rows)))
    assert at_bounds.tolist() == [True, True, False, False]
    below = parse("age < 40", SCHEMA).test(SCHEMA)(SCHEMA.encode(batch(rows)))
    assert below.tolist() == [False, True, True, False]


def test_a_clip_of_whole_rows_does_not_apply_to_a_question():
    clipped = Schema((Real("a", 0, 10), Flag("b")), norm="l2", norm_bound=0.1)
    block = clipped.encode(pa.table({"a": [7.0, 1.0], "b": [True, False]}))
    assert parse("a >= 7 and b", clipped).test(clipped)(block).tolist() == [True, False]


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_no_query_gets_one_clear_line(case):
    text, says = HOSTILE[case]
    with pytest.raises(ParameterError, match=says) as caught:
        parse(text, SCHEMA)
    told = str(caught.value)
    assert told.isprintable()
    assert told.isascii()
    assert len(told) < 400
    assert caught.value.__cause__ is None


LONG = Schema((Category("code", tuple(f"value {i}" for i in range(20_000))), Flag("f")))


def test_a_value_that_is_not_listed_is_compared_with_a_bounded_number_of_others(monkeypatch):
    seen, original = [], parser.difflib.get_close_matches

    def noted(word, others, *rest):
        seen.append(len(others))
        return original(word, others, *rest)

    monkeypatch.setattr(parser.difflib, "get_close_matches", noted)
    for text, near in (
        ("valuf 5", "near it: 'value 5'"),
        ("VALUE 19999", "near it: 'value 19999'"),
        ("x", "there are"),
    ):
        with pytest.raises(ParameterError, match=near):
            parse(f'code = "{text}"', LONG)
    assert max(seen) <= 1000


def test_the_values_of_a_column_are_listed_once_for_all_comparisons_and_queries():
    parser._listed.cache_clear()
    for _ in range(3):
        parse('code in ("value 1", "value 2") or code != "value 3"', LONG)
    assert parser._listed.cache_info().misses == 1


@pytest.mark.parametrize("value", [None, 5, b"smoker", ["smoker"]])
def test_only_a_text_is_a_query(value):
    with pytest.raises(ParameterError, match="a query is a text"):
        parse(value, SCHEMA)


@settings(max_examples=300)
@given(st.text(max_size=60) | st.text("ageor ndti()<>=!'\"`0.,-smkr", max_size=60))
def test_any_text_is_parsed_or_refused_in_one_line(text):
    try:
        predicate = parse(text, SCHEMA)
    except ParameterError as error:
        assert re.fullmatch(r"[ -~]{1,400}", str(error))  # noqa: PT017 - most texts are refused, a few are not
    else:
        assert predicate.test(SCHEMA)(SCHEMA.encode(batch([]))).shape == (0,)


def test_queries_at_the_limits_are_accepted():
    rows = SCHEMA.encode(batch([("50", "true", "Bern", "1", "60", "no")]))
    deep = parse("(" * DEEPEST + "smoker" + ")" * DEEPEST, SCHEMA)
    many = parse(" and ".join(["smoker"] * MOST), SCHEMA)
    long = parse("smoker".ljust(LONGEST), SCHEMA)
    assert [p.test(SCHEMA)(rows).tolist() for p in (deep, many, long)] == [[True]] * 3


def test_a_name_that_is_a_word_of_the_language_can_be_asked_in_backticks():
    schema = Schema((Flag("not"), Flag("a`b"), Real("10", 0, 20)))
    block = schema.encode(pa.table({"not": [True, False], "a`b": [True, True], "10": [5.0, 15.0]}))
    assert parse("not `not`", schema).test(schema)(block).tolist() == [False, True]
    assert parse("`a``b` and `10` > 10", schema).test(schema)(block).tolist() == [False, True]


# ---- on the cells of a domain ----------------------------------------------------------------------------------------

DOMAIN = Domain.of(SCHEMA, ["age", "smoker", "city", "code"], {"age": [39, 40, 41.5]})
ON_LEVELS = ["age < 40", "age >= 41.5 and smoker", 'city != "Bern" or age >= 39', "not smoker", "code in (1, 10)"]
ON_LEVELS += ['city not in ("Bern", "Basel")', "age >= 0", "age > 120", "age <= 120", "age < -3", "age != 121", "true"]


@pytest.mark.parametrize("text", ON_LEVELS)
def test_a_row_satisfies_a_query_exactly_if_its_cell_does(text):
    rng = np.random.default_rng(1)
    rows = [
        tuple(rng.choice(np.array(c, object)) for c in (AGES, FLAGS, CITIES, CODES, AGES, FLAGS)) for _ in range(400)
    ]
    block, predicate = SCHEMA.encode(batch(rows)), parse(text, SCHEMA)
    assert (DOMAIN.mask(predicate)[DOMAIN.cells(block)] == predicate.test(SCHEMA)(block)).all()


@pytest.mark.parametrize(
    "text",
    ["age < 39.5", "age <= 40", "age > 39", "age = 39", "age != 41", "age < 120", "age = 120", "smoker and age >= 1"],
)
def test_a_query_that_splits_a_cell_is_refused(text):
    with pytest.raises(ParameterError, match="holds for a part of the level"):
        DOMAIN.mask(parse(text, SCHEMA))


def test_a_query_about_another_column_than_the_domains_is_refused():
    with pytest.raises(ParameterError, match="asks about 'blood pressure', and the domain is made of 'age', 'smoker'"):
        DOMAIN.mask(parse("`blood pressure` > 100", SCHEMA))


WIDE = Schema(tuple(replace(c, low=-500.0, high=500.0) if isinstance(c, Real) else c for c in SCHEMA.columns))


@pytest.mark.parametrize("schema", [WIDE, SCHEMA], ids=["within wide bounds", "at the bounds"])
@settings(max_examples=60)
@given(st.lists(QUERIES, min_size=1, max_size=4), st.lists(CELLS, max_size=12))
def test_a_domain_made_of_questions_can_answer_them_all(schema, queries, rows):
    predicates, block = [parse(text, schema) for text, _ in queries], schema.encode(batch(rows))
    domain = Domain.of_questions(schema, predicates)
    for predicate in predicates:
        assert (domain.mask(predicate)[domain.cells(block)] == predicate.test(schema)(block)).all()


@pytest.mark.parametrize("relation", OPERATORS)
@pytest.mark.parametrize("bound", [0.0, 120.0])
def test_questions_at_the_bounds_and_beside_them_are_cut_out(relation, bound):
    around = [math.nextafter(bound, -math.inf), bound, math.nextafter(bound, math.inf), -0.0, 60.0]
    block = np.array([[*around, -1e9, 1e9, -math.inf, math.inf, math.nan]])
    schema = Schema((Real("age", 0, 120),))
    for number in around:
        predicate = parse(f"age {relation} {number!r}", schema)
        domain = Domain.of_questions(schema, [predicate])
        assert (domain.mask(predicate)[domain.cells(block)] == predicate.test(schema)(block)).all()
        assert domain.size <= 3


def test_a_question_that_always_holds_needs_no_cut():
    everyone = Domain.of_questions(SCHEMA, [parse("true", SCHEMA)])
    assert everyone.mask(parse("true", SCHEMA)).all()
