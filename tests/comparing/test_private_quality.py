"""Private comparisons: what one unit moves, that all goes through the meter, and that it is charged beforehand."""

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

from sfumato.cli import main
from sfumato.comparing.private_distances import PrivateDistances, counts, distances, scaled
from sfumato.comparing.private_quality import compare_privately, page
from sfumato.comparing.quality import compare
from sfumato.comparing.tally import ComparedParts, fine_counts
from sfumato.errors import BudgetError, ParameterError
from sfumato.ledger.ledger import Ledger
from sfumato.marginals.partition import Partition
from sfumato.mechanisms.table.budget import TableMoves
from sfumato.pipeline.release import release
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.units import Cap
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Flag, Integer, Real
from sfumato.tables.schema import Schema
from support.kinds import PEOPLE, people
from support.synthetic_tables import RECORD, FixedTable, decoded

SECRET = Secret.for_testing(7)
SMALL = Schema(
    [Integer("a", 0, 3), Flag("b"), Category("c", ["x", "y"]), Real("d", 0, 1, missing="level")], scale="bounds"
)


def rows_of(rng, count):
    return pa.table(
        {
            "a": rng.integers(-1, 5, count),
            "b": rng.random(count) < 0.5,
            "c": rng.choice(["x", "y", "nobody"], count),
            "d": pa.array([None if rng.random() < 0.2 else float(rng.random()) for _ in range(count)], pa.float64()),
        }
    )


def parts(schema, table):
    partition = Partition.of(schema)
    return ComparedParts.of(partition, fine_counts(partition, table.to_batches()))


def exact(compared, table, target):
    codes = compared.partition.read(table.combine_chunks().to_batches()[0])
    return distances(compared, counts(compared, codes), target)


# ---- what one unit moves --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("group", [1, 3])
def test_no_neighbour_moves_distances_farther_than_is_claimed(neighbours, group):
    rng = np.random.default_rng(3)
    compared = parts(SMALL, rows_of(rng, 40))
    claimed = {order: TableMoves(neighbours == "replace", group, order).scores(5) for order in (1, 2)}
    each = group * (2 if neighbours == "replace" else 1)
    worst = np.zeros(5, np.int64)
    for _ in range(400):
        table, others = rows_of(rng, int(rng.integers(group, 12))), rows_of(rng, group)
        rest = table.slice(group)
        target = counts(compared, compared.partition.read(rows_of(rng, 8).to_batches()[0]))
        changed = pa.concat_tables([rest, others]) if neighbours == "replace" else pa.concat_tables([table, others])
        moved = abs(exact(compared, table, target) - exact(compared, changed, target))
        assert moved.max() <= each
        assert moved.sum() <= claimed[1] + 1e-9
        assert math.sqrt(float((moved**2).sum())) <= claimed[2] + 1e-9
        worst = np.maximum(worst, moved)
    assert (worst[:4] == each).all()  # the bound of single columns is reached
    assert worst[4] > each / 2


def test_a_run_feeds_nothing_else_to_its_noise(monkeypatch):
    rng = np.random.default_rng(5)
    compared = parts(SMALL, rows_of(rng, 30))
    target = counts(compared, compared.partition.read(rows_of(rng, 20).to_batches()[0]))
    mechanism = PrivateDistances.of(compared, target, 20, Guarantee(epsilon=1.0, delta=1e-5))
    level = calibrate(mechanism, mechanism.guarantee).level
    table = rows_of(rng, 20)
    block = compared.partition.read(table.to_batches()[0])
    fed = []
    draw = mechanism.run.__globals__["Meter"].scored
    monkeypatch.setattr(
        mechanism.run.__globals__["Meter"], "scored", lambda self, *a: fed.append((self, a)) or draw(self, *a)
    )
    found = mechanism.run(_Block(block), level, SECRET)
    ((meter, (scores, scale, *_)),) = fed
    assert scores.tolist() == exact(compared, table, mechanism.target).tolist()
    assert 0.999 < meter.spent <= 1
    assert found.deviation == pytest.approx(scale, rel=1e-6)
    assert scale >= 2 * math.sqrt(5) * level  # sqrt(q) distances, each moving by 2


class _Block:
    """Rows as an engine offers them: one block of codes."""

    def __init__(self, block):
        self.block = block

    def sum(self, function):
        return function(0, self.block)


def test_counts_are_scaled_to_whole_numbers_of_the_same_total():
    rng = np.random.default_rng(0)
    for _ in range(200):
        found, total = rng.integers(0, 50, rng.integers(1, 20)), int(rng.integers(0, 2000))
        made = scaled(found, total)
        if found.sum():
            assert made.sum() == total
            assert abs(made - found * total / found.sum()).max() < 1
        assert (made >= 0).all()
    assert scaled(np.zeros(3, np.int64), 5).sum() <= 5


# ---- the summary ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other():
    mechanism = FixedTable(decoded(PEOPLE, people(157, seed=2)))
    return release(people(), schema=PEOPLE, mechanism=mechanism, guarantee=RECORD)


