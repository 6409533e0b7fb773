"""Questions to a table: what is answered, what is charged, and what a refusal or a death costs."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pytest

from faults.context import CONTEXT
from sfumato.engines.local import LocalRows
from sfumato.errors import BudgetError, LedgerError, ParameterError, SchemaError
from sfumato.fileformat.reader import digest
from sfumato.files.open_table import open_table
from sfumato.files.source import Source
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.reservation import Reservation
from sfumato.pipeline.session import _needed
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.units import Cap
from sfumato.queries.parser import parse
from sfumato.queries.predicates import count
from sfumato.randomness.secret import Secret, Words
from sfumato.tables.columns import Flag, Real
from sfumato.tables.schema import Schema
from support import evidence
from support.asked_kinds import KINDS
from support.asked_kinds import table as kinds_table
from support.asking import AGES, CITIES, OLD_SMOKERS, SCHEMA, SMOKERS, TABLE, opened
from support.hostile import HOSTILE
from support.hostile import SCHEMA as HOSTILE_SCHEMA
from support.processes import ask_once
from support.rows import forbid_reading, table_rows
from support.spending import pure, states
from support.twins import always, secret_of

KIND_COUNTS = {
    "age == 40": 3,
    "children is missing": 1,
    'education >= "HS-grad"': 6,
    "joined >= 2020-01-03": 4,
    "smoker == false": 3,
    'basket contains "milk"': 3,
}


@pytest.fixture
def silent(monkeypatch):
    """No noise, so that the counts below it show."""
    monkeypatch.setattr(Secret, "fresh", lambda: secret_of(always(0)))


def forbid_keys(monkeypatch):
    monkeypatch.setattr(Secret, "fresh", lambda: pytest.fail("a key was made"))


def unread(monkeypatch):
    forbid_reading(monkeypatch)
    forbid_keys(monkeypatch)


@pytest.mark.parametrize("forbid", [forbid_reading, forbid_keys])
def test_an_answer_reads_rows_and_makes_a_key_which_other_tests_forbid(ledger, monkeypatch, forbid):
    forbid(monkeypatch)
    with pytest.raises(pytest.fail.Exception, match=r"rows were read|a key was made"):
        opened(ledger).ask("smoker", epsilon=0.1)


# ---- what is answered ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("silent")
def test_sessions_answer_about_every_kind_of_column(ledger):
    asked = opened(ledger, kinds_table(), schema=KINDS)
    found = [answer.value for answer in asked.ask_all(list(KIND_COUNTS), epsilon=0.1)]
    assert dict(zip(KIND_COUNTS, found, strict=True)) == KIND_COUNTS
    with pytest.raises(ParameterError, match="is a vector, which cannot be asked about"):
        asked.ask("face > 0", epsilon=0.1)


def test_the_schemas_of_some_columns_keep_the_scale():
    asked = [parse("children >= 3", KINDS), parse('city == "Bern"', KINDS)]
    for scale in ("bounds", "raw"):
        whole = replace(KINDS, scale=scale)
        small = _needed(whole, [leaf.column for question in asked for leaf in question.leaves])
        names, weights = whole.encoding.names, whole.encoding.weights
        assert small.scale == scale
        assert small.encoding.weights.tolist() == [weights[names.index(name)] for name in small.encoding.names]


def test_an_answer_is_a_noisy_count_with_an_interval_and_what_remains(ledger):
    answer = opened(ledger).ask("age >= 40 and smoker", epsilon=1.0)
    assert abs(answer.value - OLD_SMOKERS) < 40  # e^-40
    assert answer.value == round(answer.value)
    low, high = answer.estimate.interval(0.95)
    assert low <= answer.value <= high
    assert high - low == pytest.approx(7, abs=1)  # 2 ln 20, and the roundings
    assert answer.estimate.standard_error == pytest.approx(math.sqrt(2), rel=0.05)
    assert (answer.query, answer.epsilon, answer.remaining) == ("age >= 40 and smoker", 1.0, 2.0)


@pytest.mark.usefixtures("silent")
def test_the_count_below_the_noise_is_exact(ledger, tmp_path):
    queries = [
        "age >= 40 and smoker",
        'city in ("Bern", "Basel")',
        'city != "Bern"',
        "age = 120",
        "age = 0",
        "true",
        "false",
    ]
    wanted = [
        OLD_SMOKERS,
        (CITIES != "Zug").sum(),
        (CITIES != "Bern").sum(),
        (AGES >= 120).sum(),
        (AGES <= 0).sum(),
        3000,
        0,
    ]
    pv.write_csv(TABLE, tmp_path / "people.csv")
    for number, data in enumerate((TABLE, TABLE.to_pandas(), tmp_path / "people.csv")):
        ledger.add_dataset(f"copy {number}", pure(3.0))
        answers = opened(ledger.account(f"copy {number}"), data).ask_all(queries, epsilon=0.01)
        assert [a.value for a in answers] == wanted


def test_counts_do_not_depend_on_blocks_or_threads(monkeypatch):
    predicates = [parse(q, SCHEMA) for q in ("age >= 40 and smoker", "true")]
    table = open_table(TABLE)
    found = []
    for size, threads in ((1 << 16, 1), (64, 3), (7 * 64, 2)):
        monkeypatch.setattr("sfumato.tables.blocks._MOST_ROWS", size)
        found.append(count(table_rows(table, SCHEMA, threads=threads), SCHEMA, predicates).tolist())
    assert found == [[OLD_SMOKERS, 3000, 3000]] * 3


def test_a_table_without_rows_is_counted(ledger):
    answer = opened(ledger, TABLE.slice(0, 0)).ask("smoker", epsilon=1.0)
    assert answer.estimate.interval() == (0, 0)  # there are no rows, which is public here


def test_the_noise_is_laplace_of_scale_one_over_epsilon_and_the_same_check_sees_other_scales(tmp_path):
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", pure(5000.0), composition="basic")
    draws = np.array([a.value for a in opened(ledger).ask_all(["true"] * 10_000, epsilon=0.05)]) - 3000

    def law(b):
        return lambda x: np.where(x < 0, np.exp(x / b) / 2, 1 - np.exp(-x / b) / 2)

    assert evidence.fits(draws.astype(np.int64), law(20.0))
    for wrong in (10.0, 13.0, 31.0, 40.0):
        assert not evidence.fits(draws.astype(np.int64), law(wrong))


def test_equal_questions_get_noise_of_their_own_together_and_one_by_one(ledger):
    asked = opened(ledger)
    together = [a.value for a in asked.ask_all(["smoker"] * 20, epsilon=1e-4)]
    single = [asked.ask("smoker", epsilon=1e-4).value for _ in range(5)]
    assert len(set(together)) > 10
    assert len(set(single)) > 2


def test_noise_is_a_function_of_key_question_scale_and_count(ledger, monkeypatch):
    """A count that differs by one, as a neighbour's does, must not meet the same noise again, nor another question."""
    monkeypatch.setattr(Secret, "fresh", lambda: Secret.for_testing(1))
    other = TABLE.slice(0, 2999)

    def noises(data, query, epsilon=0.01):
        table = open_table(data)
        truth = count(table_rows(table, SCHEMA), SCHEMA, [parse(query, SCHEMA)])[0]
        return opened(ledger, data).ask(query, epsilon=epsilon).value - truth

    first = noises(TABLE, "age < 200")
    assert noises(TABLE, "age < 200") == first
    assert noises(TABLE, "age < 300") != first
    assert noises(other, "age < 200") != first
    assert noises(TABLE, "age < 200", 0.011) * 1.1 != pytest.approx(first, abs=2)


