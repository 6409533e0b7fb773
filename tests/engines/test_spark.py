"""The Spark engine beside the local one: equal to the bit, whatever happens to its tasks. Run by make spark."""

import base64
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.local import Local
from sfumato.engines.spark import Spark, SparkRows, session
from sfumato.errors import ParameterError, ReleaseError
from sfumato.fileformat import leftovers, writer
from sfumato.files.open_table import open_table
from sfumato.marginals.partition import Partition
from sfumato.mechanisms.components import Components
from sfumato.mechanisms.graph_pairs import EdgeNoise
from sfumato.mechanisms.table import counting
from sfumato.mechanisms.table.recipe import Table
from sfumato.pipeline.release import release, release_to
from sfumato.randomness.secret import Secret
from sfumato.tables.blocks import Blocks, CodeReader, ignore
from support.spending import states

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]
pyspark = pytest.importorskip("pyspark") if not os.environ.get("SFUMATO_NEEDS_SPARK") else __import__("pyspark")

SCHEMA = sf.Schema(
    [sf.Id("name"), *(sf.Real(f"c{j}", 0, 1) for j in range(6)), sf.Flag("f"), sf.Category("g", ["a", "b", "c"])]
)
MEMORY = 1 << 22  # blocks of 3,276 rows, so that the small tables here have many
ROWS = 30_011


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    columns = {"name": [f"p{i}" for i in range(ROWS)]} | {f"c{j}": rng.random(ROWS, dtype="f4") for j in range(6)}
    return pa.table(columns | {"f": rng.random(ROWS) < 0.3, "g": rng.choice(["a", "b", "c", "z"], ROWS)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory, table):
    """Four files of uneven lengths and row groups, the largest first by name only."""
    place = tmp_path_factory.mktemp("rows")
    for number, (start, stop) in enumerate([(0, 5000), (5000, 5007), (5007, 29_000), (29_000, ROWS)]):
        pq.write_table(table.slice(start, stop - start), place / f"{number}.parquet", row_group_size=1700)
    return place


@pytest.fixture(scope="module", autouse=True)
def log(tmp_path_factory):
    """A session on two cores that keeps an event log, and the log's folder."""
    place = tmp_path_factory.mktemp("events")
    settings = {"enabled": "true", "dir": place.as_uri(), "compress": "false", "rolling.enabled": "false"}
    made = started("local[2,4]", {f"spark.eventLog.{key}": value for key, value in settings.items()})
    yield place
    made.stop()


def started(master, settings):
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = pyspark.sql.SparkSession.builder.master(master)
    for key, value in ({"spark.log.level": "FATAL"} | settings).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def both(tmp_path, data, mechanism, guarantee, schema=SCHEMA, spark=None):
    """The same release by both engines, under the same testing secret."""
    made = []
    for name, engine in (("here", Local(memory=MEMORY)), ("there", spark or Spark(memory=MEMORY))):
        terms = {"schema": schema, "mechanism": mechanism, "guarantee": guarantee, "engine": engine}
        release_to(tmp_path / name, data, secret=Secret.for_testing(3), **terms)
        made.append(sf.load(tmp_path / name, allow_unprotected=True))
    return made


def assert_same(here, there):
    assert np.array_equal(here.columns, there.columns)
    assert here.ids == there.ids or here.ids.equals(there.ids)
    files = ("files", "digest")
    assert {k: v for k, v in here.manifest.items() if k not in files} == {
        k: v for k, v in there.manifest.items() if k not in files
    }


RECORD, VALUE = sf.Guarantee(epsilon=1.0, delta=1e-6, unit="record"), sf.Guarantee(epsilon=1.0, unit="attribute")
PAID = sf.Guarantee(epsilon=1.0, unit="record")
COUNTED = replace(RECORD, neighbours="add-remove")
CASES = {
    "sketch": (sf.Sketch(dimension=5, seed=1), VALUE),
    "gaussian sketch": (sf.Sketch(dimension=20, projection="gaussian", noise="gaussian", seed=1), RECORD),
    "responses": (sf.RandomizedResponse(), VALUE),
    "components": (Components(dimension=3), VALUE),
    "covariance": (sf.Covariance(noise="gaussian"), RECORD),
    "counted covariance": (sf.Covariance(noise="gaussian", centred=True), COUNTED),
    "synthetic": (sf.Synthetic(dimension=3, noise="gaussian", expected_rows=ROWS, seed=1), RECORD),
    "labelled synthetic": (sf.Synthetic(dimension=3, label="f", kind="classes", noise="gaussian", seed=1), COUNTED),
}


@pytest.mark.parametrize("case", CASES)
def test_both_engines_give_the_same_bits(tmp_path, folder, case):
    schema = sf.Schema([c for c in SCHEMA.columns if c.kind in ("flag", "category", "id")])
    assert_same(*both(tmp_path, folder, *CASES[case], schema if case == "responses" else SCHEMA))


def test_a_table_is_read_as_codes_by_tasks_and_written_here(tmp_path, folder):
    """Tasks count, and this process draws the rows and writes them to one file."""
    here, there = both(tmp_path, folder, Table(rounds=0), RECORD)
    assert here.table().equals(there.table())
    assert {n: v.tolist() for n, v in here.beside.items()} == {n: v.tolist() for n, v in there.beside.items()}
    assert here.manifest == there.manifest
    assert list(there.manifest["files"]) == ["counts.parquet", "data.parquet", "model.parquet"]


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_a_synthetic_table_is_the_same_to_the_bit(tmp_path, folder, neighbours):
    here, there = both(tmp_path, folder, sf.Table(rounds=1, label="f"), replace(RECORD, neighbours=neighbours))
    assert here.table().equals(there.table())
    assert here.table().num_rows > 0
    for name, values in here.beside.items():  # the model, and all noisy counts
        np.testing.assert_array_equal(values, there.beside[name])


@pytest.mark.parametrize("cells", [1 << 22, 100])
def test_tasks_count_all_pairs_as_one_machine_does(folder, cells, monkeypatch):
    """In one reading, and in several for a few tables each."""
    monkeypatch.setattr(counting, "_CELLS", cells)
    partition = Partition.of(SCHEMA)
    reader = CodeReader(partition.read, len(partition.variables))
    blocks = Blocks.read_by(reader, open_table(folder), SCHEMA, memory=MEMORY)
    maps = [np.arange(v.size) * min(v.size, 16) // v.size for v in partition.variables]
    sizes = [int(m.max()) + 1 for m in maps]
    cliques = [(i, j) for j in range(len(sizes)) for i in range(j)] + [(0, 1, 7), (2, 6, 7)]
    here, there = (
        counting.count(engine.rows(blocks, ignore), sizes, counting.Reader(partition, maps), cliques)
        for engine in (Local(memory=MEMORY), Spark(memory=MEMORY))
    )
    for ours, theirs in zip(here, there, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert theirs.sum() == ROWS


def test_a_release_in_memory_comes_back_in_the_order_of_the_rows(folder):
    terms = {"schema": SCHEMA, "mechanism": CASES["sketch"][0], "guarantee": VALUE}
    here, there = (
        release(folder, engine=e, secret=Secret.for_testing(3), **terms)
        for e in (Local(memory=MEMORY), Spark(memory=MEMORY))
    )
    assert_same(here, there)


def test_graphs_are_read_by_tasks_too(tmp_path):
    ends = np.random.default_rng(2).integers(0, 60, (700_000, 2))
    pq.write_table(pa.table({"src": ends[:, 0], "dst": ends[:, 1]}), tmp_path / "edges.parquet", row_group_size=100_000)
    promise = sf.Guarantee(epsilon=1.0, unit="edge")
    assert_same(*both(tmp_path, tmp_path / "edges.parquet", EdgeNoise(vertices=60), promise, None))


def test_a_data_frame_is_released_as_if_it_had_been_written_down(tmp_path, folder):
    frame = session(None).read.parquet(str(folder / "0.parquet")).repartition(3).cache()
    rows = pa.Table.from_batches(frame.toArrow().to_batches())
    terms = {"schema": SCHEMA, "mechanism": CASES["sketch"][0], "guarantee": VALUE, "secret": Secret.for_testing(3)}
    release_to(tmp_path / "there", frame, engine=Spark(memory=MEMORY), **terms)
    release_to(tmp_path / "here", rows, engine=Local(memory=MEMORY), **terms)
    assert_same(*(sf.load(tmp_path / name, allow_unprotected=True) for name in ("here", "there")))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["here", "there"]


def test_what_a_release_needs_beside_it_is_held_while_it_is_made(tmp_path, folder):
    frame, seen = session(None).read.parquet(str(folder / "0.parquet")), []
    terms = {"schema": SCHEMA, "mechanism": CASES["sketch"][0], "guarantee": VALUE}
    look = lambda _: seen.append({(one.kind, one.use) for one in leftovers.found(tmp_path)})  # noqa: E731
    release_to(tmp_path / "r", frame, engine=Spark(memory=MEMORY), progress=look, **terms)
    with writer.hidden(writer._named(tmp_path / "r", "partial"), "attempts"):
        assert [(one.kind, one.use) for one in leftovers.found(tmp_path)] == [("attempts", "held")]
    assert seen == [{("partial", "held"), ("copy", "held")}]
    assert [p.name for p in tmp_path.iterdir()] == ["r"]


@pytest.mark.parametrize("name", ["with space", "über", "100%20", "a+b#c"])
def test_the_copy_of_a_data_frame_is_removed_wherever_it_was(tmp_path, folder, name, monkeypatch, ledger):
    place = tmp_path / name
    place.mkdir()
    monkeypatch.chdir(place)
    frame = session(None).read.parquet(str(folder / "0.parquet"))
    terms = {"schema": SCHEMA, "mechanism": CASES["sketch"][0], "guarantee": PAID, "ledger": ledger}
    for out in ("one of two", "two"):
        release_to(out, frame, engine=Spark(memory=MEMORY), **terms)
    assert sorted(p.name for p in place.iterdir()) == ["one of two", "two"]
    assert {p.name for p in tmp_path.iterdir()} == {name, "budget.db"}
    assert states(ledger) == ["committed", "committed"]


def test_totals_of_many_tasks_are_added_up_in_a_tree(folder, monkeypatch):
    monkeypatch.setattr("sfumato.engines.spark._FAN", 2)
    monkeypatch.setattr("sfumato.engines.spark._MOST_BLOCKS", 1)
    terms = {"schema": SCHEMA, "mechanism": CASES["covariance"][0], "guarantee": RECORD}
    here, there = (
        release(folder, engine=e, secret=Secret.for_testing(3), **terms)
        for e in (Local(memory=MEMORY), Spark(memory=MEMORY))
    )
    assert_same(here, there)


# ---- tasks that die, and tasks that are run twice -------------------------------------------------------------------


class Fragile(Spark):
    """The engine, with something done to the first attempt at each of two blocks."""

    def __init__(self, marks: Path, harm):
        super().__init__(memory=MEMORY)
        object.__setattr__(self, "settings", (str(marks), harm))

    __slots__ = ("settings",)

    def rows(self, blocks, progress):
        marks, harm = self.settings
        encode = blocks.encode

        def fragile(batch):
            mark = Path(marks) / str(int(batch.column(0)[0].as_py() * 1e6) % 5)
            first = not mark.exists()
            if int(mark.name) < 2:
                with mark.open("a") as file:
                    file.write("tried\n")
                if first:
                    harm()
            return encode(batch)

        return super().rows(blocks.encoded_by(fragile), progress)


def assert_tried_again(marks):
    tries = [len(mark.read_text().splitlines()) for mark in marks.iterdir()]
    assert len(tries) == 2
    assert sum(tries) >= 3 + 2  # three blocks of the table are marked, and the first two attempts were harmed
    for mark in marks.iterdir():
        mark.unlink()


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def test_workers_that_are_killed_change_nothing_and_are_charged_once(tmp_path, folder, ledger):
    by_value(die)
    (tmp_path / "marks").mkdir()
    here, there = both(tmp_path, folder, *CASES["sketch"], spark=Fragile(tmp_path / "marks", die))
    assert_tried_again(tmp_path / "marks")
    assert_same(here, there)
    terms = {"schema": SCHEMA, "mechanism": CASES["sketch"][0], "guarantee": PAID}
    release_to(tmp_path / "paid", folder, ledger=ledger, engine=Fragile(tmp_path / "marks", die), **terms)
    assert_tried_again(tmp_path / "marks")
    assert states(ledger) == ["committed"]


def by_value(function):
    """Workers cannot import this file, so what they need of it travels with them."""
    pyspark.cloudpickle.register_pickle_by_value(__import__(function.__module__))


def fail():
    raise ValueError("cell 0.123456")


def test_a_task_that_fails_for_good_leaves_nothing_and_quotes_nothing(tmp_path, folder, ledger):
    by_value(fail)
    (tmp_path / "marks").mkdir()

    class Broken(Fragile):
        def rows(self, blocks, progress):
            return Spark.rows(self, blocks.encoded_by(lambda _: fail()), progress)

    terms = {"schema": SCHEMA, "mechanism": CASES["sketch"][0], "guarantee": PAID}
    with pytest.raises(ReleaseError, match="a task failed for good") as caught:
        release_to(tmp_path / "out", folder, ledger=ledger, engine=Broken(tmp_path / "marks", fail), **terms)
    assert "0.123" not in str(caught.value)
    assert caught.value.__context__ is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["budget.db", "marks"]
    assert states(ledger) != ["committed"]


def test_neither_the_event_log_nor_a_plan_shows_the_key(tmp_path, folder, log, monkeypatch):
    plans, over = [], SparkRows._over
    monkeypatch.setattr(SparkRows, "_over", lambda *given: plans.append(over(*given)) or plans[-1])
    secret = Secret.for_testing(3)
    assert_same(*both(tmp_path, folder, *CASES["sketch"]))
    shown = "".join(p._jdf.queryExecution().toString() + p._jdf.queryExecution().simpleString() for p in plans)
    logged = b"".join(p.read_bytes() for p in log.rglob("*") if p.is_file())
    assert plans
    assert len(logged) > 10_000
    assert b"MapInArrow" in logged
    key = secret._key
    for form in (key, key.hex().encode(), base64.b64encode(key)[:40], repr(key).encode()[2:-1]):
        assert form not in logged
        assert form not in shown.encode()


def test_what_cannot_be_read_from_the_middle_is_refused(tmp_path, ledger):
    (tmp_path / "rows.csv").write_text("c0\n0.5\n")
    terms = {"schema": sf.Schema.reals(1, 0, 1), "mechanism": sf.Sketch(dimension=1), "guarantee": VALUE}
    with pytest.raises(ParameterError, match="Parquet file"):
        release(tmp_path / "rows.csv", engine="spark", ledger=ledger, **terms | {"guarantee": PAID})
    assert states(ledger) == []
    with pytest.raises(ParameterError, match="Parquet file"):
        release(np.zeros((5, 1)), engine="spark", **terms)
    with pytest.raises(ParameterError, match="one of"):
        release(np.zeros((5, 1)), engine="dask", **terms)


def test_a_session_on_another_master_is_not_used_in_its_place():
    assert session("local[2]") is session(None)
    with pytest.raises(ParameterError, match=r"on local\[2,4\] is running"):
        session("spark://elsewhere:7077")


def test_the_command_starts_spark_itself(tmp_path, folder):
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml())
    command = [sys.executable, "-m", "sfumato.cli", "release", "sketch", str(folder), "--schema"]
    command += [str(tmp_path / "schema.toml"), "--epsilon", "1", "--unit", "attribute", "--dimension", "4", "--out"]
    command += [str(tmp_path / "out"), "--engine", "spark", "--master", "local[2]", "--memory", "16MiB"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    assert done.returncode == 0, done.stderr
    assert "written to" in done.stdout
    assert "Traceback" not in done.stderr
    assert sf.load(tmp_path / "out").rows == ROWS


def slow():
    time.sleep(60)


@pytest.fixture
def cluster(tmp_path):
    """A master and two workers of two cores, each at an address of its own: duplicates go to another machine."""
    binary, deploy = str(Path(pyspark.__file__).parent / "bin" / "spark-class"), "org.apache.spark.deploy"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    commands = [[binary, f"{deploy}.master.Master", *master]]
    for number in (2, 3):
        place = ["--host", f"127.0.0.{number}", "--webui-port", "0", "--work-dir", str(tmp_path / f"work{number}")]
        size = ["--cores", "2", "--memory", "1g"]
        commands.append([binary, f"{deploy}.worker.Worker", *place, *size, f"spark://127.0.0.1:{port}"])
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    started = [subprocess.Popen(command, **quiet) for command in commands]  # noqa: S603 - our own commands
    yield f"spark://127.0.0.1:{port}"
    for process in started:
        process.kill()
        process.wait()


def test_speculative_duplicates_change_nothing_and_are_charged_once(tmp_path, folder, ledger, cluster):
    running = pyspark.sql.SparkSession.getActiveSession()
    if running is not None:
        running.stop()
    by_value(slow)
    settings = {"": "true", ".quantile": "0.2", ".multiplier": "1.1", ".efficiency.enabled": "false"}
    made = started(
        cluster,
        {f"spark.speculation{key}": value for key, value in settings.items()}
        | {"spark.eventLog.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.executor.memory": "600m"},
    )
    place = tmp_path / "made"
    place.mkdir()
    try:
        (tmp_path / "marks").mkdir()
        here, there = both(place, folder, *CASES["sketch"], spark=Fragile(tmp_path / "marks", slow))
        assert_tried_again(tmp_path / "marks")
        assert_same(here, there)
        terms = {"schema": SCHEMA, "mechanism": CASES["sketch"][0], "guarantee": PAID}
        release_to(place / "paid", folder, ledger=ledger, engine=Fragile(tmp_path / "marks", slow), **terms)
        assert_tried_again(tmp_path / "marks")
        assert states(ledger) == ["committed"]
        assert sorted(p.name for p in place.iterdir()) == ["here", "paid", "there"]
    finally:
        made.stop()
