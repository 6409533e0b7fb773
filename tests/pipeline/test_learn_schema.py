"""Learned schemas: the same in every form of a table, charged before a row is read, and never stopped by a cell."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import BudgetError, LedgerError, ParameterError, SchemaError
from sfumato.ledger.ledger import Ledger
from sfumato.mechanisms.schema_learning.recipe import SchemaLearning
from sfumato.pipeline.learn_schema import Description, PlannedSchema, learn_schema
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables.learned import Learned
from sfumato.tables.schema import Schema

N = 3000


def people(rows=N, seed=1):
    rng = np.random.default_rng(seed)
    day = dt.date(2019, 1, 1)
    return pd.DataFrame(
        {
            "age": rng.integers(17, 91, rows),
            "income": np.round(np.exp(rng.normal(10, 1, rows)), 2),
            "member": rng.integers(0, 2, rows),
            "answer": rng.choice(["yes", "no"], rows),
            "city": rng.choice(["Rome", "Pisa", "Bari"], rows, p=[0.6, 0.35, 0.05]),
            "since": [(day + dt.timedelta(days=int(k))).isoformat() for k in rng.integers(0, 700, rows)],
            "name": [f"person {i}" for i in range(rows)],
        }
    )


def listed(column):
    return column.values  # noqa: PD011 - of a column of a schema


def learn(data, **settings):
    chosen = {"epsilon": 2.0, "delta": 1e-6, "secret": Secret.for_testing(3)} | settings
    return learn_schema(data, **chosen)


def test_kinds_bounds_and_values_of_a_plain_table():
    schema = learn(people())
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {
        "age": "integer", "income": "real", "member": "flag", "answer": "flag", "city": "category", "since": "date",
    }  # fmt: skip
    by_name = {column.name: column for column in schema.columns}
    assert 0 <= by_name["age"].low <= 17
    assert 90 <= by_name["age"].high <= 256
    assert by_name["income"].high <= 4 * people()["income"].max()
    assert {"Pisa", "Rome"} <= set(listed(by_name["city"])) <= {"Bari", "Pisa", "Rome"}
    assert by_name["since"].low <= dt.date(2019, 1, 1)
    assert by_name["since"].high >= dt.date(2020, 11, 30)
    assert schema.learned.rows == N
    assert schema.scale == "bounds"


def forms(frame, folder):
    """One table in the forms that people store it in; one missing cell changes the types of some."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pv.write_csv(table, folder / "people.csv")
    pq.write_table(table, folder / "people.parquet")
    pq.write_table(pa.table({n: table[n].cast(pa.string()) for n in table.column_names}), folder / "texts.parquet")
    coded = frame.assign(city=frame["city"].astype("category"), member=frame["member"].astype(bool))
    dates = frame.assign(since=pd.to_datetime(frame["since"]), age=frame["age"].astype(float))
    return [
        folder / "people.csv", folder / "people.parquet", folder / "texts.parquet", frame, table, coded, dates,
        frame.astype(object),
    ]  # fmt: skip


@pytest.mark.parametrize("gap", [False, True])
def test_the_form_of_a_table_changes_nothing(tmp_path, gap):
    frame = people()
    if gap:
        frame = frame.astype({"age": "Int64"})
        frame.loc[5, "age"] = pd.NA
        frame = frame.astype({"age": float})
    found = {learn(form).to_toml() for form in forms(frame, tmp_path)}
    assert len(found) == 1


def test_sets_and_vectors_of_arrow():
    rng = np.random.default_rng(2)
    table = pa.table(
        {
            "tags": pa.array([[f"t{k}" for k in rng.integers(0, 3, 4)] + [f"own {i}"] for i in range(N)]),
            "point": pa.array(rng.normal(size=(N, 5)).tolist(), pa.list_(pa.float32(), 5)),
        }
    )
    tags, point = learn(table, most=3).columns
    assert (tags.kind, listed(tags), tags.most) == ("set", ("t0", "t1", "t2"), 3)
    assert (point.kind, point.size) == ("vector", 5)
    assert point.low <= -2
    assert 2 <= point.high <= 16


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_edge_columns_end_with_sensible_bounds(neighbours):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {
            "zero": np.zeros(N, int),
            "seven": np.full(N, 7),
            "constant": np.full(N, -3.5),
            "nothing": [None] * N,
            "heavy": rng.pareto(0.5, N),
            "huge": np.where(rng.random(N) < 0.3, 1e12, 1.0) * rng.random(N),
            "infinite": np.where(rng.random(N) < 0.01, np.inf, rng.random(N)),
            "level": rng.choice(["level", "(missing)"], N),
        }
    )
    columns = {column.name: column for column in learn(frame, epsilon=4.0, neighbours=neighbours).columns}
    assert columns["zero"].kind == "flag"
    assert columns["seven"].low <= 7 <= columns["seven"].high <= 16
    assert -8 <= columns["constant"].low <= -3.5 <= columns["constant"].high <= 1
    assert (columns["nothing"].kind, columns["nothing"].missing) == ("flag", "level")
    assert np.quantile(frame["heavy"], 0.98) <= columns["heavy"].high <= frame["heavy"].max() * 4
    assert 0.9e12 <= columns["huge"].high <= 4e12
    assert 0.9 <= columns["infinite"].high <= 8
    assert listed(columns["level"]) == ("level",)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_a_table_without_rows_has_a_schema_too(neighbours):
    empty = people().iloc[:0].astype({"city": str, "answer": str, "since": str, "name": str})
    schema = learn(empty, neighbours=neighbours)
    assert {column.kind for column in schema.columns} <= {"flag", "integer", "real"}


