"""Blocks and engines: where blocks begin depends on what is public alone, and never on who works on them."""

import gc
import os
import pickle
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import sfumato as sf
from sfumato.engines.local import Local, LocalRows
from sfumato.engines.processes import Processes
from sfumato.errors import ParameterError, ReleaseError, SchemaError
from sfumato.fileformat import writer
from sfumato.files import in_memory
from sfumato.files.open_table import open_table
from sfumato.numerics.lattice import Total
from sfumato.pipeline.release import release, release_to
from sfumato.randomness.secret import Secret
from sfumato.studio.frame.jobs import Watched
from sfumato.tables.blocks import Blocks, CodeReader, block_rows, ignore, in_order, memory_size
from support.synthetic_tables import RECORD, FixedTable

SCHEMA = sf.Schema.reals(4, low=0, high=1)
DATA = np.random.default_rng(1).random((5000, 4))
TERMS = {"schema": SCHEMA, "mechanism": sf.Sketch(dimension=3, seed=1), "guarantee": sf.Guarantee(epsilon=1.0)}


@pytest.mark.parametrize(
    ("text", "size"),
    [("1GiB", 1 << 30), ("512MiB", 512 << 20), ("2GB", 2 * 10**9), ("16777216", 1 << 24), (" 20 mb ", 20 * 10**6)],
)
def test_sizes_are_read_as_people_write_them(text, size):
    assert memory_size(text) == size


@pytest.mark.parametrize("text", ["", "lots", "1TiB", "-1GiB", "1.5GiB", "1023KiB", "9" * 40, "1 G B", "\u0661GiB"])
def test_other_sizes_are_refused(text):
    with pytest.raises(ParameterError, match="memory"):
        memory_size(text)
    with pytest.raises(ParameterError, match="memory"):
        Local(memory=text)


def test_blocks_shrink_with_the_widths_and_grow_with_the_memory():
    assert block_rows(1000) == (1 << 23) // 1000
    assert block_rows(1) == 1 << 16
    assert block_rows(1000, 1 << 28) == (1 << 21) // 1000
    assert block_rows(10**9) == 1
    table = open_table(DATA, SCHEMA)
    assert Blocks.of(table, SCHEMA, width=1000).size == (1 << 23) // 1000


def test_the_threads_do_not_show_in_a_release_and_the_memory_only_in_its_noise():
    def made(**settings):
        return release(DATA, engine=Local(**settings), secret=Secret.for_testing(1), **TERMS).columns

    many = made(memory=1 << 22, threads=1)
    assert np.array_equal(many, made(memory=1 << 22, threads=4))
    data = np.tile(DATA, (4, 1))
    one, other = (
        release(data, engine=Local(memory=m), secret=Secret.for_testing(1), **TERMS).columns for m in (1 << 22, 1 << 23)
    )
    assert not np.array_equal(one, other)


def test_equal_blocks_at_two_places_have_noise_of_their_own():
    size = block_rows(4, 1 << 22)
    columns = release(
        np.zeros((2 * size, 4)), engine=Local(memory=1 << 22), secret=Secret.for_testing(1), **TERMS
    ).columns
    assert np.mean(columns[:, :size] == columns[:, size:]) < 0.01


LEVELS = sf.Schema([sf.Category("c", [f"v{i}" for i in range(5000)]), sf.Flag("f")])
CODED = pa.table({"c": [f"v{i % 5000}" for i in range(10_000)], "f": [i % 3 == 0 for i in range(10_000)]})


def coded(batch):
    """Rows of these levels as two codes."""
    assert batch.schema.names == ["c", "f"]
    levels = np.array([int(text[1:]) for text in batch.column(0).to_pylist()])
    return np.array([levels, batch.column(1).to_numpy(zero_copy_only=False)], np.int32)


READER = CodeReader(coded, 2)


