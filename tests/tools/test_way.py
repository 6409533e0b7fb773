"""The count of the files that one record passes (`benchmarks/way.py`)."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "way.py"


@pytest.fixture(scope="module")
def way():
    spec = importlib.util.spec_from_file_location("way", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_count_where_a_function_runs_in_any_thread_and_not_where_one_is_defined(way, tmp_path, monkeypatch):
    (tmp_path / "called.py").write_text("def work(): return 1\n")
    (tmp_path / "in_thread.py").write_text("def work(): return 2\n")
    (tmp_path / "defined.py").write_text("class Held:\n    number = 3\n\ndef work(): return Held.number\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def call():
        import threading  # noqa: PLC0415

        import called  # noqa: PLC0415
        import defined  # noqa: PLC0415, F401
        import in_thread  # noqa: PLC0415

        called.work()
        worker = threading.Thread(target=in_thread.work)
        worker.start()
        worker.join()

    assert way.files(call, tmp_path) == ["called.py", "in_thread.py"]
    assert sys.getprofile() is None


def test_the_script_lists_the_files_of_each_call(way):
    told = subprocess.run([sys.executable, SCRIPT, "--json"], capture_output=True, text=True, check=True, cwd=ROOT)  # noqa: S603
    found = json.loads(told.stdout)
    assert found.keys() == way.MOST.keys()
    for files in found.values():
        assert files == sorted(set(files))
        assert all((way.PACKAGE / file).is_file() for file in files)
        assert "__init__.py" not in files
    sketch, synthetic, distance = found.values()
    assert "mechanisms/sketch.py" in sketch
    assert "files/csv_files.py" in sketch
    assert "mechanisms/sketch.py" not in synthetic
    assert "releases/sketch.py" in distance
    assert not any(file.startswith("mechanisms/") for file in distance)


def test_the_table_marks_the_files_of_each_call(way):
    short, long, other = ({"a.py"}, {"a.py", "b.py"}, {"b.py"})
    lines = way.table_of(dict(zip(way.MOST, map(sorted, (short, long, other)), strict=True))).splitlines()
    assert [line.split() for line in lines[1:3]] == [["a.py", "x", "x"], ["b.py", "x", "x"]]
    assert [word for word in lines[3].split() if word.isdigit()] == ["1", "2", "1"]
