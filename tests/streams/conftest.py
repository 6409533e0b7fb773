"""Small streams for tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sfumato.pipeline.stream import Stream
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.schema import Schema

SCHEMA = Schema.reals(2, low=0, high=1)
PROMISE = Guarantee(epsilon=1.0, delta=1e-6, unit="record")


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Stream]:
    """A function that makes a stream of two numbers over a few periods, under testing keys unless it has a ledger."""

    def make(name: str = "a.stream", **more: Any) -> Stream:
        terms = {"schema": SCHEMA, "guarantee": PROMISE, "horizon": 8, "testing": "ledger" not in more} | more
        return Stream.init(tmp_path / name, **terms)

    return make
