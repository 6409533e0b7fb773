"""The frame of reproduced results: what is measured is kept, shown and repeated; and a sample of the pages is."""

import itertools
import json
import math
import time
from pathlib import Path

import numpy as np
import pytest

import reproduce
from page import Experiment, Measured, Paper, Picture, Setting, Table, as_json, from_json, markdown
from sfumato.cli import main


def dice(setting):
    yield "The mean of dice."
    rolls = setting.rng().integers(1, 7, setting.often(600, 60))
    yield Table("dice", ["faces", "mean", "exact"], [[6, Measured.of(rolls), 3.5]], {"mean": ".2f"})
    setting.picture("dice.svg").write_text("<svg/>")
    yield Picture("dice.svg", "no dice")


def coins(_):
    yield Table("coins", ["heads"], [[Measured.share(0, 10)]])


def lost(_):
    pytest.fail("its data are missing")
    yield ""


PAPERS = [
    Paper("games", "Games", (Experiment("dice", "Dice", dice), Experiment("coins", "Coins", coins, ("a.csv",), "air"))),
    Paper("lost", "Lost", (Experiment("lost", "Lost", lost, ("b.csv",)),), page="errata"),
]


@pytest.fixture
def wish(tmp_path):
    return reproduce.Wish(tmp_path / "out", quick=True)


def test_all_of_it_is_kept_and_shown(wish, capfd):
    reproduce.reproduce("all", wish, PAPERS)
    page, kept = (wish.out / "results.md").read_text(), json.loads((wish.out / "results.json").read_text())
    assert "| 6 | 3." in page
    assert "![no dice](figures/dice.svg)" in page
    assert list(kept) == ["dice", "coins", "lost"]
    assert kept["dice"]["seed"] == 1
    assert kept["dice"]["versions"]["numpy"] == np.__version__
    assert "a.csv is not in the data folder: air stands in." in page
    assert "b.csv is not in the data folder: left out." in (wish.out / "errata.md").read_text()
    told = capfd.readouterr().err
    assert "[3/3]" in told
    assert "b.csv" in told


def test_running_one_replaces_its_numbers_and_leaves_the_others(wish):
    reproduce.reproduce("all", wish, PAPERS)
    before = json.loads((wish.out / "results.json").read_text())
    reproduce.reproduce("dice", reproduce.Wish(wish.out, seed=2), PAPERS)
    after = json.loads((wish.out / "results.json").read_text())
    assert after["coins"] == before["coins"]
    assert after["dice"]["parts"] != before["dice"]["parts"]
    assert "2 of 3 sections come from a quick run" in (wish.out / "results.md").read_text()


def fails(_):
    yield "so far"
    raise RuntimeError("it went wrong")


def sleeps(setting):
    setting.picture("slept").write_text("started")
    time.sleep(600)
    yield ""


def test_what_fails_stops_the_others_at_once(wish):
    experiments = (Experiment("sleeps", "Sleeps", sleeps), Experiment("fails", "Fails", fails))
    with pytest.raises(RuntimeError, match="it went wrong"):
        reproduce.reproduce("all", wish, [Paper("bad", "Bad", experiments)])
    assert not (wish.out / "results.json").exists()


def test_a_seed_gives_the_same_numbers_again(wish):
    first, again, other = (
        reproduce.run_one(PAPERS[0].experiments[0], reproduce.Wish(wish.out, seed=seed))["parts"] for seed in (5, 5, 6)
    )
    assert first == again
    assert first != other


def test_streams_of_a_setting_differ_by_name_and_purpose(tmp_path):
    setting = Setting("a", tmp_path)
    others = [setting.rng("noise"), Setting("b", tmp_path).rng(), Setting("a", tmp_path, seed=2).rng()]
    first = setting.rng().random()
    assert all(first != other.random() for other in others)


@pytest.mark.parametrize(
    "part",
    [
        "text",
        Picture("a.svg", "a"),
        Table("t", ["a", "b"], [[1, Measured(2.0, 0.1, 5)], ["x", None]], {"b": ".1f"}),
        Table("t", ["a"], [[Measured(1.0, math.nan, 1, math.nan)]]),
    ],
)
def test_parts_come_back_from_json(part):
    again = from_json(json.loads(json.dumps(as_json(part), allow_nan=False)))
    assert markdown(again) == markdown(part)


def test_a_share_that_never_happened_has_an_error():
    assert Measured.share(0, 100).error > 0.01
    assert Measured.of([1.0, 3.0]).error == pytest.approx(1.0)


