"""The example notebook runs from top to bottom, and what its cells end with shows itself."""

import ast
import json
import re
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "people.ipynb"


def cells():
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    return notebook["cells"]


def run(source, names):
    """What a cell shows: the value of its last line, if that is one."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - our own notebook
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307


def test_the_example_notebook_runs_and_shows_what_it_made(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path))
    monkeypatch.setitem(sys.modules, "sklearn", None)  # a notebook can do without
    names = {"__name__": "__main__"}
    values = [run("".join(cell["source"]), names) for cell in cells() if cell["cell_type"] == "code"]
    shown = [value._repr_html_() for value in values if hasattr(value, "_repr_html_")]
    assert len(shown) == 7  # schema, plan, price, release, drawing, count, ledger
    low, high = names["release"].count("sex = 'Female' and income = '>50K'").interval(1 - 1e-9)
    assert low <= 1179 <= high
    assert (tmp_path / "people.release" / "data.parquet").exists()
    told = capsys.readouterr().out
    synthetic, real = re.search(r"logistic regression AUC (\S+) \(trained on real rows (\S+)\)", told).groups()
    assert float(synthetic) > float(real) - 0.03


def test_the_example_notebook_is_kept_without_output():
    for cell in cells():
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == ([], None)
    assert len({cell["id"] for cell in cells()}) == len(cells())
    with pytest.raises(SyntaxError):
        run("1 +", {})
