"""Hypothesis tries the same examples on every run, so that a verdict never changes by itself; and a small ledger."""

import pytest
from hypothesis import settings

from sfumato.ledger import Ledger
from spending import pure

settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")


@pytest.fixture
def ledger(tmp_path):
    made = Ledger.create(tmp_path / "budget.db")
    made.add_dataset("people", pure(3.0))
    return made
