"""Ledgers whose caps are divided into shares: through the real pipeline, entry by entry."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pv
import pytest

from sfumato.cli import main
from sfumato.errors import BudgetError, LedgerError, ParameterError
from sfumato.ledger.ledger import Ledger, schema_text
from sfumato.ledger.state import Request
from sfumato.mechanisms.sketch import Sketch
from sfumato.mechanisms.table.recipe import Table
from sfumato.pipeline.release import price, release, source_of
from sfumato.pipeline.session import Session
from sfumato.privacy.calibration import least_level
from sfumato.privacy.cap_shares import CapShares
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Gaussian, Laplace
from sfumato.privacy.threshold_loss import FailingGaussian
from sfumato.privacy.units import Cap
from sfumato.tables.columns import Category, Integer
from sfumato.tables.schema import Schema

CAP = Guarantee(epsilon=1.0, delta=1e-6, unit="record")
SCHEMA = Schema([Integer("age", low=0, high=99), Category("city", values=["a", "b"])])
PEOPLE = pa.table({"age": [20, 30, 40, 50] * 10, "city": ["a", "b"] * 20})
TABLE = Table(method="tree", rounds=0)


@pytest.fixture
def budget(tmp_path):
    made = Ledger.create(tmp_path / "budget.db")
    made.add_dataset("people", CAP)
    return made


def table(ledger, epsilon=1.0, delta=1e-6, mechanism=TABLE):
    promise = Guarantee(epsilon=epsilon, delta=delta, unit="record")
    return release(PEOPLE, schema=SCHEMA, mechanism=mechanism, guarantee=promise, ledger=ledger)


def session(ledger):
    return Session(PEOPLE, schema=SCHEMA, ledger=ledger)


def asked(loss_at, epsilon, delta, mechanism="Sketch"):
    promise = Guarantee(epsilon=epsilon, delta=delta, unit="record")
    schema, source = schema_text(SCHEMA.to_dict()), source_of(PEOPLE)
    return Request(mechanism, promise, loss_at(1.0), loss_at, 2, schema=schema, source=source)


def noise(epsilon, delta=1e-6, mechanism="Sketch"):
    level = least_level(lambda scale: Gaussian(1.0, scale), epsilon, delta)
    return asked(lambda times: Gaussian(1.0, level * times), epsilon, delta, mechanism)


def pure(epsilon, mechanism="Sketch"):
    return asked(lambda times: Laplace(epsilon, times), epsilon, 0.0, mechanism)


def learned(failure=1e-8):
    return asked(lambda times: FailingGaussian(0.05, times, failure), 0.2, 1e-7)


def shares(ledger, cap=0):
    return ledger.dataset("people").shares(cap)


# ---- exactly a cap ---------------------------------------------------------------------------------------------------


def test_a_table_fits_a_ledger_of_its_own_size_and_nothing_fits_after_it(budget):
    table(budget)
    dataset = budget.dataset("people")
    assert (dataset.total(0).epsilon, dataset.remaining(0)) == (1.0, 0.0)
    with pytest.raises(BudgetError, match=r"has spent 1 of epsilon 1 .* nothing of this kind would fit"):
        session(budget).ask("age > 30", epsilon=0.001)
    with pytest.raises(BudgetError):
        table(budget, 0.01, 1e-9)


def test_a_pure_release_fits_a_ledger_of_its_own_size_and_nothing_fits_after_it(budget):
    table(budget, 1.0, 0.0)
    dataset = budget.dataset("people")
    assert (dataset.total(0).epsilon, dataset.remaining(0)) == (1.0, 0.0)
    with pytest.raises(BudgetError, match=r"nothing of this kind would fit$"):
        session(budget).ask("age > 30", epsilon=1e-6)


def test_ten_asks_of_a_tenth_cost_one_and_the_eleventh_is_refused(budget):
    asking = session(budget)
    for number in range(10):
        answer = asking.ask("age > 30", epsilon=0.1)
        assert answer.remaining == pytest.approx(0.9 - 0.1 * number, abs=1e-12)
    assert budget.dataset("people").total(0).epsilon == 1.0
    with pytest.raises(BudgetError, match="has spent 1 of epsilon 1"):
        asking.ask("age > 30", epsilon=0.1)


# ---- what fixes the shares -------------------------------------------------------------------------------------------


def test_a_ledger_is_not_divided_before_its_first_release(budget):
    assert shares(budget) is None
    assert budget.dataset("people").remaining(0) == 1.0
    (quote,) = price(
        PEOPLE, schema=SCHEMA, mechanism=TABLE, guarantee=Guarantee(epsilon=0.5, delta=1e-6), ledger=budget
    )
    assert (quote.share, quote.shares, quote.fits) == ("gaussian", CapShares(0.0), True)
    assert shares(budget) is None


@pytest.mark.parametrize(
    ("first", "expected", "share"),
    [
        (pure(0.1), CapShares(None), "pure"),
        (noise(0.3), CapShares(0.0), "gaussian"),
        (learned(), CapShares(0.0, 5e-8), "gaussian"),
    ],
)
def test_the_first_reservation_fixes_the_shares_and_its_entry_has_them(budget, first, expected, share):
    budget.account("people").reserve(first)
    assert shares(budget) == expected
    body = budget.journal.entries()[-1].body["charges"][0]
    assert body["share"] == share
    assert CapShares.from_json(body["shares"]) == expected
    (charge,) = budget.dataset("people").spent(0).counts
    assert charge.share == share


def test_after_a_pure_release_epsilons_and_deltas_add_up(budget):
    account = budget.account("people")
    account.reserve(pure(0.2))
    account.reserve(noise(0.3, 6e-7))
    assert budget.dataset("people").total(0).epsilon == 0.5
    with pytest.raises(
        BudgetError, match="the first release fixed that epsilons and deltas of this cap add up, deltas"
    ):
        account.reserve(noise(0.3, 6e-7))
    account.reserve(noise(0.3, 4e-7))
    account.reserve(pure(0.2))
    assert budget.dataset("people").remaining(0) == 0


def test_a_sketch_with_laplace_noise_leaves_its_delta_to_others(budget):
    table(budget, 0.5, 1e-6, Sketch(dimension=2, seed=1))
    assert budget.journal.entries()[1].body["charges"][0]["epsilon"] == 0.500003
    (charge,) = budget.dataset("people").spent(0).counts
    assert (charge.epsilon, charge.delta) == (0.500003, 0.0)
    account = budget.account("people")
    account.reserve(noise(0.4))
    assert budget.dataset("people").total(0).epsilon == 0.900003


def test_a_second_learned_schema_needs_a_share_of_tails(tmp_path):
    budget = Ledger.create(tmp_path / "b.db")
    budget.add_dataset("people", CAP, pure_share=0.5)
    account = budget.account("people")
    account.reserve(learned())
    with pytest.raises(BudgetError, match="the rest for Gaussian noise, with 0 of delta for failures"):
        account.reserve(learned())


def test_after_a_gaussian_release_pure_ones_cost_more_and_the_refusal_says_so(budget):
    account = budget.account("people")
    account.reserve(noise(0.5))
    account.reserve(pure(0.1))
    with pytest.raises(
        BudgetError, match=r"where Laplace noise and other pure losses cost more than their epsilon; `sf"
    ):
        account.reserve(pure(0.4))


def test_a_void_reservation_fixes_nothing(budget):
    account = budget.account("people")
    first = account.reserve(noise(0.5))
    first.void("another one comes first")
    assert shares(budget) is None
    account.reserve(pure(1.0))
    assert shares(budget) == CapShares(None)


def test_shares_stay_while_a_reservation_that_was_made_under_them_is_live(budget):
    account = budget.account("people")
    first = account.reserve(pure(0.1))
    account.reserve(noise(0.3, 1e-7))
    first.void("not needed")
    assert shares(budget) == CapShares(None)
    assert budget.dataset("people").total(0).epsilon == 0.3


def test_each_cap_has_shares_of_its_own(tmp_path):
    budget = Ledger.create(tmp_path / "b.db")
    budget.add_dataset("people", CAP, pure_share=0.5)
    budget.set_cap("people", Cap(Guarantee(epsilon=2.0, delta=1e-6, unit="record", neighbours="add-remove")))
    promise = Guarantee(epsilon=0.1, unit="record", neighbours="add-remove")
    request = replace(pure(0.1), guarantee=promise)
    budget.account("people", convert=True).reserve(request)
    assert (shares(budget, 0), shares(budget, 1)) == (CapShares(0.5), CapShares(None))


def test_parts_share_the_shares_and_each_has_all_of_them(tmp_path):
    budget = Ledger.create(tmp_path / "b.db")
    budget.add_dataset("people", CAP, parts_by="city")
    for part in ("a", "b"):
        budget.account("people", part=part).reserve(pure(0.7))
    assert budget.dataset("people").total(0).epsilon == 0.7
    budget.account("people").reserve(pure(0.3))
    with pytest.raises(BudgetError):
        budget.account("people", part="b").reserve(pure(0.1))


# ---- declared shares -------------------------------------------------------------------------------------------------


def test_declared_shares_hold_from_the_start(tmp_path):
    budget = Ledger.create(tmp_path / "b.db")
    budget.add_dataset("people", CAP, pure_share=0.4, tails=0.05)
    assert shares(budget) == CapShares(0.4, 0.05 * 1e-6)
    account = budget.account("people")
    account.reserve(learned())
    account.reserve(noise(0.4))
    for _ in range(4):
        account.reserve(pure(0.1))
    found = budget.dataset("people").spent(0).counts
    assert sorted((c.share, n) for c, n in found.items()) == [("gaussian", 1), ("gaussian", 1), ("pure", 4)]
    with pytest.raises(BudgetError, match=r"its owner declared that epsilon 0\.4 of this cap is for pure releases"):
        account.reserve(noise(0.6))


def test_a_raised_cap_gives_more_to_the_gaussian_share(tmp_path):
    budget = Ledger.create(tmp_path / "b.db")
    budget.add_dataset("people", CAP, pure_share=0.5)
    account = budget.account("people")
    account.reserve(pure(0.5))
    account.reserve(noise(0.5))
    budget.set_cap("people", Guarantee(epsilon=2.0, delta=1e-6, unit="record"))
    account.reserve(noise(0.9))
    assert shares(budget) == CapShares(0.5)


@pytest.mark.parametrize(
    ("terms", "match"),
    [
        ({"pure_share": 2.0}, "larger than the cap"),
        ({"tails": 0.1}, "how large the pure share is"),
        ({"pure_share": 0.5, "composition": "basic"}, "composition='filter'"),
        ({"programme": [{"loss": "pure", "epsilon": 1}], "composition": "tight"}, "composition='filter'"),
        ({"programme": [{"loss": "pure", "epsilon": 1}], "pure_share": 0.5}, "give a programme, or shares"),
        ({"programme": [{"loss": "pure", "epsilon": 3}]}, "together cost"),
        ({"programme": "nowhere.toml"}, "cannot be read"),
        ({"programme": "."}, "cannot be read"),
    ],
)
def test_a_division_that_cannot_be_is_refused(tmp_path, terms, match):
    budget = Ledger.create(tmp_path / "b.db")
    with pytest.raises((ParameterError, LedgerError), match=match):
        budget.add_dataset("people", CAP, **terms)
    assert budget.datasets() == []


# ---- programmes ------------------------------------------------------------------------------------------------------

PLAN = """
[[release]]
loss = "gaussian"
epsilon = 0.4
delta = 1e-6
mechanism = "Table"

