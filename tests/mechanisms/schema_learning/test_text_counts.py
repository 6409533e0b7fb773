"""Counts of distinct texts are exact, whether they fit into memory or not, and leave nothing behind."""

import datetime as dt
import resource
import stat
import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sfumato.mechanisms.schema_learning import text_counts
from sfumato.mechanisms.schema_learning.text_counts import TextCounts, category_texts, set_texts
from sfumato.tables.cells import as_texts


def counted(counts):
    found = [(word, int(n)) for words, times in counts.chunks() for word, n in zip(words, times, strict=True)]
    assert [word for word, _ in found] == sorted({word for word, _ in found})
    return dict(found)


@pytest.mark.parametrize("memory", [1 << 30, 20_000])
def test_counts_are_exact_in_memory_and_on_disk(memory, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(text_counts, "_CHUNK", 1000)
    rng = np.random.default_rng(1)
    truth = Counter()
    with TextCounts(memory) as counts:
        for _ in range(30):
            words = [f"w{i}" for i in rng.integers(0, 5000, 700)]
            truth.update(word.encode() for word in words)
            counts.add(*category_texts(pa.array(words)))
        found = counted(counts)
        folders = list(tmp_path.iterdir())
        assert bool(folders) == (memory < 1 << 30)
        for folder in folders:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())
    assert found == dict(truth)
    assert not list(tmp_path.iterdir())


def test_more_runs_than_a_process_may_open_files_are_merged(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(text_counts, "_CHUNK", 100)
    truth = Counter()
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, most))
    try:
        with TextCounts(4096) as counts:
            for place in range(250):
                words = [f"{place % 60} {j}" for j in range(150)]
                truth.update(word.encode() for word in words)
                counts.add(*category_texts(pa.array(words)))
            assert len(list(tmp_path.glob("*/*"))) == 250
            assert counted(counts) == dict(truth)
            assert counted(counts) == dict(truth)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, most))
    assert not list(tmp_path.iterdir())


def test_what_was_written_is_removed_when_work_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def work():
        with TextCounts(1000) as counts:
            counts.add(*category_texts(pa.array([f"word {i}" for i in range(5000)])))
            assert list(Path(tmp_path).iterdir())
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        work()
    assert not list(tmp_path.iterdir())


def test_blank_long_and_missing_texts_are_not_counted():
    cells = pa.array(["a", "a", "", " ", None, "x" * 256, "x" * 257])
    words, times = category_texts(cells)
    assert dict(zip(words.to_pylist(), times.tolist(), strict=True)) == {b"a": 2, b"x" * 256: 1}


def test_numbers_count_by_their_texts():
    words, times = category_texts(pa.array([1.0, 1.0, 2.5, None]))
    assert dict(zip(words.to_pylist(), times.tolist(), strict=True)) == {b"1": 2, b"2.5": 1}


LARGE = [2**53, 2**53 + 1, -(2**60) - 1, 2**63 - 1]


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([*LARGE, 5]),
        pa.array([*map(float, LARGE), 5.0, None]),
        pa.array([str(x) for x in [*LARGE, 5]]),
        as_texts([*LARGE, 5, 10**40, 1e300, float("inf")]),
        pa.array([Decimal(x) for x in [*LARGE, 5]]),
    ],
)
def test_numbers_that_doubles_confuse_are_not_counted_in_any_type(cells):
    """One missing cell would change how many texts they are, and so the counts of all of them."""
    assert as_dict(category_texts(cells)) == {b"5": 1}
    lists = pa.ListArray.from_arrays(pa.array([0, len(cells)], pa.int32()), cells)
    assert as_dict(set_texts(lists, 3)) == {b"5": 1}


def test_texts_that_only_look_like_large_numbers_are_counted():
    words = ["9007199254740991", "0123456789012345678", "1e16x", "12345678901234567 ", "1e+15", "9e15"]
    assert as_dict(category_texts(pa.array(words))) == {word.encode(): 1 for word in words if word[-1] != " "}


DAYS = pd.Series(np.array(["2020-01-01", "2020-01-01T10:30:00.25", "NaT", "1850-01-01"], "M8[ns]"))
TIMES = {
    "days": DAYS.dt.normalize(),
    "moments": DAYS,
    "zones": DAYS.dt.tz_localize("Europe/Berlin"),
    "far": pd.Series(np.array(["12020-01-01", "2020-01-01", "-0044-03-15", "NaT", "292277020000-01-01"], "M8[s]")),
}


@pytest.mark.parametrize("name", TIMES)
def test_a_point_in_time_is_the_same_text_as_a_timestamp_and_as_an_object(name):
    """One text among them makes a column of pandas one of objects."""
    typed = category_texts(pa.array(TIMES[name], from_pandas=True))
    objects = [
        TIMES[name].astype(object).tolist(),
        list(TIMES[name].to_numpy("M8[s]" if name == "far" else "M8[ns]")),
    ]
    if name != "far":
        objects.append([None if pd.isna(cell) else cell.to_pydatetime() for cell in TIMES[name]])
    for cells in objects:
        assert as_dict(category_texts(as_texts(cells))) == as_dict(typed)


def test_dates_of_python_are_the_texts_that_arrow_has_for_them():
    days = [dt.date(2020, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
    assert as_texts(days).to_pylist() == [str(day) for day in days]
    assert as_dict(category_texts(pa.array(days))) == {str(day).encode(): 1 for day in days}


def as_dict(counted):
    return dict(zip(counted[0].to_pylist(), counted[1].tolist(), strict=True))


@pytest.mark.parametrize("sliced", [False, True])
def test_a_record_counts_for_its_first_distinct_items(sliced):
    cells = pa.array(
        [["z"], ["a", "b", "a", "c", "d"], None, [], ["d", None, "", "d"], ["b", "a"]], pa.list_(pa.string())
    )
    cells = cells.slice(1) if sliced else cells
    words, times = set_texts(cells, 2)
    found = dict(zip(words.to_pylist(), times.tolist(), strict=True))
    assert found == {b"a": 2, b"b": 2, b"d": 1} | ({} if sliced else {b"z": 1})


def test_one_record_moves_at_most_so_many_items():
    rng = np.random.default_rng(4)
    for _ in range(200):
        lists = [[f"i{k}" for k in rng.integers(0, 6, rng.integers(0, 9))] for _ in range(4)]
        most = int(rng.integers(1, 5))
        words, times = set_texts(pa.array(lists[:1], pa.list_(pa.string())), most)
        assert times.sum() <= most
        assert len(set(words.to_pylist())) == len(words)