def test_blocks_of_codes_are_sized_for_the_codes_and_not_for_the_levels():
    table = open_table(CODED)
    wide, narrow = Blocks.of(table, LEVELS, memory=1 << 22), Blocks.read_by(READER, table, LEVELS, memory=1 << 22)
    assert wide.size == block_rows(5001, 1 << 22) == 6
    assert narrow.size == block_rows(2, 1 << 22) == 1 << 14
    assert Blocks.read_by(READER, table, LEVELS, width=64, memory=1 << 22).size == block_rows(64, 1 << 22)
    assert narrow.dim == 2
    assert narrow.empty().shape == (2, 0)
    assert narrow.empty().dtype == np.int32
    assert wide.empty().dtype == np.float64
    assert narrow.encoded_by(coded).empty().dtype == np.int32


def test_codes_are_of_columns_that_can_be_read():
    with pytest.raises(SchemaError, match="'f'"):
        Blocks.read_by(READER, open_table(CODED.drop_columns(["f"])), LEVELS)


@pytest.mark.parametrize("rows", [0, 1, 10_000])
@pytest.mark.parametrize("engine", [Local(), Processes(processes=2), Watched()])
def test_every_engine_reads_rows_as_codes(engine, rows):
    def totals(position, block):
        assert block.dtype == np.int32
        return np.array([block.shape[1], position, *block.sum(axis=1, dtype=np.int64)])

    table = CODED.slice(0, rows)
    found = engine.rows(Blocks.read_by(READER, open_table(table), LEVELS), ignore)
    whole = coded(table.combine_chunks().to_batches()[0]) if rows else np.zeros((2, 0), np.int32)
    assert found.sum(totals).tolist() == [rows, 0, *whole.sum(axis=1).tolist()]
    assert [block.tolist() for block in found.map(lambda _, block: block)] == [whole.tolist()] * bool(rows)


@pytest.mark.parametrize("engine", [Local(memory=1 << 20), Processes(processes=2, memory=1 << 26), Watched()])
def test_a_mechanism_may_read_rows_as_codes(engine, tmp_path):
    small = pa.table({"c": ["v1", "v2"], "f": [True, False]})
    schema = sf.Schema([sf.Category("c", ["v1", "v2"]), sf.Flag("f")])
    recipe = FixedTable(small, reader=READER)
    many = pa.concat_tables([small] * 9000).combine_chunks()
    release_to(tmp_path / "r", many, schema=schema, mechanism=recipe, guarantee=RECORD, engine=engine)
    release(many, schema=schema, mechanism=recipe, guarantee=RECORD, engine=engine)
    assert [seen.tolist() for seen in recipe.seen] == [[18_000, 27_000, 9000]] * 2
    assert sf.load(tmp_path / "r").table().equals(small)


def test_a_job_counts_rows_that_are_read_as_codes():
    told = []
    rows = Watched(tick=told.append).rows(Blocks.read_by(READER, open_table(CODED), LEVELS, memory=1 << 20), ignore)
    rows.sum(lambda _, block: np.array([block.shape[1]]))
    assert sum(told) == 10_000
    assert len(told) == 3


def test_a_range_of_blocks_begins_where_a_block_does(tmp_path):
    pq.write_table(pa.table({f"c{j}": DATA[:, j] for j in range(4)}), tmp_path / "rows.parquet")
    blocks = Blocks.of(open_table(tmp_path / "rows.parquet"), SCHEMA, memory=1 << 22, width=100)
    assert blocks.size == 327
    whole = list(LocalRows(blocks).map(lambda position, block: (position, block.sum())))
    part = blocks.within(3 * 327, 8 * 327)
    assert list(LocalRows(part, first=3 * 327).map(lambda position, block: (position, block.sum()))) == whole[3:8]
    with pytest.raises(ParameterError, match="begins with a block"):
        blocks.within(5, 400)


def test_a_stream_may_be_ended_by_one_of_its_own_threads():
    """As the collector of Python does at times, after an error has left the stream behind."""
    suspended, ended = threading.Event(), []

    def one(number):
        if number == 1:
            assert suspended.wait(60)
            stream.close()
            ended.append(threading.current_thread())
        return number

    stream = in_order(one, ((i,) for i in range(10)), 2)
    assert next(stream) == 0
    suspended.set()
    deadline = time.monotonic() + 60
    while not ended and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ended, "the stream did not end"
    assert ended[0] is not threading.main_thread()
    assert next(stream, None) is None


