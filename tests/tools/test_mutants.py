"""The maker of mutants: what it changes and what it leaves alone, and forks that see a changed copy only."""

import ast
import importlib
import textwrap
import time

import pytest

import forking
import run
from mutations import mutants_of

SOURCE = '''
"""A module of 3 lines."""
import math
from typing import TypeAlias

Number: TypeAlias = int | float
LIMIT = 1 << 4


def scaled(x: float = 1.5, *, most: "int | None" = None) -> int | float:
    """Not 7 times."""
    check.positive(x=x)
    if not x <= LIMIT and most is None:
        raise ValueError(f"at most {LIMIT + 1}, got {x - 2}")
    return math.nextafter(min(x, 2.0**-3) + abs(x), math.inf)


class Shown:
    def __repr__(self) -> str:
        return "x" * (3 + 4)
'''


def changes(source=SOURCE):
    return {mutant.change for mutant in mutants_of("scaled.py", source)}


def test_operators_comparisons_constants_clips_directions_and_guards_are_changed():
    assert changes() >= {
        "1 << 4 => 1 >> 4",
        "4 => 5",
        "4 => 3",
        "1.5 => 3.0",
        "1.5 => -1.5",
        "check.positive(x=x) => pass",
        "not x <= LIMIT and most is None => not x <= LIMIT or most is None",
        "not x <= LIMIT => x <= LIMIT",
        "x <= LIMIT => x < LIMIT",
        "most is None => most is not None",
        "raise => pass",
        "min(x, 2.0 ** (-3)) => max(x, 2.0 ** (-3))",
        "min(x, 2.0 ** (-3)) => x",
        "min(x, 2.0 ** (-3)) => 2.0 ** (-3)",
        "2.0 ** (-3) => 4.0 ** (-3)",
        "2.0 ** (-3) => 2.0 * -3",
        "3 => 4",
        "-3 => 3",
        "abs(x) => x",
        "min(x, 2.0 ** (-3)) + abs(x) => min(x, 2.0 ** (-3)) - abs(x)",
    }
    assert any(change.startswith("math.nextafter") and change.endswith("-math.inf)") for change in changes())


def test_texts_types_messages_and_what_is_shown_are_left_alone():
    assert not {c for c in changes() if "Number" in c or "int | float" in c or "LIMIT + 1" in c or "x - 2" in c}
    assert not {m for m in mutants_of("scaled.py", SOURCE) if m.function.startswith("Shown")}
    assert "7" not in {c.partition(" ")[0] for c in changes()}


def test_every_mutant_is_one_change_that_parses_and_has_a_name_of_its_own():
    original = ast.dump(ast.parse(SOURCE))
    made = mutants_of("scaled.py", SOURCE)
    texts = [mutant.apply(SOURCE) for mutant in made]
    assert all(ast.dump(ast.parse(text)) != original for text in texts)
    assert len({mutant.key for mutant in made}) == len(set(texts)) == len(made)


def test_names_stay_when_other_lines_change():
    moved = SOURCE.replace("LIMIT = 1 << 4\n", "LIMIT = 1 << 4\nOTHER = 3.0\n")
    before = {m.key for m in mutants_of("scaled.py", SOURCE)}
    assert before < {m.key for m in mutants_of("scaled.py", moved)}


def test_what_runs_at_import_is_told_from_what_runs_in_functions():
    static = {m.change: m.static for m in mutants_of("scaled.py", SOURCE)}
    assert static["1 << 4 => 1 >> 4"]
    assert not static["abs(x) => x"]


def test_a_sample_follows_from_its_seed_and_grows_with_its_size():
    some, more, other = run.sample(40, 1), run.sample(80, 1), run.sample(40, 2)
    assert more[:40] == some
    assert other != some
    places = {(m.file, m.start, m.end) for m in more if m.kind == "constant"}
    assert len(places) == sum(m.kind == "constant" for m in more)


def test_equivalent_mutants_are_ones_that_can_be_made_and_have_reasons():
    made = {}
    for name, reason in run.equivalents().items():
        file = name[0]
        if file not in made:
            made[file] = {run.named(m) for m in mutants_of(file, (forking.PACKAGE / file).read_text(encoding="utf-8"))}
        assert name in made[file], name
        assert len(reason) > 10


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package in the place of ours."""
    source = tmp_path / "work" / "sfumato"
    source.mkdir(parents=True)
    (source / "__init__.py").write_text("")
    (source / "mutated.py").write_text(textwrap.dedent("VALUE = 1\n"))
    monkeypatch.setattr(forking, "PACKAGE", source)
    return forking.Copy(tmp_path / "copy")


def value():
    for name in [name for name in importlib.sys.modules if name.split(".")[0] == "sfumato"]:
        del importlib.sys.modules[name]
    return importlib.import_module("sfumato.mutated").VALUE


def test_a_fork_sees_the_change_and_nobody_else_does(package, tmp_path):
    with package.changed("mutated.py", "VALUE = 2\n"):
        assert forking.fork(package, tmp_path / "out", value, limit=60).code == 2
    assert forking.fork(package, tmp_path / "out", value, limit=60).code == 1
    assert (forking.PACKAGE / "mutated.py").read_text() == "VALUE = 1\n"


def test_a_fork_that_never_ends_or_fails_is_told_apart(package, tmp_path):
    endless = forking.fork(package, tmp_path / "out", lambda: time.sleep(600), limit=0.2)
    assert endless.out_of_time
    assert endless.seconds < 60
    failed = forking.fork(package, tmp_path / "out", lambda: 1 // 0, limit=60)
    assert (failed.code, failed.out_of_time) == (70, False)
