"""Releases by several processes: the same numbers, told once to a ledger, and nothing left when one of them fails."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

import sfumato as sf
from faults.context import CONTEXT
from sfumato.commands.console.options import engine
from sfumato.engines.local import Local
from sfumato.engines.processes import Processes, divided, taken
from sfumato.errors import BudgetError, ReleaseError, SchemaError
from sfumato.files.open_table import open_table
from sfumato.ledger import reservation
from sfumato.ledger.ledger import Ledger
from sfumato.pipeline.release import release_to
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Blocks, cores
from sfumato.tables.columns import Flag, Id, Real

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are made on Linux only")

BLOCK, MANY = 1 << 16, 3
ROWS = 12 * BLOCK + 100
SCHEMA = sf.Schema((Flag("a"), Flag("b"), Id("name")))
TERMS = {"schema": SCHEMA, "guarantee": sf.Guarantee(epsilon=1.0)}
SKETCH, RESPONSES = sf.Sketch(dimension=2, projection="gaussian", seed=1), sf.RandomizedResponse()
COMPONENTS = sf.Components(dimension=1)  # its first pass is of threads, none of which is left for the second
ENGINE = Processes(processes=MANY)
PARTS = {f"part-{number:06d}.parquet" for number in range(MANY)}


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    """Rows that are equal from block to block, with names of their own; a row group does not end where a block does."""
    path = tmp_path_factory.mktemp("rows") / "flags.parquet"
    a, b = (np.resize(bits, ROWS) for bits in np.random.default_rng(1).integers(0, 2, (2, BLOCK), np.int8))
    table = pa.table({"a": a, "b": b, "name": np.arange(ROWS)})
    pq.write_table(table, path, row_group_size=50_000, compression="snappy", use_dictionary=["a", "b"])
    return path


def apart(function, *given):
    """What a function gives in a process of its own, without threads; what it raises is raised here."""
    here, there = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_told, args=(there, function, *given))
    process.start()
    there.close()
    try:
        assert here.poll(240), "the process hangs"
        done, found = here.recv()
    finally:
        process.kill()
        process.join()
    if not done:
        raise found
    return found


def _told(there, function, *given):
    try:
        there.send((True, function(*given)))
    except BaseException as error:  # noqa: BLE001 - raised again by the test
        traceback.print_exc()
        there.send((False, error))


def release_apart(out, data, mechanism, ledger=None, *, testing=True, prepare=None):
    """Release by processes; how many rows were counted, and whether other processes are left."""
    if prepare is not None:
        prepare()
    counted = []
    try:
        release_to(
            out,
            data,
            mechanism=mechanism,
            engine=ENGINE,
            ledger=ledger,
            progress=counted.append,
            secret=Secret.for_testing(1) if testing else None,
            **TERMS,
        )
    finally:
        assert not multiprocessing.active_children()
    return sum(counted)


@pytest.mark.parametrize("mechanism", [SKETCH, RESPONSES, COMPONENTS])
def test_processes_make_the_release_that_threads_make(flags, tmp_path, mechanism):
    assert apart(release_apart, tmp_path / "many", flags, mechanism) == ROWS
    release_to(tmp_path / "one", flags, mechanism=mechanism, engine=Local(), secret=Secret.for_testing(1), **TERMS)
    many, one = (sf.load(tmp_path / name, allow_unprotected=True) for name in ("many", "one"))
    assert np.array_equal(many.columns, one.columns)
    assert many.ids.equals(one.ids)
    assert len(set(many.ids.to_pylist())) == ROWS
    assert {p.name for p in (tmp_path / "many").glob("part-*")} == PARTS
    assert {p.name for p in (tmp_path / "one").glob("*.parquet")} & {"data.parquet"}


def test_equal_blocks_of_two_processes_have_noise_of_their_own(flags, tmp_path):
    apart(release_apart, tmp_path / "out", flags, SKETCH)
    columns = sf.load(tmp_path / "out", allow_unprotected=True).columns
    blocks = [columns[:, start : start + BLOCK] for start in range(0, 12 * BLOCK, BLOCK)]
    shared = [np.mean(one == other) for i, one in enumerate(blocks) for other in blocks[:i]]
    assert max(shared) < 0.01


def test_a_ledger_is_told_once_and_by_the_process_that_has_it(flags, tmp_path):
    ledger = Ledger.create(tmp_path / "budget.db")
    ledger.add_dataset("people", sf.Guarantee(epsilon=1.0))
    apart(_charged, tmp_path / "out", flags, tmp_path / "budget.db", tmp_path / "told")
    kinds = [entry.kind for entry in ledger.journal.entries()]
    assert kinds == ["dataset", "reserve", "draw", "commit"]
    assert len(set((tmp_path / "told").read_text().split())) == 1


def _charged(out, data, place, told):
    mark = reservation.mark

    def marked(*given):
        with told.open("a") as file:
            file.write(f"{os.getpid()} ")
        return mark(*given)

    reservation.mark = marked
    release_apart(out, data, SKETCH, Ledger(place), testing=False)


def test_what_fails_in_one_process_is_told_and_nothing_is_left(flags, tmp_path):
    damaged = tmp_path / "damaged.parquet"
    content = bytearray(flags.read_bytes())
    last = pq.ParquetFile(flags).metadata.row_group(14).column(0)
    begin = last.dictionary_page_offset
    content[begin : begin + last.total_compressed_size] = os.urandom(last.total_compressed_size)
    damaged.write_bytes(content)
    with pytest.raises(SchemaError, match="cannot be read to its end"):
        apart(release_apart, tmp_path / "out", damaged, SKETCH)
    assert [p.name for p in tmp_path.iterdir()] == ["damaged.parquet"]


def test_a_process_that_is_killed_ends_the_release_and_what_was_drawn_is_spent(flags, tmp_path):
    ledger = Ledger.create(tmp_path / "budget.db")
    ledger.add_dataset("people", sf.Guarantee(epsilon=1.0))
    with pytest.raises(
        ReleaseError, match=r"was ended.*-9.*lower --memory; .*stays spent, for noise may have been drawn"
    ):
        apart(_killed, tmp_path / "out", flags, tmp_path / "budget.db")
    assert ledger.dataset("people").releases[0].state == "drawn"
    assert not list(tmp_path.glob("*out*"))


def _killed(out, data, place):
    words, first = Secret.words, os.getpid()

    def deadly(self, *context):
        if os.getpid() != first and context[1] > 9 * BLOCK:
            os.kill(os.getpid(), signal.SIGKILL)
        return words(self, *context)

    Secret.words = deadly
    release_apart(out, data, SKETCH, Ledger(place), testing=False)


def test_libraries_have_one_thread_in_each_process_and_as_many_as_before_in_the_end(flags, tmp_path):
    before, after = apart(_counting, tmp_path / "out", flags, tmp_path / "threads")
    assert before == after
    assert max(before) == 3
    seen = [path.read_text() for path in (tmp_path / "threads").iterdir()]
    assert seen == ["[1, 1]"] * MANY


def _counting(out, data, told):
    words = Secret.words
    told.mkdir()

    def threads():
        return [pa.cpu_count(), max(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")]

    def count(self, *context):
        (told / str(os.getpid())).write_text(str(threads()))
        return words(self, *context)

    Secret.words = count
    pa.set_cpu_count(3)
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        release_apart(out, data, SKETCH)
        return before, threads()


@pytest.mark.parametrize("kind", [OSError, BudgetError, "local"])
def test_an_error_that_cannot_travel_is_told_by_its_kind(flags, tmp_path, kind, capfd):
    told, message = {OSError: (ReleaseError, "Bad luck")}.get(
        kind, (ReleaseError, r"part of the release failed \(\w+\)")
    )
    with pytest.raises(told, match=message) as caught:
        apart(_failing, tmp_path / "out", flags, kind)
    assert "cell" not in str(caught.value)
    seen = capfd.readouterr().err
    assert "ForkProcess" not in seen
    assert not list(tmp_path.iterdir())


def _failing(out, data, kind):
    words, first = Secret.words, os.getpid()

    class LocalError(Exception):
        pass

    errors = {
        OSError: OSError(5, "Bad luck"),
        BudgetError: BudgetError("cell", requested=1.0, remaining=0.0),
        "local": LocalError("cell"),
    }

    def fail(self, *context):
        if os.getpid() != first:
            raise errors[kind]
        return words(self, *context)

    Secret.words = fail
    release_apart(out, data, SKETCH)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_while_processes_begin_is_heard_when_they_have_begun(flags, tmp_path, number):
    with pytest.raises(KeyboardInterrupt):
        apart(_signalled, tmp_path / "out", flags, number)
    assert not list(tmp_path.iterdir())


def _signalled(out, data, number):
    start, begun = multiprocessing.process.BaseProcess.start, []

    def begin(self):
        os.kill(os.getpid(), number)
        begun.append(start(self))

    signal.signal(number, signal.default_int_handler)
    multiprocessing.process.BaseProcess.start = begin
    try:
        release_apart(out, data, SKETCH)
    finally:
        assert len(begun) == MANY - 1


def test_what_the_command_ignores_its_helpers_ignore(flags, tmp_path):
    assert apart(_ignoring, tmp_path / "out", flags) == ROWS


def _ignoring(out, data):
    words, first = Secret.words, os.getpid()

    def interrupted(self, *context):
        if os.getpid() != first:
            os.kill(os.getpid(), signal.SIGINT)
        return words(self, *context)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Secret.words = interrupted
    return release_apart(out, data, SKETCH)


def test_an_interrupt_ends_all_processes_and_nothing_is_left(flags, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        apart(_interrupted, tmp_path / "out", flags)
    assert not list(tmp_path.iterdir())


def _interrupted(out, data):
    words, first = Secret.words, os.getpid()

    def endless(self, *context):
        if os.getpid() != first:
            time.sleep(600)
        return words(self, *context)

    def stop(_rows):
        raise KeyboardInterrupt

    Secret.words = endless
    try:
        release_to(out, data, mechanism=SKETCH, engine=ENGINE, progress=stop, **TERMS)
    finally:
        assert not multiprocessing.active_children()


def test_helpers_end_when_the_process_that_began_them_is_killed(flags, tmp_path):
    here, there = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_slow, args=(there, tmp_path / "out", flags))
    process.start()
    helpers = [here.recv() for _ in range(MANY - 1)]
    os.kill(max(helpers), signal.SIGSTOP)  # the last one holds no end of another's pipe
    process.kill()
    process.join()
    ended(min(helpers))
    os.kill(max(helpers), signal.SIGCONT)
    ended(max(helpers))


def ended(pid):
    deadline = time.monotonic() + 60
    while os.path.exists(f"/proc/{pid}"):  # noqa: PTH110 - not a file of ours
        assert time.monotonic() < deadline, "a helper goes on by itself"
        time.sleep(0.05)


def _slow(there, out, data):
    words, first, told = Secret.words, os.getpid(), []

    def slow(self, *context):
        if os.getpid() != first and not told:
            there.send(os.getpid())
        told.append(context)
        time.sleep(0.5 if len(told) < 4 else 600)  # the last of four blocks would never end
        return words(self, *context)

    Secret.words = slow
    release_to(out, data, mechanism=SKETCH, engine=ENGINE, **TERMS)


def test_beside_another_thread_no_process_is_made(flags, tmp_path):
    assert apart(_threaded, tmp_path / "out", flags) == ROWS
    assert {p.name for p in (tmp_path / "out").glob("*.parquet")} == {"data.parquet", "projection.parquet"}


def _threaded(out, data):
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        return release_apart(out, data, SKETCH)
    finally:
        done.set()
        other.join()


def test_the_command_works_with_processes_and_a_call_with_threads(flags, tmp_path):
    options = SimpleNamespace(engine="local", master=None, memory="1GiB", own_process=True)
    assert engine(options) == Processes(processes=cores())
    options.own_process = False
    assert engine(options) == Local()
    SCHEMA.write(tmp_path / "flags.toml")
    promise = ["--schema", tmp_path / "flags.toml", "--epsilon", "1", "--dimension", "2"]
    command = [sys.executable, "-m", "sfumato.cli", "release", "sketch", flags, *promise, "--out", tmp_path / "out"]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603
    written = len(list((tmp_path / "out").glob("part-*")))
    assert written == (0 if cores() == 1 else min(cores(), 3))
    assert sf.load(tmp_path / "out").columns.shape == (2, ROWS)


@given(st.integers(0, 10**6), st.integers(1, 40))
def test_ranges_are_of_whole_blocks_and_cover_all_rows(rows, processes):
    blocks = pretended(rows)
    ranges = divided(blocks, processes)
    assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges[:-1])]
    assert ranges[-1][1] == rows
    assert len(ranges) == max(1, min(processes, -(-rows // blocks.size) // 4))
    if len(ranges) > 1:
        assert all(start % blocks.size == 0 for start, _ in ranges)
        assert all(abs(stop - start - rows / len(ranges)) < blocks.size for start, stop in ranges)


def pretended(rows, columns=3, dim=3, size=1000, *, divisible=True, width=1):
    table = SimpleNamespace(rows=rows, divisible=divisible)
    return SimpleNamespace(table=table, columns=("c",) * columns, dim=dim, size=size, width=width, dtype=float)


def test_one_process_reads_what_cannot_be_read_from_the_middle():
    assert divided(pretended(10**6, divisible=False), 8) == [(0, 10**6)]
    assert divided(pretended(None, divisible=False), 8) == [(0, 0)]
    schema = sf.Schema.reals(2, 0, 1)
    blocks = Blocks.of(open_table(np.zeros((10, 2)), schema), schema)
    assert type(ENGINE.rows(blocks, print)) is type(Local().rows(blocks, print))


def test_processes_share_the_memory():
    plain, texts = pretended(10**9, 100, 100, BLOCK), pretended(10**9, 100, 128, BLOCK)
    assert taken(plain) == (164 << 20) + 2 * 8 * 100 * BLOCK
    assert taken(texts) == (164 << 20) + 4 * 8 * 128 * BLOCK
    assert taken(pretended(10**9, 10, 10, 8388, width=1000)) == (74 << 20) + 4 * 8 * 1000 * 8388
    for memory, many in ((1 << 30, 3), (1 << 28, 1), (1 << 20, 1), (1 << 33, 8)):
        rows = Processes(memory=memory, processes=8).rows(plain, print)
        assert len(getattr(rows, "ranges", [0])) == many


def test_reals_may_be_gone_through_by_processes_too(tmp_path):
    schema = sf.Schema((Real("x", 0, 1), Real("y", -1, 1)))
    numbers = np.random.default_rng(2).random((2, ROWS), np.float32)
    pq.write_table(pa.table({"x": numbers[0], "y": numbers[1]}), tmp_path / "reals.parquet")
    terms = {
        "schema": schema,
        "guarantee": TERMS["guarantee"],
        "mechanism": sf.Sketch(seed=1),
        "secret": Secret.for_testing(1),
    }
    apart(_released, tmp_path / "many", tmp_path / "reals.parquet", terms)
    release_to(tmp_path / "one", tmp_path / "reals.parquet", **terms)
    many, one = (sf.load(tmp_path / name, allow_unprotected=True).columns for name in ("many", "one"))
    assert np.array_equal(many, one)


def _released(out, data, terms):
    release_to(out, data, engine=ENGINE, **terms)
