"""What killed releases leave: shown and removed, while nothing that is in use, or not ours, is ever touched."""

import errno
import fcntl
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from faults.context import CONTEXT
from sfumato import load
from sfumato.cli import main
from sfumato.errors import LeftoverWarning, ParameterError, ReleaseError
from sfumato.fileformat import leftovers, writer
from sfumato.ledger.ledger import Ledger
from sfumato.pipeline.release import release_to
from sfumato.pipeline.stream import Stream
from sfumato.privacy.guarantee import Guarantee
from support.processes import release_once
from support.spending import ROWS, SCHEMA, SKETCH, pure

NAME = ".people.release.{}-0123456789abcdef"
TERMS = {"schema": SCHEMA, "mechanism": SKETCH, "guarantee": pure(1.0)}


def left(folder, kind="partial", name=None):
    """What a killed release leaves."""
    made = folder / (name or NAME.format(kind))
    made.mkdir(mode=0o700)
    if kind == "copy":
        (made / "rows").mkdir()
        (made / "rows" / "part-00000.snappy.parquet").write_bytes(b"raw")
    else:
        (made / ("data.parquet" if kind == "partial" else "3-0123456789abcdef.parquet")).write_bytes(b"noise")
    return made


def uses(folder):
    return [one.use for one in leftovers.found(folder)]


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_what_a_killed_release_leaves_is_shown_and_then_removed(tmp_path, capsys):
    place = tmp_path / "budget.db"
    Ledger.create(place).add_dataset("people", Guarantee(epsilon=5.0))
    process = CONTEXT.Process(target=release_once, args=(place, tmp_path / "r", "before the manifest"), daemon=True)
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    (found,) = leftovers.found(tmp_path)
    assert (found.kind, found.files, found.use) == ("partial", 2, "left")
    assert main(["clean", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert f"{found.path.name}: 2 files" in told
    assert "noisy numbers, left by a killed release" in told
    assert "Nothing removed. Use --yes" in told
    assert found.path.is_dir()
    assert main(["clean", str(tmp_path), "--yes"]) == 0
    assert "Removed: 1." in capsys.readouterr().out
    assert leftovers.found(tmp_path) == []
    assert names(tmp_path) == ["budget.db"]
    assert main(["clean", str(tmp_path), "--yes"]) == 0
    assert "No leftovers" in capsys.readouterr().out


def test_copies_of_raw_rows_and_what_tasks_wrote_are_found_too(tmp_path, capsys):
    for kind in ("partial", "attempts", "copy"):
        left(tmp_path, kind)
    left(tmp_path, name=".x\n.y.partial-0123456789abcdef")
    (tmp_path / NAME.format("partial")).chmod(0o755)  # killed between its last two steps
    assert main(["clean", str(tmp_path), "--json", "--yes"]) == 0
    told = json.loads(capsys.readouterr().out)["found"]
    assert [(one["holds"], one["removed"]) for one in told] == [
        ("noisy numbers", True),
        ("raw rows", True),
        ("noisy numbers", True),
        ("noisy numbers", True),
    ]
    assert names(tmp_path) == []


def test_what_a_killed_start_of_a_stream_leaves_is_found_too(tmp_path, monkeypatch, capsys):
    """The folder stays as it was when the file was about to appear; one that is being made is held."""
    seen = []

    def killed(*_arguments, **_options):
        seen.extend(uses(tmp_path))
        shutil.copytree(next(tmp_path.iterdir()), tmp_path / NAME.format("stream"))
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", killed)
    with pytest.raises(KeyboardInterrupt):
        Stream.init(
            tmp_path / "a.stream", schema=SCHEMA, guarantee=Guarantee(epsilon=1.0, delta=1e-6, unit="record"), horizon=8
        )
    assert (seen, names(tmp_path)) == (["held"], [NAME.format("stream")])
    assert main(["clean", str(tmp_path), "--yes"]) == 0
    assert "1 file, " in (said := capsys.readouterr().out)
    assert "no period yet, left by a killed" in said
    assert names(tmp_path) == []


def test_a_name_with_a_line_break_is_shown_in_one_line(tmp_path, capsys):
    left(tmp_path, name=".x\n\x1b[31m.partial-0123456789abcdef")
    main(["clean", str(tmp_path)])
    assert capsys.readouterr().out.startswith(r".x\u000a\u001b[31m.partial-0123456789abcdef: 1 file, 5 bytes")


def test_a_release_that_is_under_way_is_never_touched(tmp_path):
    seen = []
    command = [sys.executable, "-m", "sfumato.cli", "clean", str(tmp_path), "--yes", "--json"]

    def cleaned(_):
        (found,) = leftovers.found(tmp_path)
        assert found.use == "held"
        assert not leftovers.remove(found)
        seen.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))  # noqa: S603

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release_to(tmp_path / "r", ROWS, progress=cleaned, **TERMS)
    assert [[(one["use"], one["removed"]) for one in told["found"]] for told in seen] == [[("held", False)]] * len(seen)
    assert seen
    assert load(tmp_path / "r").rows == len(ROWS)
    assert names(tmp_path) == ["r"]