# ---- sensitivity -----------------------------------------------------------------------------------------------------

QUERIES = ["true", "smoker", "age >= 40", 'city != "Bern"', 'not smoker and age < 60 or city = "Basel"', "age = 120"]


def counts_of(rows):
    table = pa.table({k: [r[k] for r in rows] for k in ("age", "smoker", "city")}, schema=NARROW)
    predicates = [parse(q, SCHEMA) for q in QUERIES]
    return count(table_rows(open_table(table), SCHEMA), SCHEMA, predicates)[:-1]


NARROW = pa.schema({"age": pa.float64(), "smoker": pa.bool_(), "city": pa.string()})
RECORDS = [
    {"age": a, "smoker": s, "city": c}
    for a in (None, -1e308, 0.0, 39.9, 40.0, 1e308, math.inf)
    for s in (None, True, False)
    for c in (None, "Bern", "Basel", "Zug")
]


def test_no_neighbour_moves_a_count_by_more_than_one_and_some_attain_it():
    base = RECORDS[::5]
    before = counts_of(base)
    added = np.array([np.abs(counts_of([*base, r]) - before) for r in RECORDS])
    replaced = np.array([np.abs(counts_of([r, *base[1:]]) - before) for r in RECORDS])
    for moved in (added, replaced):
        assert moved.max() == 1
    assert (added.max(axis=0) == 1).all()
    assert (replaced.max(axis=0) == [0, *[1] * (len(QUERIES) - 1)]).all()
    three = [np.abs(counts_of([*base, *RECORDS[i : i + 3]]) - before).max() for i in range(0, 80, 9)]
    assert max(three) == 3