def test_a_stream_that_has_ended_leaves_no_thread():
    before = threading.active_count()
    assert list(in_order(lambda number: number, ((i,) for i in range(10)), 4)) == list(range(10))
    assert threading.active_count() == before


@pytest.mark.parametrize("threads", [1, 2])
def test_no_result_is_lost_to_an_odd_error(threads):
    def odd(number):
        if number == 3:
            raise StopIteration
        return number

    with pytest.raises(RuntimeError):
        list(in_order(odd, ((i,) for i in range(10)), threads))


def test_totals_travel_in_halves():
    total = Total((2,)).add(np.array([2**61, -5])).add(np.array([2**61, -(2**61)])).add(np.array([2**62, 1]))
    again = Total.of(*total.halves)
    assert again.merge(Total.of(*total.halves)).integers().tolist() == [2**64, 2 * (-4 - 2**61)]
    assert total.integers().tolist() == [2**63, -4 - 2**61]


def test_a_secret_is_announced_before_it_travels_and_arrives_without_its_hook():
    told = []
    secret = Secret.for_testing(1).announced(lambda: told.append("drawn"))
    arrived = pickle.loads(pickle.dumps(secret))  # noqa: S301 - our own
    assert told == ["drawn"]
    assert not arrived.protected
    assert arrived.words("a").draw(3).tolist() == Secret.for_testing(1).words("a").draw(3).tolist()
    assert told == ["drawn"]


def test_a_draw_that_is_refused_keeps_the_secret_here():
    def refuse():
        raise ParameterError("not charged")

    with pytest.raises(ParameterError, match="not charged"):
        pickle.dumps(Secret.fresh().announced(refuse))


def test_a_release_in_parts_is_read_as_one(tmp_path):
    manifest = release_to(tmp_path / "r", DATA, **TERMS)
    whole = sf.load(tmp_path / "r")
    assert whole.columns.dtype == np.float64
    table = pq.read_table(tmp_path / "r" / "data.parquet")
    assert table.schema.types == [pa.float32()] * 3
    assert manifest["lattice"]["numbers"] == "float32"
    whole.save(tmp_path / "again")
    assert (tmp_path / "again" / "data.parquet").read_bytes() == (tmp_path / "r" / "data.parquet").read_bytes()


def test_single_precision_is_used_only_where_the_noise_hides_its_error():
    def numbers(low, high, epsilon, **recipe):
        promise = sf.Guarantee(epsilon=epsilon, unit="attribute")
        made = release(
            np.full((3, 4), low),
            schema=sf.Schema.reals(4, low, high),
            mechanism=sf.Sketch(**recipe),
            guarantee=promise,
        )
        return made.manifest["lattice"]["numbers"]

    assert numbers(0.0, 1.0, 1.0) == "float32"
    assert numbers(0.0, 1.0, 1.0, dimension=2, seed=1) == "float32"
    assert numbers(0.0, 1.0, 3000.0) == "float32"
    assert numbers(0.0, 1.0, 5000.0) == "float64"
    assert numbers(5000.0, 5001.0, 1.0) == "float64"
    assert numbers(0.0, 1e-35, 1.0) == "float64"
    assert numbers(0.0, 1e31, 1.0) == "float64"


# ---- sparse matrices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["sparse", "gaussian"])
def test_a_sparse_matrix_gives_the_bits_of_a_dense_one_and_is_never_made_dense(family, monkeypatch):
    rng = np.random.default_rng(3)
    thin = sparse.random_array((7000, 40), density=0.05, rng=rng, data_sampler=lambda size: rng.normal(0, 2, size))
    thin = thin.tocsr()
    thin.data[:5] = [np.nan, np.inf, -np.inf, 0.0, 1e300]
    schema = sf.Schema([sf.Real(f"c{j}", -1.0 - j / 10, 1.5, missing=0.25 if j % 2 else None) for j in range(40)])
    terms = {"schema": schema, "mechanism": sf.Sketch(dimension=6, projection=family, seed=1)}
    terms |= {"guarantee": sf.Guarantee(epsilon=1.0), "engine": Local(memory=1 << 22)}
    dense = release(thin.toarray(), secret=Secret.for_testing(1), **terms).columns
    doubled = sparse.vstack([sparse.csr_array(thin)])
    monkeypatch.setattr("sfumato.files.in_memory._columns_of", no_columns())
    for kind in (sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix):
        assert np.array_equal(release(kind(doubled), secret=Secret.for_testing(1), **terms).columns, dense)


