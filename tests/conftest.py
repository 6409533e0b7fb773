"""The same examples of Hypothesis and the same public seeds on every run, so that a verdict never changes by itself.

And a small ledger.
"""

import random
import secrets

import pytest
from hypothesis import settings

from sfumato.ledger import Ledger
from spending import pure

settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")


@pytest.fixture(autouse=True)
def public_seeds(monkeypatch):
    """Seeds of projections that a recipe leaves open; noise under a testing secret depends on them."""
    monkeypatch.setattr(secrets, "randbits", random.Random(0).getrandbits)  # noqa: S311 - public seeds only


@pytest.fixture
def ledger(tmp_path):
    made = Ledger.create(tmp_path / "budget.db")
    made.add_dataset("people", pure(3.0))
    return made
