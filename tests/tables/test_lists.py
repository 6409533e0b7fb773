"""Cells that are lists: vectors and sets, in every form in which Arrow stores them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.files import parquet_files
from sfumato.numerics.lattice import PlainRows, doubles
from sfumato.tables.columns import Real, Set, Vector
from sfumato.tables.schema import Schema

SIZE = 300  # more than one tile
VECTOR = Schema([Vector("e", SIZE, 1.0, 4.0)])
NUMBERS = np.random.default_rng(1).uniform(0, 5, (700, SIZE)).astype(np.float32)


def fixed(rows, kind):
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1), kind), rows.shape[1])


def variable(rows, kind):
    starts = pa.array(np.arange(len(rows) + 1, dtype=np.int32) * rows.shape[1])
    return pa.ListArray.from_arrays(starts, pa.array(rows.reshape(-1), kind))


def large(rows, kind):
    return variable(rows, kind).cast(pa.large_list(kind))


FORMS = [fixed, variable, large]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("form", FORMS)
def test_vectors_are_read_as_plain_columns_are(form, kind):
    plain = Schema([Real(f"c{j}", 1.0, 4.0) for j in range(SIZE)])
    columns = pa.record_batch({f"c{j}": NUMBERS[:, j] for j in range(SIZE)})
    batch = pa.record_batch({"e": form(NUMBERS, kind)})
    for cut in (batch, batch.slice(3), batch.slice(5, 300), batch.slice(2, 0)):
        place = len(NUMBERS) - len(cut) if len(cut) > 300 else 5
        expected = plain.encode(columns.slice(place, len(cut)))
        later = VECTOR.later(cut)
        assert isinstance(later, PlainRows)
        assert later.shape == expected.shape
        assert (VECTOR.encode(cut) == expected).all()
        assert (doubles(later) == expected).all()
        assert (doubles(later[:, 10:40]) == expected[:, 10:40]).all()


@pytest.mark.parametrize("form", FORMS)
def test_a_number_that_is_missing_is_the_one_nearest_to_zero(form):
    holed = NUMBERS.copy()
    holed[3, 7] = np.nan
    batch = pa.record_batch({"e": form(holed, pa.float32())})
    expected = np.where(np.isnan(holed), 1.0, holed).T
    assert (doubles(VECTOR.later(batch)) == expected).all()
    assert (VECTOR.encode(batch) == expected).all()
    gap = pa.record_batch({"e": form(holed, pa.float32()).take(pa.array([3, 4]))})
    assert (doubles(VECTOR.later(gap)) == expected[:, 3:5]).all()


def test_a_list_of_another_length_or_missing_is_nothing_and_moves_no_other():
    rows = [NUMBERS[0].tolist(), None, NUMBERS[1].tolist()[:-1], [], NUMBERS[2].tolist(), [None] * SIZE]
    expected = np.full((SIZE, 6), 1.0)
    expected[:, 0], expected[:, 4] = NUMBERS[0], NUMBERS[2]
    for some in (range(6), (0, 1, 4), (1, 3), (2,), (0, 3, 4)):
        cells = pa.array([rows[i] for i in some], pa.list_(pa.float32()))
        assert (VECTOR.encode(pa.record_batch({"e": cells})) == expected[:, list(some)]).all()
    stored = pa.FixedSizeListArray.from_arrays(pa.array(NUMBERS[:2].reshape(-1)), SIZE, mask=pa.array([True, False]))
    assert (VECTOR.encode(pa.record_batch({"e": stored}))[:, 0] == 1.0).all()


def test_sets_keep_the_first_items_of_the_encoding_however_often_they_are_listed():
    schema = Schema([Set("s", ("a", "b", "c", "d"), 2)])
    lists = [["d", "b", "a"], ["c", "c", "c", "d"], None, [], ["z", None, "b"], ["a", "a"], ["d", "c", "b", "a"]]
    found = schema.encode(pa.record_batch({"s": pa.array(lists)}))
    assert found.T.tolist() == [
        [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0],
    ]  # fmt: skip
    assert (schema.encode(pa.record_batch({"s": pa.array(lists)}).slice(1, 3)) == found[:, 1:4]).all()
    stored = pa.ListArray.from_arrays(
        pa.array([0, 2, 3], pa.int32()), pa.array(["a", "b", "c"]), mask=pa.array([True, False])
    )
    assert schema.encode(pa.record_batch({"s": stored})).T.tolist() == [[0, 0, 0, 0], [0, 0, 1, 0]]


def test_a_vector_is_shortened_to_the_same_bits_whatever_stands_beside_it():
    schema = Schema([Vector("e", SIZE, -4.0, 4.0, bound=2.0)])
    block = np.random.default_rng(2).normal(0, 1, (SIZE, 9001))
    whole = schema.clip(block)
    assert (np.sqrt(np.square(whole).sum(axis=0)) <= 2.0).all()
    for places in (slice(0, 1), slice(4090, 4100), slice(9000, 9001)):
        assert (schema.clip(block[:, places]) == whole[:, places]).all()


@pytest.mark.parametrize("form", FORMS)
def test_lists_are_read_a_few_at_a_time_by_how_many_numbers_they_have(form, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_files, "_LISTED", 50 * SIZE)
    equal = form(np.zeros((700, SIZE), np.float32), pa.float32())
    pq.write_table(pa.table({"a.b": equal, "c": np.zeros(700)}), tmp_path / "e.parquet")
    part, _ = parquet_files.Part.of(tmp_path / "e.parquet")
    assert max(len(batch) for batch in part.within(("a.b",), 100, 0, 700)) == 50
    assert max(len(batch) for batch in part.within(("a.b",), 20, 0, 700)) == 20
    assert sum(len(batch) for batch in part.within(("a.b",), 100, 0, 700)) == 700
    assert max(len(batch) for batch in part.within(("c",), 100, 0, 700)) == 700