def _forks_and_waits(folder, ready):
    with writer.hidden(folder / "r", "partial"):
        helper = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
        helper.start()
        ready.put(helper.pid)
        time.sleep(600)


def test_a_folder_is_held_until_the_last_process_that_writes_to_it_is_gone(tmp_path):
    ready = CONTEXT.Queue()
    process = CONTEXT.Process(target=_forks_and_waits, args=(tmp_path, ready))
    process.start()
    helper = ready.get(timeout=120)
    assert uses(tmp_path) == ["held"]
    process.kill()
    process.join(120)
    assert uses(tmp_path) == ["held"]
    os.kill(helper, signal.SIGKILL)
    until = time.monotonic() + 60
    while uses(tmp_path) != ["left"] and time.monotonic() < until:
        time.sleep(0.01)
    assert uses(tmp_path) == ["left"]


def _foreign(folder):
    (left(folder) / "thesis.docx").touch()


def _linked(folder):
    left(folder, name="elsewhere")
    (folder / NAME.format("partial")).symlink_to(folder / "elsewhere")


def _linked_within(folder):
    made = left(folder)
    (folder / "mine.parquet").touch()
    (made / "projection.parquet").symlink_to(folder / "mine.parquet")


def _a_folder_within(folder):
    (left(folder) / "registry.yaml").mkdir()


def _open_to_others(folder):
    left(folder).chmod(0o777)


def _a_copy_that_others_can_read(folder):
    left(folder, "copy").chmod(0o755)


def _a_file(folder):
    (folder / NAME.format("partial")).touch()


def _of_somebody_else(folder):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(left(folder), 65534, 65534)