@pytest.mark.parametrize(("group", "epsilon"), [(1, 0.1), (3, 0.1), (7, 0.3), (1, 1e-3), (2**20, 3.0)])
def test_the_scale_never_promises_more_than_epsilon(ledger, group, epsilon):
    asked = opened(ledger, group=group)
    b = asked._laplace_scale(epsilon)
    assert asked._counting(1, epsilon).loss.delta(epsilon) == 0  # in ball arithmetic
    assert b == pytest.approx(group / epsilon, rel=1e-15)


# ---- what is charged -------------------------------------------------------------------------------------------------


def test_a_question_is_reserved_drawn_and_committed(ledger):
    answer = opened(ledger).ask("smoker", epsilon=0.5)
    entries = ledger.journal.entries()
    assert [e.kind for e in entries] == ["dataset", "reserve", "draw", "commit"]
    assert ledger.dataset("people").total(0).epsilon == 0.5
    assert ledger.check_release(answer.record).mechanism == "Answer"
    assert answer.record["answers"] == [{"query": "smoker", "value": answer.value}]
    assert "rows" not in answer.record
    forged = answer.record | {"answers": [{"query": "smoker", "value": 5}]}
    with pytest.raises(LedgerError, match="not the release that entry 2 committed"):
        ledger.check_release(forged | {"digest": digest(forged)})


def test_nothing_is_drawn_before_the_ledger_knows(ledger, monkeypatch):
    drawn = []

    class Watched(Words):
        __slots__ = ()

        def laplace(self, size, laplace_scale):
            drawn.append([e.kind for e in ledger.journal.entries()])
            return super().laplace(size, laplace_scale)

    monkeypatch.setattr(Secret, "fresh", lambda: secret_of(Watched))
    opened(ledger).ask("smoker", epsilon=0.5)
    assert drawn == [["dataset", "reserve", "draw"]]
    assert states(ledger) == ["committed"]


def test_what_the_rows_are_is_read_after_the_reservation_and_only_the_columns_asked_for(ledger, monkeypatch):
    original = LocalRows.sum

    def summed(self, function):
        assert states(ledger) == ["reserved"]
        assert self.blocks.columns == ("age",)
        return original(self, function)

    monkeypatch.setattr(LocalRows, "sum", summed)
    opened(ledger).ask("age > 3 or age < 2", epsilon=0.5)


def test_a_batch_is_one_charge_and_its_price_is_what_is_charged(ledger):
    asked = opened(ledger)
    (quote,) = asked.price(["smoker", "age > 3", "true"], epsilon=0.1)
    assert (quote.before.epsilon, quote.after.epsilon, quote.fits) == (0.0, 0.3, True)
    assert [e.kind for e in ledger.journal.entries()] == ["dataset"]
    answers = asked.ask_all(["smoker", "age > 3", "true"], epsilon=0.1)
    assert ledger.dataset("people").total(0) == quote.after
    assert len(ledger.dataset("people").releases) == 1
    assert [a.query for a in answers] == ["smoker", "age > 3", "true"]
    assert [a.remaining for a in answers] == [2.7] * 3


def test_under_tight_composition_many_small_questions_cost_less_than_their_sum(tmp_path):
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", Guarantee(epsilon=1.0, delta=1e-6), composition="tight")
    (together,) = opened(ledger).price(["smoker"] * 60, epsilon=0.02)
    assert together.fits
    assert together.after.epsilon < 0.9  # and not 1.2
    (one,) = opened(ledger).price(["smoker"], epsilon=1.2)
    assert not one.fits