def no_columns():
    """The type of a column is asked for by way of an empty block; any other would be a dense copy."""
    real = in_memory._columns_of

    def columns_of(block, places):
        assert len(block) == 0, "a sparse block was made dense"
        return real(block, places)

    return columns_of


def test_entries_that_are_stored_twice_are_added_up_first():
    twice = sparse.csr_array((np.array([0.3, 0.4]), np.array([1, 1]), np.array([0, 2, 2])), shape=(2, 4))
    once = sparse.csr_array(twice.toarray())
    here, there = (release(m, secret=Secret.for_testing(1), **TERMS).columns for m in (twice, once))
    assert np.array_equal(here, there)


# ---- a disk that fills up -------------------------------------------------------------------------------------------


def in_small_steps(monkeypatch):
    """As if the file were a large one."""
    for name in ("_ROW_GROUP", "_WRITTEN", "_UNSYNCED"):
        monkeypatch.setattr(writer, name, 1 << 12)


def written_until(monkeypatch, most):
    """Let so many writes to the disk succeed; the lists grow with each that is tried and each that fails."""
    tried, failed, real = [], [], writer._Hashed.write
    in_small_steps(monkeypatch)

    def write(self, content):
        tried.append(len(content))
        if len(tried) > most and not self.given_up:
            failed.append(len(content))
            raise OSError(28, "No space left on device")
        return real(self, content)

    monkeypatch.setattr(writer._Hashed, "write", write)
    return tried, failed


def test_a_disk_that_fills_up_leaves_nothing_and_says_so(tmp_path, monkeypatch):
    """Wherever it happens: at once, while later blocks wait to be written, or with the last bytes of the file."""
    data, small = np.tile(DATA, (12, 1)), Local(memory=1 << 20)
    with monkeypatch.context() as patched:
        calls, _ = written_until(patched, 10**9)
        release_to(tmp_path / "whole", data, engine=small, **TERMS)
    for most in (0, 1, len(calls) // 2, len(calls) - 1):
        with monkeypatch.context() as patched:
            _, failed = written_until(patched, most)
            with pytest.raises(ReleaseError, match=r"No space left on device.*nothing was left"):
                release_to(tmp_path / "r", data, engine=small, **TERMS)
            before = len(failed)
            gc.collect()
            assert len(failed) == before, "a file that was given up was written to when it was collected"
        assert [p.name for p in tmp_path.iterdir()] == ["whole"]


def test_what_is_written_is_synced_on_the_way_and_a_disk_that_refuses_is_told_of(tmp_path, monkeypatch):
    synced, real = [], writer.os.fsync
    in_small_steps(monkeypatch)
    monkeypatch.setattr(writer.os, "fsync", lambda handle: (synced.append(os.fstat(handle).st_size), real(handle)))
    release_to(tmp_path / "whole", np.tile(DATA, (12, 1)), **TERMS)
    whole = (tmp_path / "whole" / "data.parquet").stat().st_size
    on_the_way = [size for size in synced if 1 << 14 < size < whole]  # other files are smaller
    assert len(on_the_way) > 5
    assert whole in synced

    def refuse(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(writer.os, "fsync", refuse)
    with pytest.raises(ReleaseError, match=r"Input/output error.*nothing was left"):
        release_to(tmp_path / "r", np.tile(DATA, (12, 1)), **TERMS)
    assert [p.name for p in tmp_path.iterdir()] == ["whole"]
