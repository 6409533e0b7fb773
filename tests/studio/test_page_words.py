"""Messages on pages speak of the page: fields of forms in place of options of the command and arguments in Python."""

import ast
import re
from pathlib import Path

import pytest

import sfumato
from sfumato.errors import SfumatoError
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.units import Cap
from sfumato.studio.inputs.page_words import said
from support.visiting import Visitor, make_studio, write_people

SOURCE = Path(sfumato.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z]")
ELSEWHERE = (
    "commands",
    "cli.py",
    "report",
    "comparing",
)  # no messages of pages
STARTS = {"studio/server.py"}  # said before there is a page


def messages():
    """Every text of the package in which an option of the command is named, but for docstrings."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith(ELSEWHERE) or name in STARTS:
            continue
        tree = ast.parse(path.read_text())
        defined = [n for n in ast.walk(tree) if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)]
        told = {id(n.body[0].value) for n in defined if ast.get_docstring(n, clean=False) is not None}
        texts = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        named = [n for n in texts if id(n) not in told and OPTION.search(n.value)]
        found += [pytest.param(n.value, id=f"{name}:{n.lineno}") for n in named]
    return found


def test_messages_that_name_options_are_found():
    assert len(messages()) >= 8


@pytest.mark.parametrize("text", messages())
def test_no_message_on_a_page_names_an_option(text):
    if "`sfumato ledger void" in text:
        pytest.skip("a command of its own, for what no page does")
    assert not OPTION.search(said(text))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("use unit='record', got 'attribute'", "use “What is protected: a whole record”, got 'attribute'"),
        ("noise='gaussian' needs delta > 0, got delta=0.0", "“Noise: Gaussian” needs delta > 0, got “Delta: 0.0”"),
        ("say --convert (convert=True) to charge it so", "tick the first box under Exceptions to charge it so"),
        ("budget has 2 datasets: name one (--dataset)", "budget has 2 datasets: choose one under Who pays"),
        ("people.csv: not UTF-8: use --encoding cp1252 (in Python ...)", None),
        ("a=b and x == y stay", "a=b and x == y stay"),
        (SfumatoError("lower --something-new"), "lower “something new”"),
    ],
)
def test_options_and_arguments_become_fields(error, told):
    assert said(error) == (told or "people.csv: not UTF-8: save it as UTF-8 text with commas between its cells")


def test_the_pages_say_it_so(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    write_people(folder)
    studio = make_studio(folder, epsilon=None)
    Ledger.create(studio.place).add_dataset("people", Cap(Guarantee(epsilon=3.0, delta=1e-6, unit="record")))
    visitor = Visitor(studio)
    order = {"data": "people.csv", "mechanism": "table", "unit": "record", "epsilon": "1", "delta": "1e-6"}
    order |= {"dataset": "people", "name": "one.release"}
    pure = {"mechanism": "distances", "noise": "gaussian", "delta": "0"}
    for wrong in ({"mechanism": "responses", "unit": "attribute"}, {"unit": "attribute"}, pure):
        text = visitor.send("/release/price", order | wrong).text
        alert = re.search(r'role="alert">(.*?)</div>', text, re.DOTALL)[1]
        assert not OPTION.search(alert)
        assert not re.search(r"\w=(&#39;|')", alert)