def test_the_number_of_rows_is_a_noisy_count_where_it_is_protected():
    counts = {learn(people(), neighbours="add-remove", secret=Secret.for_testing(s)).learned.rows for s in range(5)}
    assert len(counts) > 1
    assert all(abs(count - N) < 500 for count in counts)


def test_values_of_one_person_do_not_appear():
    frame = people()
    frame.loc[0, "city"] = "Nowhere"
    for seed in range(5):
        text = learn(frame, secret=Secret.for_testing(seed)).to_toml()
        assert "Nowhere" not in text
        assert "person" not in text


def test_declared_columns_and_kinds_are_kept():
    frame = people().assign(code=lambda f: 10_000 + f["age"] % 3)
    declared = sf.Real("income", 0.0, 1e6)
    schema = learn(frame, id="name", leave_out=["since"], kinds={"code": "category"}, declared=[declared])
    by_name = {column.name: column for column in schema.columns}
    assert [c.name for c in schema.columns] == ["age", "income", "member", "answer", "city", "name", "code"]
    assert by_name["income"] == declared
    assert by_name["name"].kind == "id"
    assert listed(by_name["code"]) == ("10000", "10001", "10002")
    assert "income" not in schema.learned.cut


def test_the_file_says_what_was_learned_at_which_price(tmp_path):
    schema = learn(people(), group=2)
    schema.write(tmp_path / "people.toml")
    assert Schema.read(tmp_path / "people.toml") == schema
    text = (tmp_path / "people.toml").read_text()
    assert "# epsilon 2, delta 1e-06, where a person with at most 2 records is replaced by another." in text
    assert schema.learned.cut.keys() == {"age", "income", "member", "since"}
    made = sf.release(
        people().drop(columns=["name"]),
        schema=schema,
        mechanism=sf.Synthetic(),
        guarantee=Guarantee(epsilon=1.0, delta=1e-6),
        secret=Secret.for_testing(1),
    )
    assert made.manifest["schema"]["learned"]["epsilon"] == 2.0


def ledger(tmp_path, epsilon=3.0):
    made = Ledger.create(tmp_path / "budget.db")
    made.add_dataset("people", Guarantee(epsilon=epsilon, delta=1e-5), pure_share=epsilon / 2, tails=0.1)
    return made


def test_a_schema_and_the_release_that_uses_it_are_charged_to_one_dataset(tmp_path):
    budget, frame = ledger(tmp_path), people().drop(columns=["name"])
    schema = learn_schema(frame, epsilon=1.0, delta=1e-6, ledger=budget)
    (spent,) = budget.dataset("people").releases
    assert (spent.mechanism, spent.state) == ("SchemaLearning", "committed")
    assert schema.learned.ledger == {"dataset": "people", "entry": spent.number}
    sf.release(
        frame, schema=schema, mechanism=sf.Synthetic(), guarantee=Guarantee(epsilon=1.0, delta=1e-6), ledger=budget
    )
    learn_schema(frame, epsilon=0.1, delta=1e-7, ledger=budget, dataset="people")
    assert len(budget.dataset("people").releases) == 3


def test_other_data_are_not_charged_to_the_dataset(tmp_path):
    budget = ledger(tmp_path)
    for name, some in (("a.csv", people()), ("b.csv", people()[1:])):
        some.to_csv(tmp_path / name, index=False)
    learn_schema(tmp_path / "a.csv", epsilon=0.1, delta=1e-7, ledger=budget)
    with pytest.raises(LedgerError, match="another file or schema"):
        learn_schema(tmp_path / "b.csv", epsilon=0.1, delta=1e-7, ledger=budget)


def test_a_budget_that_does_not_suffice_is_refused_before_a_row_is_read(tmp_path, monkeypatch):
    budget = ledger(tmp_path, epsilon=0.5)
    monkeypatch.setattr("sfumato.mechanisms.schema_learning.counting.Reading.tallies", None)
    with pytest.raises(BudgetError):
        learn_schema(people(), epsilon=1.0, delta=1e-6, ledger=budget)
    assert not budget.dataset("people").releases