@pytest.mark.parametrize(
    "thing",
    [
        *(_foreign, _linked, _linked_within, _a_folder_within, _open_to_others, _a_copy_that_others_can_read, _a_file),
        _of_somebody_else,
        lambda folder: left(folder, name="people.release.partial-0123456789abcdef"),
        lambda folder: left(folder, name=".people.release.partial-0123"),
        lambda folder: left(folder, name=".people.release.partial-0123456789abcdef.backup"),
        lambda folder: left(folder, name=".people.release.saved-0123456789abcdef"),
        lambda folder: left(folder, "copy", name=NAME.format("partial")),
    ],
)
def test_what_is_not_surely_ours_is_never_touched(thing, tmp_path, capsys):
    thing(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert main(["clean", str(tmp_path), "--yes"]) == 0
    assert "No leftovers" in capsys.readouterr().out
    assert sorted(tmp_path.rglob("*")) == before


def test_what_changes_between_a_look_and_its_removal_stays(tmp_path):
    (left(tmp_path) / "README.txt").touch()
    (found,) = leftovers.found(tmp_path)
    (found.path / "thesis.docx").touch()
    assert not leftovers.remove(found)
    assert found.path.is_dir()
    found.path.rename(tmp_path / "saved")
    assert not leftovers.remove(found)


def test_where_there_are_no_locks_a_release_works_and_nothing_is_removed(tmp_path, monkeypatch, capsys):
    def none(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    release_to(tmp_path / "r", ROWS, progress=lambda _: uses(tmp_path), **TERMS)
    assert names(tmp_path) == ["r"]
    made = left(tmp_path)
    assert main(["clean", str(tmp_path), "--yes"]) == 0
    assert "kept, as this file system cannot tell whether it is in use" in capsys.readouterr().out
    assert made.is_dir()
    assert leftovers.note(tmp_path) is None


def test_a_look_in_the_instant_that_a_folder_is_made_costs_a_second_name_and_leaves_nothing(tmp_path, monkeypatch):
    held, places = writer.held, []

    def watched(place, **terms):
        places.append(place)
        return held(place, **terms) if len(places) > 1 else None

    monkeypatch.setattr(writer, "held", watched)
    with writer.hidden(tmp_path / "r", "partial") as place:
        assert names(tmp_path) == [place.name]
    assert len(set(places)) == 2
    assert names(tmp_path) == []


def test_a_new_release_beside_them_says_so_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("p.csv").write_text("c0,c1,c2\n0,1,0\n")
    SCHEMA.write("p.toml")
    line = ["release", "sketch", "p.csv", "--schema", "p.toml", "--epsilon", "1", "--dimension", "2", "--out"]
    assert main([*line, "one"]) == 0
    assert capsys.readouterr().err == ""
    left(tmp_path)
    assert main([*line, "two"]) == 0
    assert capsys.readouterr().err == (
        "note: 1 hidden folder of releases that were killed is left in .: `sfumato clean` shows and removes them\n"
    )
    left(tmp_path, "copy")
    assert main([*line, "three"]) == 0
    assert "2 hidden folders of releases that were killed are left in ., with raw rows:" in capsys.readouterr().err


def test_in_python_a_new_release_beside_them_warns_before_anything_is_spent(tmp_path, ledger):
    left(tmp_path)
    with pytest.raises(LeftoverWarning, match="1 hidden folder"):  # warnings are errors here
        release_to(tmp_path / "r", ROWS, ledger=ledger, **TERMS)
    assert ledger.dataset("people").releases == ()
    with pytest.warns(LeftoverWarning, match="1 hidden folder"):
        release_to(tmp_path / "r", ROWS, ledger=ledger, **TERMS)


@pytest.mark.parametrize(("answer", "removed"), [("y", True), ("YES ", True), ("", False), ("n", False)])
def test_on_a_terminal_it_asks(answer, removed, tmp_path, monkeypatch, capsys):
    made = left(tmp_path)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    asked = []
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or answer)
    assert main(["clean", str(tmp_path)]) == 0
    assert asked == ["Remove this folder? [y/N] "]
    assert made.exists() is not removed
    assert ("Removed: 1." in capsys.readouterr().out) is removed


def test_folders_that_cannot_be_are_refused_in_one_line(tmp_path, monkeypatch, capsys):
    assert main(["clean", str(tmp_path / "nowhere")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    made = left(tmp_path)

    def refused(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("sfumato.fileformat.leftovers.shutil.rmtree", refused)
    assert main(["clean", str(tmp_path), "--yes"]) == 2
    assert capsys.readouterr().err.endswith("could not be removed (Operation not permitted)\n")
    monkeypatch.setattr("sfumato.fileformat.leftovers.os.scandir", refused)
    with pytest.raises(ReleaseError, match="cannot be read"):
        leftovers.found(tmp_path)
    assert leftovers.note(tmp_path) is None
    assert leftovers.note(tmp_path / "nowhere") is None
    assert made.is_dir()


def test_a_release_is_not_left_locked(tmp_path):
    with writer.new_folder(tmp_path / "r") as folder:
        (folder / "data.parquet").touch()
    with pytest.raises(ParameterError, match="enough"), writer.new_folder(tmp_path / "s"):
        raise ParameterError("enough")
    handle = os.open(tmp_path / "r", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(handle)
    assert names(tmp_path) == ["r"]