[[release]]
loss = "pure"
epsilon = 0.01
count = 30
"""


@pytest.fixture
def planned(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    made = Ledger.create(tmp_path / "budget.db")
    made.add_dataset("people", CAP, programme=tmp_path / "plan.toml")
    return made


def test_a_programme_is_made_in_any_order_each_release_once(planned):
    account = planned.account("people")
    for _ in range(20):
        account.reserve(pure(0.01))
    table(planned, 0.4)
    for _ in range(10):
        account.reserve(pure(0.005))
    dataset = planned.dataset("people")
    assert {c.share: n for c, n in dataset.spent(0).counts.items()} == {0: 1, 1: 10} | {1: 10}
    assert dataset.total(0).epsilon == dataset.programme.epsilon < 0.5
    left = dataset.remaining(0)
    assert left == pytest.approx(1 - dataset.programme.epsilon)
    account.reserve(pure(left))
    with pytest.raises(BudgetError, match="no unused line of it covers this release"):
        account.reserve(pure(0.01))


def test_what_was_not_planned_falls_back_to_the_pure_share(planned):
    account = planned.account("people")
    with pytest.raises(BudgetError, match="all of delta belong to the programme"):
        account.reserve(noise(0.4))  # the line is for another mechanism
    account.reserve(pure(0.3))
    with pytest.raises(BudgetError):
        table(planned, 0.41)
    table(planned, 0.4)
    shares_used = sorted(str(c.share) for c in planned.dataset("people").spent(0).counts)
    assert shares_used == ["0", "pure"]


def test_a_void_reservation_gives_its_line_back(planned):
    account = planned.account("people")
    account.reserve(noise(0.4, mechanism="Table")).void("again")
    assert planned.dataset("people").total(0).epsilon == 0
    account.reserve(noise(0.4, mechanism="Table"))
    with pytest.raises(BudgetError):
        account.reserve(noise(0.1, mechanism="Table"))


def test_the_cap_of_a_programme_can_be_raised_but_not_cut_short(planned):
    planned.set_cap("people", Guarantee(epsilon=2.0, delta=1e-6, unit="record"))
    planned.account("people").reserve(pure(1.4))
    with pytest.raises(LedgerError, match="a cap below that"):
        planned.set_cap("people", Guarantee(epsilon=0.3, delta=1e-6, unit="record"))
    with pytest.raises(LedgerError, match="a cap below that"):
        planned.set_cap("people", Guarantee(epsilon=1.0, delta=1e-7, unit="record"))


def test_a_programme_has_one_cap(planned):
    with pytest.raises(LedgerError, match="was declared for one cap"):
        planned.set_cap("people", Guarantee(epsilon=2.0, delta=1e-6, unit="record", neighbours="add-remove"))


def test_ledgers_that_were_made_without_shares_are_read_as_before(tmp_path):
    budget = Ledger.create(tmp_path / "b.db")
    budget.add_dataset("people", CAP, composition="tight")
    release(
        PEOPLE, schema=SCHEMA, mechanism=Sketch(dimension=2, seed=1), guarantee=Guarantee(epsilon=0.5), ledger=budget
    )
    assert "share" not in budget.journal.entries()[1].body["charges"][0]
    assert budget.dataset("people").total(0).bound in ("basic", "advanced", "tight")
    assert shares(budget) is None


# ---- in the words of the command -------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pv.write_csv(PEOPLE, "people.csv")
    SCHEMA.write("people.toml")
    Path("plan.toml").write_text(PLAN)


def run(line, capsys, code=0):
    capsys.readouterr()
    assert main(shlex.split(line)) == code
    told = capsys.readouterr()
    return told.out + told.err


INIT = "ledger init b.db --dataset people --epsilon 1 --delta 1e-6"


@pytest.mark.usefixtures("files")
def test_the_command_says_that_the_first_release_decides(capsys):
    assert "the first release decides" in run(INIT, capsys)
    assert "the first release decides" in run("ledger show b.db", capsys)
    run("ask people.csv 'age > 30' --schema people.toml --epsilon 0.1 --ledger b.db", capsys)
    told = run("ledger show b.db", capsys)
    assert "Shares: epsilons of releases add up, and their deltas, to at most 1e-06" in told
    assert "Spent:  epsilon 0.1 (sum of epsilons)" in told
    assert "Left:   epsilon 0.9 (pure)" in told


@pytest.mark.usefixtures("files")
def test_the_command_divides_a_cap(capsys):
    told = run(f"{INIT} --pure-share 0.4 --tails 0.05", capsys)
    assert "epsilon 0.4 for pure releases, epsilon 0.6 at delta 1e-06 for Gaussian noise (5e-08 of delta for" in told
    terms = "table people.csv --schema people.toml --delta 1e-6 --method tree --ledger b.db"
    run(f"release {terms} --epsilon 0.5 --out t.release", capsys)
    run("ask people.csv 'age > 30' --schema people.toml --epsilon 0.1 --ledger b.db", capsys)
    assert "epsilon 0.6 (sum of epsilons 0.1 + Gaussian noise 0.5)" in run("ledger show b.db", capsys)
    told = run(f"ledger price {terms} --epsilon 0.5", capsys)
    assert "(Gaussian noise). EXCEEDS ITS SHARE OF THE CAP: epsilon 0.4 for pure releases" in told
    assert "does not fit (its owner declared" in run(f"release {terms} --epsilon 0.5 --out u.release", capsys, 2)
    facts = json.loads(run("ledger show b.db --json", capsys))["datasets"][0]
    assert facts["caps"][0]["shares"] == {"pure": 0.4, "tails": 5e-8}
    with pytest.raises(SystemExit):
        run(f"{INIT} --pure-share some", capsys)
    assert "an epsilon or 'all', got 'some'" in capsys.readouterr().err


@pytest.mark.usefixtures("files")
def test_the_command_takes_a_programme(capsys):
    assert "Programme: 31 planned, together epsilon 0.4" in run(f"{INIT} --programme plan.toml", capsys)
    told = run("ask people.csv 'age > 30' --schema people.toml --epsilon 0.01 --ledger b.db --price", capsys)
    assert "line 2 of the programme" in told
    run("ask people.csv 'age > 30' --schema people.toml --epsilon 0.01 --ledger b.db", capsys)
    told = run("ledger show b.db", capsys)
    assert "pure         0.01        0    1 of 30  any" in told
    assert "gaussian      0.4    1e-06     0 of 1  Table" in told


@pytest.mark.usefixtures("files")
def test_tight_ledgers_say_what_they_assume(capsys):
    assert "Assumes: no release had its epsilon" in run(f"{INIT} --composition tight", capsys)
    assert "Assumes: no release had its epsilon" in run("ledger show b.db", capsys)