def test_what_fails_before_a_draw_is_given_back(tmp_path):
    budget, path = ledger(tmp_path), tmp_path / "people.csv"
    path.write_text("a,b\n" + "1,2\n" * 10**6 + "3\n")
    with pytest.raises(SchemaError, match="nothing was drawn, and nothing spent"):
        learn_schema(path, epsilon=1.0, delta=1e-6, ledger=budget)
    assert [spent.state for spent in budget.dataset("people").releases] == ["void"]


def test_test_noise_cannot_be_charged(tmp_path):
    with pytest.raises(ParameterError, match="protects nobody"):
        learn(people(), ledger=ledger(tmp_path))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kinds": {"age": "number"}}, "one of 'real'"),
        ({"kinds": {"height": "real"}}, "no column 'height'"),
        ({"leave_out": list(people(1))}, "no column to learn"),
        ({"delta": 0.0}, "delta > 0"),
        ({"most": 0}, "most"),
        ({"dataset": "people"}, "names a dataset of a ledger"),
    ],
)
def test_what_is_wrong_is_refused(settings, words):
    with pytest.raises((ParameterError, SchemaError), match=words):
        learn(people(50), **settings)


def test_the_plan_states_thresholds_before_a_row_is_read():
    guarantee = Guarantee(epsilon=1.0, delta=1e-6)
    planned = PlannedSchema.of(people(), Description(), guarantee, None)
    limit = max(limit.count for limit in planned.forecast.threshold.values())
    frame = people().assign(city=np.where(np.arange(N) < 2 * limit + 1, "often", [f"c{i}" for i in range(N)]))
    for seed in range(5):
        schema = PlannedSchema.of(frame, Description(), guarantee, None).run(Secret.for_testing(seed))
        assert listed(next(c for c in schema.columns if c.name == "city")) == ("often",)


# ---- which releases a learned schema admits -------------------------------------------------------------------------

WHOLE = Guarantee(epsilon=0.5, delta=1e-6)


def test_another_schema_of_a_learned_source_is_admitted_only_if_it_was_learned_there(tmp_path):
    budget, frame = ledger(tmp_path), people().drop(columns=["name"])
    learned = learn_schema(frame, epsilon=1.0, delta=1e-6, ledger=budget)
    by_hand = replace(learned, learned=None)
    elsewhere = replace(learned, learned=replace(learned.learned, ledger={"dataset": "people", "entry": 77}))
    for schema in (by_hand, elsewhere):
        with pytest.raises(LedgerError, match="ledger admit"):
            sf.release(frame, schema=schema, mechanism=sf.Synthetic(), guarantee=WHOLE, ledger=budget)
    rounder = replace(learned, columns=tuple(c for c in learned.columns if c.kind != "category"))
    for schema in (learned, rounder):
        sf.release(frame, schema=schema, mechanism=sf.Synthetic(), guarantee=WHOLE, ledger=budget)


def test_an_attempt_that_was_voided_admits_nothing(tmp_path, monkeypatch):
    budget, frame = ledger(tmp_path), people().drop(columns=["name"])

    def fail(*_):
        raise RuntimeError("before anything is drawn")

    with monkeypatch.context() as patch:
        patch.setattr(SchemaLearning, "run", fail)
        with pytest.raises(RuntimeError):
            learn_schema(frame, epsilon=1.0, delta=1e-6, ledger=budget)
    (tried,) = budget.dataset("people").releases
    assert tried.state == "void"
    claimed = Learned(epsilon=1.0, delta=1e-6, ledger={"dataset": "people", "entry": tried.number})
    schema = replace(learn_schema(frame, epsilon=0.5, delta=1e-7, ledger=budget), learned=claimed)
    with pytest.raises(LedgerError, match="ledger admit"):
        sf.release(frame, schema=schema, mechanism=sf.Synthetic(), guarantee=WHOLE, ledger=budget)


def test_learning_under_a_cap_with_a_radius_leaves_the_units_to_the_first_release(tmp_path):
    budget, frame = Ledger.create(tmp_path / "balls.db"), people().drop(columns=["name"])
    ball = Guarantee(epsilon=5.0, delta=1e-5, change=sf.Change.l2(1.0))
    budget.add_dataset("people", sf.Cap(ball), pure_share=2.5, tails=0.1)
    schema = learn_schema(frame, epsilon=1.0, delta=1e-6, ledger=budget)
    sf.release(frame, schema=schema, mechanism=sf.Synthetic(), guarantee=WHOLE, ledger=budget)
    other = replace(schema, columns=schema.columns[:-1])
    with pytest.raises(LedgerError, match="radius"):
        sf.release(frame, schema=other, mechanism=sf.Synthetic(), guarantee=WHOLE, ledger=budget)
    learn_schema(frame, epsilon=0.1, delta=1e-7, ledger=budget)
