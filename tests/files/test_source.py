"""Blocks that are joined from several pieces: no number of cells is one too many, whatever they are stored in."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.attacks.example_data import TargetTable
from sfumato.files import parquet_files
from sfumato.files.open_table import open_table
from sfumato.tables import cells
from sfumato.tables.columns import Category, Set
from sfumato.tables.schema import Schema

TEXT, BYTES = pa.large_string(), pa.large_binary()
WORDS = ["x", None, "", "yes"]
LISTS = [["x"], None, [], ["yes", None]]
RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3, 4], pa.int32()), pa.array(WORDS))
PIECES = {
    "string": (pa.array(WORDS), TEXT),
    "binary": (pa.array(WORDS, pa.binary()), BYTES),
    "view": (pa.array(WORDS, pa.string_view()), BYTES),
    "dictionary": (pa.array(WORDS).dictionary_encode(), TEXT),
    "dictionary of bytes": (pa.array(WORDS, pa.binary()).dictionary_encode(), BYTES),
    "runs": (RUNS, TEXT),
    "lists": (pa.array(LISTS), pa.large_list(TEXT)),
    "lists of a dictionary": (pa.array(LISTS, pa.list_(pa.dictionary(pa.int8(), pa.string()))), pa.large_list(TEXT)),
    "lists of a size": (
        pa.array([["x", None], None, ["", "yes"], None], pa.list_(pa.string(), 2)),
        pa.large_list(TEXT),
    ),
    "lists of numbers": (pa.array([[1.5], None, [], [2.5, None]]), pa.large_list(pa.float64())),
    "vectors": (pa.array([[1, 2], None, [3, None], [4, 5]], pa.list_(pa.float32(), 2)), pa.list_(pa.float32(), 2)),
}


def joined(*pieces):
    (block,) = open_table(pa.table({"c": pa.chunked_array(pieces)})).blocks(["c"], 1 << 16)
    return block.column(0)


def plain(array):
    return [cell.decode() if isinstance(cell, bytes) else cell for cell in array.to_pylist()]


@pytest.mark.parametrize("form", PIECES)
def test_joined_pieces_have_offsets_that_no_number_of_cells_outgrows(form):
    """Offsets of 32 bits end at 2^31 bytes or items: one more record would be an error."""
    piece, kind = PIECES[form]
    found = joined(piece, piece[1:], piece[:0], piece[2:3])
    assert found.type == kind
    cells_ = plain(piece)
    assert plain(found) == [*cells_, *cells_[1:], *cells_[2:3]]


def test_lists_of_more_items_than_32_bits_count_are_joined():
    """Items that are nothing take no memory, so this is the case itself."""
    items = pa.nulls(1 << 30)
    many = pa.ListArray.from_arrays(pa.array([0, len(items)], pa.int32()), items)
    assert len(joined(many, many, many)) == 3


def test_lists_whose_dictionaries_outgrow_their_indices_together_are_joined():
    kind = pa.list_(pa.dictionary(pa.int8(), pa.string()))
    pieces = [pa.array([[f"{start}-{word}"] for word in range(100)], kind) for start in range(3)]
    assert joined(*pieces).to_pylist() == [cell for piece in pieces for cell in piece.to_pylist()]


@pytest.mark.parametrize("form", ["dictionary", "dictionary of bytes", "runs"])
def test_words_are_looked_up_with_wide_offsets_before_they_are_written_out(form):
    piece, kind = PIECES[form]
    assert cells.decoded(piece).type == kind
    assert plain(cells.decoded(piece[1:3])) == WORDS[1:3]


def test_chunks_of_a_pandas_column_are_joined_alike():
    column = pa.chunked_array([["x", "y"], ["yes"]], pa.string())
    frame = pd.DataFrame({"c": pd.Series(pd.arrays.ArrowExtensionArray(column))})
    (block,) = open_table(frame).blocks(["c"], 9)
    assert block.column(0).type == TEXT
    assert block.column(0).to_pylist() == ["x", "y", "yes"]


def test_a_table_of_blocks_with_and_without_joins_is_read_whole(tmp_path):
    rows = (1 << 16) + 10
    table = pa.table({"c": pa.array(["x", "y"] * (rows // 2)), "s": pa.array([["x"], []] * (rows // 2))})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=(1 << 16) + 5)
    found = TargetTable.read(tmp_path / "t.parquet", Schema([Category("c", ["x", "y"]), Set("s", ["x"], most=1)]))
    assert found.table["c"].to_pylist() == table["c"].to_pylist()


class Crowded:
    """A Parquet file that holds more text in its lists than Arrow reads at once, from the row of a number on."""

    def __init__(self, file, full):
        self.file, self.full, self.metadata = file, full, file.metadata

    def iter_batches(self, batch_size, **terms):
        done = 0
        for batch in self.file.iter_batches(batch_size=batch_size, **terms):
            done += batch.num_rows
            if batch_size > 1 and done > self.full:
                raise pa.ArrowNotImplementedError("Nested data conversions not implemented for chunked array outputs")
            yield batch


@pytest.mark.parametrize("full", [0, 4, 9])
def test_lists_of_more_text_than_arrow_reads_at_once_are_read_one_by_one(tmp_path, full):
    table = pa.table({"s": [[str(row)] for row in range(10)]})
    pq.write_table(table, tmp_path / "t.parquet")
    with pq.ParquetFile(tmp_path / "t.parquet") as file:
        batches = list(parquet_files._groups(Crowded(file, full), ("s",), 3, [0]))
    assert pa.Table.from_batches(batches)["s"].to_pylist() == table["s"].to_pylist()
