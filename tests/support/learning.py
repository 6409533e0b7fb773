"""Tables to learn schemas of, and runs of the mechanism on them without a file or a ledger."""

import datetime as dt
import string

import numpy as np
import pyarrow as pa

from sfumato.files.open_table import open_table
from sfumato.mechanisms.schema_learning.counting import Reading
from sfumato.mechanisms.schema_learning.recipe import SchemaLearning
from sfumato.mechanisms.schema_learning.wanted import Wanted
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee

WANTED = (
    Wanted("number"),
    Wanted("count"),
    Wanted("word"),
    Wanted("day"),
    Wanted("mixed"),
    Wanted("point", shape="vector", size=3),
    Wanted("items", shape="set", most=3),
)
_TYPES = pa.schema(
    [
        ("number", pa.float64()),
        ("count", pa.int64()),
        ("word", pa.string()),
        ("day", pa.date32()),
        ("mixed", pa.string()),
        ("point", pa.list_(pa.float32(), 3)),
        ("items", pa.list_(pa.string())),
    ]
)


def record(rng):
    """A record of the mixed table, with every kind of cell now and then."""
    word = "".join(rng.choice(list(string.ascii_lowercase[:4]), 2))
    mixed = ["", "7", "2.5", "yes", "no", "2020-02-03", "2020-02-03T10:00", word, "nan", "-1e300", None]
    return {
        "number": rng.choice([None, 0.0, 1.5, -3e7, 1e-12, np.inf, float(rng.normal())]),
        "count": rng.choice([None, 0, 1, 2, -(2**40), int(rng.integers(100))]),
        "word": rng.choice([None, word, f"only {rng.integers(10**9)}", "common"]),
        "day": rng.choice([None, dt.date(2020, 1, 1), dt.date(1900, 1, int(rng.integers(1, 28)))]),
        "mixed": rng.choice(mixed),
        "point": rng.choice([None, 0], p=[0.2, 0.8]) if rng.random() < 0.2 else rng.normal(size=3).tolist(),
        "items": None if rng.random() < 0.2 else [f"i{k}" for k in rng.integers(0, 9, rng.integers(0, 7))],
    }


def table(records):
    """Records of the mixed table as Arrow has them."""
    rows = [dict(r, point=None if not isinstance(r["point"], list) else r["point"]) for r in records]
    return pa.Table.from_pylist(rows, _TYPES)


def learning(columns=WANTED, *, epsilon=1.0, delta=1e-3, neighbours="replace", group=1):
    """The calibrated mechanism for these columns."""
    guarantee = Guarantee(epsilon=epsilon, delta=delta, neighbours=neighbours, group=group)
    return calibrate(SchemaLearning(tuple(columns), guarantee), guarantee)


def learned(calibrated, data, secret):
    """What a run of the mechanism learns of an Arrow table."""
    return calibrated.mechanism.run(Reading(open_table(data), threads=1), calibrated.level, secret)
