"""A small table, and sessions on it, that the tests of questions share."""

import numpy as np
import pyarrow as pa

from sfumato.pipeline.session import Session
from sfumato.tables.columns import Category, Flag, Id, Real
from sfumato.tables.schema import Schema

SCHEMA = Schema((Id("name"), Real("age", 0, 120), Flag("smoker"), Category("city", ("Bern", "Basel"))))
RNG = np.random.default_rng(7)
AGES, SMOKERS = RNG.uniform(-10, 140, 3000).round(1), RNG.random(3000) < 0.3
CITIES = RNG.choice(["Bern", "Basel", "Zug"], 3000)
TABLE = pa.table({"name": np.arange(3000), "age": AGES, "smoker": SMOKERS, "city": CITIES})
OLD_SMOKERS = int(((AGES >= 40) & SMOKERS).sum())


def opened(ledger, data=TABLE, **terms):
    return Session(data, **({"schema": SCHEMA, "ledger": ledger} | terms))