def test_a_batch_that_does_not_fit_is_refused_whole(ledger, monkeypatch):
    asked = opened(ledger)
    asked.ask("smoker", epsilon=1.0)
    (quote,) = asked.price(["smoker"] * 30, epsilon=0.1)
    assert not quote.fits
    unread(monkeypatch)
    before = ledger.journal.entries()
    with pytest.raises(BudgetError, match=r"still fit is 2 for all 30 questions together, 0.066\d* for each") as caught:
        asked.ask_all(["smoker"] * 30, epsilon=0.1)
    assert caught.value.remaining == 2.0
    assert ledger.journal.entries() == before
    assert asked.remaining == 2.0


def test_a_question_over_budget_costs_nothing_and_the_next_one_is_answered(ledger):
    asked = opened(ledger)
    before = ledger.journal.entries()
    with pytest.raises(BudgetError, match=r"spent 0 of epsilon 3 .* would still fit is 3$"):
        asked.ask("smoker", epsilon=3.5)
    assert ledger.journal.entries() == before
    assert asked.ask("smoker", epsilon=3.0).remaining == 0.0
    with pytest.raises(BudgetError, match="nothing of this kind would fit"):
        asked.ask("smoker", epsilon=0.01)


def test_a_hostile_text_costs_nothing_alone_or_in_a_batch(ledger, monkeypatch):
    names = [c.name for c in HOSTILE_SCHEMA.columns]
    data = pa.table({n: pa.array(["1"], pa.string()) for n in names})
    asked = opened(ledger, data, schema=HOSTILE_SCHEMA)
    unread(monkeypatch)
    before = ledger.journal.entries()
    for text, says in HOSTILE.values():
        with pytest.raises(ParameterError, match=says):
            asked.ask(text, epsilon=0.1)
        with pytest.raises(ParameterError, match="question 2 of 2: "):
            asked.ask_all(["smoker", text], epsilon=0.1)
        with pytest.raises(ParameterError, match="question 1 of 2: "):
            asked.price([text, "smoker"], epsilon=0.1)
    assert ledger.journal.entries() == before
    assert asked.remaining == 3.0


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 1e9, 1e-300, "1", None, True, np.True_])
def test_an_epsilon_that_is_none_costs_nothing(ledger, monkeypatch, epsilon):
    asked = opened(ledger)
    unread(monkeypatch)
    with pytest.raises(ParameterError, match="epsilon must be"):
        asked.ask("smoker", epsilon=epsilon)
    assert states(ledger) == []


@pytest.mark.parametrize("queries", ["smoker", [], ["smoker"] * 10_001, {"smoker"}, None])
def test_a_batch_is_a_list_of_questions(ledger, queries):
    with pytest.raises(ParameterError, match=r"list of texts|1 to 10,000 questions"):
        opened(ledger).ask_all(queries, epsilon=1e-4)


def test_data_that_cannot_be_read_to_the_end_cost_nothing_and_show_no_cell(ledger):
    def read(columns, _rows):
        yield from TABLE.select(list(columns)).to_batches()
        raise pa.ArrowInvalid("secret cell")

    asked = opened(ledger, Source(TABLE.schema, None, "csv file people.csv", read))
    with pytest.raises(
        SchemaError, match=r"cannot be read to its end.*; nothing was drawn, and nothing spent$"
    ) as caught:
        asked.ask("smoker", epsilon=1.0)
    assert "secret cell" not in str(caught.value)
    assert states(ledger) == ["void"]
    assert asked.remaining == 3.0


def test_what_fails_after_the_draw_stays_spent(ledger, monkeypatch):
    def refused(*_):
        raise LedgerError("the disk is full")

    asked = opened(ledger)
    monkeypatch.setattr(Reservation, "commit", refused)
    with pytest.raises(
        LedgerError, match="the disk is full; reservation 2 of 'people' stays spent, for noise may have been drawn"
    ):
        asked.ask("smoker", epsilon=1.0)
    assert states(ledger) == ["drawn"]
    assert asked.remaining == 2.0


# ---- what a session promises -----------------------------------------------------------------------------------------


def test_neighbours_and_group_are_those_of_the_cap(tmp_path):
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", pure(3.0, neighbours="add-remove", group=4))
    answer = opened(ledger).ask("smoker", epsilon=1.0)
    promised = ledger.dataset("people").releases[0].guarantee
    assert (promised.unit, promised.neighbours, promised.group) == ("record", "add-remove", 4)
    assert answer.record["mechanism"]["laplace_scale"] == pytest.approx(4.0)
    assert answer.estimate.standard_error == pytest.approx(4 * math.sqrt(2), rel=0.01)


