"""Small data, and requests for them, that the tests of ledgers share."""

import numpy as np

from sfumato.ledger.sources import Origin
from sfumato.ledger.state import Request
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Laplace
from sfumato.tables.schema import Schema

SCHEMA = Schema.reals(3, low=0, high=1)
ROWS = np.random.default_rng(1).random((20, 3))
SKETCH = Sketch(dimension=2, seed=1)


def pure(epsilon, unit="record", **fields):
    return Guarantee(epsilon=epsilon, unit=unit, **fields)


def request(epsilon=1.0, source="memory", schema="{}", **fields):
    """A request; its source is an ``Origin``, or the place of one."""
    guarantee = pure(epsilon, **fields)
    return Request(
        "Sketch",
        guarantee,
        Laplace(epsilon, 1.0),
        lambda t: Laplace(epsilon, t),
        3,
        schema=schema,
        source=source if isinstance(source, Origin) else Origin(source),
    )


def made(ledger, epsilon=1.0, **terms):
    return release(ROWS, schema=SCHEMA, mechanism=SKETCH, guarantee=pure(epsilon), ledger=ledger, **terms)


def states(ledger, name="people"):
    return [spent.state for spent in ledger.dataset(name).releases]
