"""The guarantee of synthetic tables on the path that releases take, from a file or a frame to a manifest and rows.

``test_privacy`` searches neighbours of encoded tables. Here cells are read by ``Partition.read``, blocks come from an
engine, which keeps their codes or reads them again, and the method is chosen as in a release. A replay has the noisy
outcomes of the recorded release, so what was fed to each draw, and all that is released, can be compared.
"""

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.audit import recorder
from sfumato.audit.recorder import Tape
from sfumato.engines import local
from sfumato.marginals.partition import Partition
from sfumato.randomness import private_selection
from tests.support.all_kinds import DAY
from tests.support.short_fits import shorten
from tests.support.table_draws import claim, moved, stage

SCHEMA = sf.Schema(
    (
        sf.Real("a", 0.0, 10.0),
        sf.Integer("b", 0, 300),
        sf.Category("c", ("1", "2", "x")),
        sf.Flag("f"),
        sf.Date("d", *DAY),
        sf.Ordinal("o", ("lo", "mid", "9"), missing="level"),
    )
)
WILD = {
    "a": ("zzz", " 5", None, "1e400", "nan", 3.5),
    "b": ("q", None, "7.5", "1e30", -5, "9007199254740993"),
    "c": ("01", None, "2.0", "x ", "y"),
    "f": ("maybe", None, "1", "true"),
    "d": ("never", "9999-12-31", "2020-01-05T10:00+02:00", None, "20000-01-01"),
    "o": ("hi", None, "9.0"),
}
FORBID = ("f = true and c = 'x'", "b > 250 and c = '2'")
RECIPES = {
    "pairs": sf.Table("c", 40, method="pairs", rounds=1),
    "tree": sf.Table("c", 40, method="tree"),
    "tree, forbid": sf.Table(None, 40, method="tree", forbid=FORBID),
}


@pytest.fixture(autouse=True)
def short_fits(monkeypatch):
    shorten(monkeypatch)


def plain_row(rng):
    day = f"2020-{int(rng.integers(1, 13)):02d}-11"
    c, o = str(rng.choice(["1", "2", "x"])), str(rng.choice(["lo", "mid", "9"]))
    return {
        "a": rng.integers(0, 21) / 2,
        "b": int(rng.integers(0, 301)),
        "c": c,
        "f": int(rng.integers(2)),
        "d": day,
        "o": o,
    }


def wild_row(rng):
    return {name: cells[int(rng.integers(len(cells)))] for name, cells in WILD.items()}


def neighbours(rng, promise, rows=30):
    """Two frames that differ in one record: one with cells that change the types of all columns."""
    shared = [plain_row(rng) for _ in range(rows)]
    other = [plain_row(rng)] if promise == "replace" else []
    pair = [pd.DataFrame([*shared, *rest], columns=list(WILD)) for rest in ([wild_row(rng)], other)]
    return pair if rng.random() < 0.5 else pair[::-1]


def replayed(pair, schema, recipe, guarantee):
    """How far each stage moved between releases of two tables, as a share of what the budget claims.

    The second release has the noisy outcomes of the first. So all that is released is the same.
    """
    tape = Tape()
    again = tape.replay()
    made = [
        sf.release(data, schema=schema, mechanism=recipe, guarantee=guarantee, secret=recorder.secret(taped))
        for data, taped in zip(pair, (tape, again), strict=True)
    ]
    assert tape.faults == again.faults == again.missing() == []
    prepared, furthest = recipe.prepare(schema, guarantee), {}
    for key, draw in tape.draws.items():
        share = moved(prepared, draw, again.draws[key]) / max(claim(prepared, draw), 1e-300)  # there may be no scores
        assert share <= 1 + 1e-12
        furthest[stage(draw)] = max(furthest.get(stage(draw), 0.0), share)
    assert made[0].manifest == made[1].manifest
    assert made[0].to_pandas().equals(made[1].to_pandas())
    return furthest, made[0].manifest["mechanism"], tape


def as_file(frame, folder, side):
    (folder / side).mkdir(exist_ok=True)
    frame.to_csv(folder / side / "t.csv", index=False)
    return folder / side / "t.csv"


@pytest.mark.parametrize("kept", [True, False], ids=["kept codes", "read again"])
@pytest.mark.parametrize("path", RECIPES)
@pytest.mark.parametrize("promise", ["replace", "add-remove"])
def test_cells_that_change_types_move_what_is_released_by_one_record(tmp_path, monkeypatch, promise, path, kept):
    read, readings = Partition.read, []
    monkeypatch.setattr(Partition, "read", lambda self, batch: readings.append(1) or read(self, batch))
    monkeypatch.setattr(local, "_KEPT", local._KEPT if kept else 0)
    rng = np.random.default_rng(len(path))
    for epsilon, delta in ((1.0, 0.0), (30.0, 1e-3)):
        pair = neighbours(rng, promise)
        files = [as_file(frame, tmp_path, side) for frame, side in zip(pair, "AB", strict=True)]
        guarantee = sf.Guarantee(epsilon=epsilon, delta=delta, neighbours=promise)
        for data in (pair, files):
            readings.clear()
            furthest, _, _ = replayed(data, SCHEMA, RECIPES[path], guarantee)
            assert (len(readings) == len(data)) == kept  # one block each
            assert furthest["one-way"] > 1 - 1e-12


@pytest.mark.parametrize("promise", ["replace", "add-remove"])
def test_a_tree_that_auto_chooses_from_thousands_of_pairs_moves_by_one_record(monkeypatch, promise):
    """So many candidates are chosen from by rejection, by words of a number that depends on the scores."""
    accepted, sizes = private_selection._accepted, []
    spy = lambda words, scores, rate: sizes.append(len(scores)) or accepted(words, scores, rate)  # noqa: E731
    monkeypatch.setattr(private_selection, "_accepted", spy)
    rng, count = np.random.default_rng(2), 92  # 4,186 pairs
    table = (rng.random((400, count)) < 0.5).astype(float)
    table[:, 1], table[:, 50] = table[:, 0], table[:, 3]
    other = np.vstack([1 - table[:1], table[1:]]) if promise == "replace" else table[1:]
    schema = sf.Schema(tuple(sf.Flag(f"f{place}") for place in range(count)))
    guarantee = sf.Guarantee(epsilon=4.0, delta=1e-6, neighbours=promise)
    furthest, facts, tape = replayed((table, other), schema, sf.Table(rows=40), guarantee)
    assert facts["method"] == "tree"
    assert furthest["tree"] > 1 - 1e-12
    assert max(draw.fed.size for draw in tape.draws.values() if draw.law == "choice") == max(sizes) == 4187