def test_names_that_are_none_are_refused(capsys):
    assert main(["reproduce", "nothing-of-this-name"]) == 2
    assert "run `sfumato reproduce` for a list" in capsys.readouterr().err


def test_a_folder_that_is_none_is_refused(capsys, tmp_path):
    assert main(["reproduce", "all", "--quick", "--data", str(tmp_path / "none")]) == 2
    assert "not a folder" in capsys.readouterr().err


@pytest.mark.parametrize(("given", "said"), [("--seed=-1", "seed=-1"), ("--jobs=0", "jobs=0"), ("--out={}", "--out")])
def test_odd_options_are_refused_before_anything_is_run(given, said, capsys, tmp_path):
    (tmp_path / "file").write_text("mine")
    assert main(["reproduce", "blocki-ridge", "--quick", given.format(tmp_path / "file")]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"


def test_experiments_say_how_far_they_are(wish, capsys):
    wish.setting("dice").told("half of it")
    assert capsys.readouterr().err == "    dice: half of it\n"


def test_without_a_name_experiments_are_listed(capsys):
    assert main(["reproduce"]) == 0
    listed = capsys.readouterr().out
    assert all(e.name in listed and p.title in listed for p in reproduce.catalogue() for e in p.experiments)


# ---- a sample of the pages ------------------------------------------------------------------------------------------

PAGES = Path(__file__).parents[2] / "docs"
SAMPLE = [  # quick, and without data files
    "dhaliwal-claim-7",
    "kenthapadi-figure-1",
    "kenthapadi-settings",
    "blocki-ridge",
    "errata-dhaliwal-theorem3",
    "errata-dhaliwal-claim7",
    "errata-kenthapadi-theorem1",
    "errata-ron-lemma4",
    "errata-ron-haar",
    "errata-ron-columns",
    "errata-survey-half",
    "errata-slides-additive",
    "errata-bingham",
]
SIGMAS = 6.0  # two in a thousand million for one number that is normal


def numbers(kept):
    """Every number of an experiment, by its table, its row and its column."""
    found = {}
    for table in (part for part in kept["parts"] if "table" in part):
        for row in table["rows"]:
            row_key = tuple(f"{c:.6g}" if isinstance(c, float) else c for c in _leading(row))
            cells = {(table["table"], row_key, h): c for h, c in zip(table["header"], row, strict=True)}
            found |= {place: c for place, c in cells.items() if isinstance(c, dict | float)}
    return found


def _leading(row):
    """What tells a row from others: all before the first measured cell; words and whole numbers where none is."""
    if any(isinstance(c, dict) for c in row):
        return itertools.takewhile(lambda c: not isinstance(c, dict), row)
    return (c for c in row if isinstance(c, str | int))


def differences(first, second):
    """Numbers that both have and that differ by more than chance allows, and how many both have."""
    both = first.keys() & second.keys()
    return {p: (first[p], second[p]) for p in both if not agree(first[p], second[p])}, len(both)


def agree(first, second):
    if isinstance(first, dict) != isinstance(second, dict):
        return False
    if not isinstance(first, dict):
        return first == pytest.approx(second, rel=1e-6)
    error = math.hypot(first["error"] or 0.0, second["error"] or 0.0)
    return abs(first["value"] - second["value"]) <= SIGMAS * error


def test_numbers_that_differ_by_more_than_chance_are_seen(wish):
    kept = [reproduce.run_one(PAPERS[0].experiments[0], reproduce.Wish(wish.out, seed=s)) for s in (3, 4)]
    first, second = map(numbers, kept)
    assert differences(first, second) == ({}, 2)
    place = next(p for p in first if p[-1] == "mean")
    first[place] = {**first[place], "value": first[place]["value"] + 8 * first[place]["error"]}
    assert list(differences(first, second)[0]) == [place]


@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_of_the_pages_comes_out_again(name, tmp_path):
    (experiment,) = reproduce.chosen(reproduce.catalogue(), name)
    again = reproduce.run_one(experiment, reproduce.Wish(tmp_path, quick=True, seed=2))
    wrong, compared = differences(numbers(reproduce.known(PAGES)[name]), numbers(again))
    assert not wrong
    assert compared


def test_the_pages_are_those_of_the_numbers():
    papers, found = reproduce.catalogue(), reproduce.known(PAGES)
    for name in reproduce.TITLES:
        assert (PAGES / f"{name}.md").read_text(encoding="utf-8") == reproduce.page(name, papers, found)
    assert not any(kept["quick"] for kept in found.values())
    assert set(found) == {e.name for p in papers for e in p.experiments}