def test_noisy_distances_are_about_the_exact_ones_within_their_errors(other):
    sure = compare(people(), other)
    found = compare_privately(people(), other, epsilon=50.0, delta=1e-6, secret=SECRET)
    for column, truth in zip(found.columns, sure.columns, strict=True):
        assert column.name == truth.name
        assert abs(column.value - truth.distance) < 5 * column.error + 0.01
    assert abs(found.two_way.value - sure.two_way) < 5 * found.two_way.error + 0.05  # whole numbers, rounded
    assert found.one_way.error == pytest.approx(found.columns[0].error / 2)  # the mean of four
    assert found.records == 157
    assert 0 <= found.columns[0].interval[0] <= found.columns[0].interval[1] <= 1


def test_noise_has_the_stated_deviation(other):
    drawn = [
        compare_privately(people(), other, epsilon=1.0, delta=1e-6, secret=Secret.for_testing(i)) for i in range(60)
    ]
    values = np.array([[c.value for c in quality.columns] for quality in drawn])
    spread = values.std(axis=0, ddof=1).mean()
    assert spread == pytest.approx(drawn[0].columns[0].error, rel=0.2)


def test_pure_epsilon_takes_laplace_noise(other):
    found = compare_privately(people(), other, epsilon=2.0, secret=SECRET)
    error = math.sqrt(2) * 2 * 5 / 2.0 / (2 * 157)  # scale 2q/epsilon in records
    assert found.columns[0].error == pytest.approx(error, rel=1e-3)
    assert found.columns[0].half == pytest.approx(math.log(20) * error / math.sqrt(2), rel=1e-3)  # the 5% tails


def _fails(*_):
    raise ParameterError("stopped")


def test_a_summary_is_charged_in_full_before_a_row_is_read(other, tmp_path, monkeypatch):
    place = tmp_path / "budget.db"
    Ledger.create(place).add_dataset("people", Cap(Guarantee(epsilon=5.0, delta=1e-5)))
    pc.write_csv(people(), tmp_path / "people.csv")
    found = compare_privately(tmp_path / "people.csv", other, epsilon=0.6, delta=1e-6, ledger=place)
    (spent,) = Ledger(place).dataset("people").releases
    assert (spent.mechanism, spent.state) == ("PrivateDistances", "committed")
    assert spent.guarantee.epsilon == 0.6
    assert found.facts["ledger"]["entry"] == spent.number
    with pytest.raises(BudgetError, match="would bring it"):
        compare_privately(tmp_path / "people.csv", other, epsilon=9.0, delta=1e-6, ledger=place)
    monkeypatch.setattr(PrivateDistances, "run", _fails)
    with pytest.raises(ParameterError, match="stopped; nothing was drawn, and nothing spent"):
        compare_privately(tmp_path / "people.csv", other, epsilon=0.6, delta=1e-6, ledger=place)
    assert [s.state for s in Ledger(place).dataset("people").releases] == ["committed", "void"]


def test_noise_that_would_hide_everything_is_refused_before_anything_is_spent(other, tmp_path):
    place = tmp_path / "budget.db"
    Ledger.create(place).add_dataset("people", Cap(Guarantee(epsilon=1.0, delta=1e-5)))
    with pytest.raises(ParameterError, match="larger epsilon; nothing was spent"):
        compare_privately(people(), other, epsilon=0.01, delta=1e-6, ledger=place)
    assert Ledger(place).dataset("people").releases == ()


def test_test_noise_is_not_charged_and_marked(other, tmp_path):
    place = tmp_path / "budget.db"
    Ledger.create(place).add_dataset("people", Cap(Guarantee(epsilon=1.0, delta=1e-5)))
    with pytest.raises(ParameterError, match="test noise"):
        compare_privately(people(), other, epsilon=4.0, ledger=place, secret=SECRET)
    assert "PROTECTS NOBODY" in page(compare_privately(people(), other, epsilon=4.0, secret=SECRET))


def test_the_page_and_the_command(other, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pc.write_csv(people(), "people.csv")
    other.save("people.release")
    Ledger.create("budget.db").add_dataset("people", Cap(Guarantee(epsilon=1.0, delta=1e-5)))
    line = "compare people.csv people.release --epsilon 0.4 --delta 1e-6 --ledger budget.db --out quality.html --json"
    assert main(line.split()) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ledger"]["dataset"] == "people"
    assert set(told["columns"]) == {"age", "income", "smoker", "city"}
    text = (tmp_path / "quality.html").read_text(encoding="utf-8")
    assert "may travel" in text
    assert "real data" not in text
    assert "<script" not in text
    for wrong in ("--delta 1e-6", "--ledger budget.db", "--neighbours replace"):
        assert main(f"compare people.csv people.release {wrong} --out other.html".split()) == 2
        assert "--epsilon" in capsys.readouterr().err