def test_the_number_of_rows_bounds_intervals_only_where_it_is_public(tmp_path, monkeypatch):
    monkeypatch.setattr(Secret, "fresh", lambda: secret_of(always(30)))
    for neighbours, most in (("replace", 3000), ("add-remove", math.inf)):
        ledger = Ledger.create(tmp_path / f"{neighbours}.db")
        ledger.add_dataset("people", pure(3.0, neighbours=neighbours))
        answer = opened(ledger).ask("true", epsilon=0.1)
        assert answer.value == 3030
        low, high = answer.estimate.interval(0.95)
        assert 2970 < low < 3010
        assert high <= most
        assert (high > 3030) == (most == math.inf)


def test_a_record_level_session_may_be_charged_to_a_cap_on_values(tmp_path):
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", Cap(pure(3.0, unit="attribute"), attributes=2))
    assert opened(ledger).ask("smoker", epsilon=1.0).remaining == 2.0  # counted once, for a record is more
    with pytest.raises(LedgerError, match="would count 2 times"):
        opened(ledger, unit="attribute").ask("smoker", epsilon=1.0)


def test_what_a_ledger_cannot_vouch_for_is_refused_and_costs_nothing(ledger):
    asked = opened(ledger, schema=replace(SCHEMA, bounds_from_data=True))
    with pytest.raises(LedgerError, match="bounds were taken from the data"):
        asked.ask("smoker", epsilon=1.0)
    assert states(ledger) == []
    excused = opened(ledger.account(exceptions=True), schema=replace(SCHEMA, bounds_from_data=True))
    assert excused.ask("smoker", epsilon=1.0).remaining == 2.0


def test_a_session_of_a_part_counts_its_records_only(tmp_path, silent):  # noqa: ARG001
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", pure(3.0), parts_by="city")
    schema = Schema((Real("age", 0, 120), Flag("smoker")))
    for part in ("Bern", "Zug"):
        asked = opened(ledger.account(part=part), schema=schema)
        assert asked.ask("smoker", epsilon=2.0).value == sum(SMOKERS[part == CITIES])
    with pytest.raises(ParameterError, match="leave it out of the schema"):
        opened(ledger.account(part="Bern"))


def test_a_session_needs_a_ledger_of_records_and_data_with_the_columns(ledger, tmp_path):
    with pytest.raises(ParameterError, match="spends from a budget"):
        opened(None)
    with pytest.raises(SchemaError, match="has no column 'smoker'"):
        opened(ledger, TABLE.drop_columns("smoker"))
    with pytest.raises(ParameterError, match="unit must be one of"):
        opened(ledger, unit="edge")
    with pytest.raises(ParameterError, match="what is added or removed is a whole record"):
        opened(ledger, unit="attribute", neighbours="add-remove")
    graphs = Ledger.create(tmp_path / "graphs.db")
    graphs.add_dataset("graph", pure(3.0, unit="edge"))
    with pytest.raises(LedgerError, match="is a graph"):
        opened(graphs)


# ---- sessions that die -----------------------------------------------------------------------------------------------


def test_a_session_killed_at_any_step_goes_on_with_the_true_remaining_budget(tmp_path):
    where = tmp_path / "b.db"
    ledger = Ledger.create(where)
    ledger.add_dataset("people", pure(10.0))
    steps = {
        "before reserving": None,
        "before drawing": "reserved",
        "before committing": "drawn",
        "after committing": "committed",
    }
    spent = 0
    for step, state in steps.items():
        process = CONTEXT.Process(target=ask_once, args=(where, step), daemon=True)
        process.start()
        process.join(120)
        assert process.exitcode == -9
        ledger.verify()
        spent += state is not None
        assert states(ledger)[spent - 1 :] == ([state] if state else [])
    told = CONTEXT.SimpleQueue()
    process = CONTEXT.Process(target=ask_once, args=(where, None, told), daemon=True)
    process.start()
    _, left = told.get()
    process.join(120)
    assert left == 10.0 - spent - 1 == 6.0
    for release in ledger.dataset("people").releases:
        if release.state == "reserved":
            ledger.void(release.number, "the process was killed before it drew")
    assert ledger.dataset("people").remaining_under_every_cap() == 7.0  # two that drew and the last are spent
