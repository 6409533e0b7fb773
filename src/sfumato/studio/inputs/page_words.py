"""What errors say, in the words of the pages: the one place where options and arguments become fields of forms.

Messages are written once, for calls in Python and for the command: ``use unit='record'``, ``say --convert``. Whoever
reads them on a page has neither, but a form with fields: those are named instead.
"""

import re
from collections.abc import Mapping
from typing import Final

UNITS: Final = {"record": "a whole record", "attribute": "one value of a record", "edge": "one edge of a graph"}
CHANGES: Final = {"": "anything within the bounds", "l1": "a sum of absolute values", "l2": "a Euclidean length"}
NEIGHBOURS: Final = {
    "replace": "a record is replaced; their number is public",
    "add-remove": "a record is added or removed",
}
NOISES: Final = {
    "": "the better one",
    "laplace": "Laplace",
    "gaussian": "Gaussian",
    "sketch": "a Gaussian sketch",
}
CENTRES: Final = {"": "the mean of the records", "no": "the middle of the bounds"}
LABEL_KINDS: Final = {"": "as its kind says", "classes": "classes", "values": "numbers"}

_FIELDS: Mapping[str, tuple[str, Mapping[str, str]]] = {  # what a form calls an argument, and its values
    "unit": ("What is protected", UNITS),
    "neighbours": ("Neighbouring data", NEIGHBOURS),
    "noise": ("Noise", NOISES),
    "kind": ("Label is", LABEL_KINDS),
    "label_kind": ("Label is", LABEL_KINDS),
    "scale": (
        "How columns count",
        {"bounds": "each in units of its declared range", "raw": "each in its own units"},
    ),
    "epsilon": ("Epsilon", {}),
    "delta": ("Delta", {}),
    "radius": ("the radius under How far a record may change", {}),
    "dimension": ("Numbers per record", {}),
    "projection": ("Projection", {"fixed": "one that is known beforehand"}),
    "label": ("Label column", {}),
    "vertices": ("Vertices", {}),
    "rows": ("Records", {}),
    "group": ("records of one person", {}),
    "mechanism": ("Mechanism", {}),
}
_SENTENCES = (  # longer ones first
    (" (convert=True)", ""),
    (" (exceptions=True)", ""),
    ("say --convert", "tick the first box under Exceptions"),
    ("use --exceptions", "tick the second box under Exceptions"),
    ("name one (--dataset)", "choose one under Who pays"),
    ("say --again (again=True) if", "append it with the command sfumato stream if"),
    ("say --empty (empty=True) if", "append it with the command sfumato stream if"),
    ("(or --pure-share at `ledger init`)", ""),
    ("; `sfumato ledger init --pure-share` divides a cap otherwise, before its first release", ""),
    ("use GraphSketch (--mechanism sketch)", "choose the mechanism “graph: a sketch that answers cuts”"),
    ("(--mechanism noise)", "(the mechanism “graph: noise on every pair”)"),
    ("lower --memory", "close other programs, or choose a lower dimension"),
    ("for CSV text with another suffix use --separator", "give CSV text the suffix .csv"),
)
_CSV = re.compile(r": use --(?:separator|encoding)\b.*$", re.DOTALL)
_TOLD = re.compile(r"\b([a-z_]+)=('([^']*)'|[-+.\w]+)")
_OPTION = re.compile(r"--([a-z][a-z-]*)(?: ('[^']*'|[A-Z]+\b))?")


def said(error: Exception | str) -> str:
    """What an error says, in the words of the page: fields of forms in place of options and arguments."""
    text = str(error)
    for one, other in _SENTENCES:
        text = text.replace(one, other)
    text = _CSV.sub(": save it as UTF-8 text with commas between its cells", text)
    return _OPTION.sub(_option, _TOLD.sub(_argument, text))


def _argument(found: re.Match[str]) -> str:
    """``unit='record'`` as the form has it; what no form has stays as it is."""
    if found[1] not in _FIELDS:
        return found[0]
    label, values = _FIELDS[found[1]]
    value = found[3] if found[3] is not None else found[2]
    return f"“{label}: {values.get(value, value)}”"


def _option(found: re.Match[str]) -> str:
    """An option of the command as the field that a form has for it."""
    label = _FIELDS.get(found[1].replace("-", "_"), (found[1].replace("-", " "), {}))[0]
    return f"“{label}”" if found[2] is None else f"“{label}: {found[2]}”"
