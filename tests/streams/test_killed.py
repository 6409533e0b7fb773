"""Streams that are killed: nothing that was reported is lost, nothing is spent or drawn twice."""

import numpy as np
import pytest

from faults.streams import StreamJudge, campaign
from sfumato.ledger.ledger import Ledger
from sfumato.pipeline.stream import Stream
from sfumato.privacy.guarantee import Guarantee


@pytest.mark.slow
@pytest.mark.parametrize("method", ["square-root", "tree"])
def test_processes_that_are_killed_lose_nothing_and_draw_nothing_twice(tmp_path, method):
    """A few kills at random instants; `make faults` has a hundred."""
    assert not any(campaign(tmp_path, 8, 3, method).values())


def test_the_judge_sees_what_is_lost_or_drawn_twice(tmp_path, made):
    """A period that is not there, and measurements that have changed."""
    Ledger.create(tmp_path / "budget.db").add_dataset("people", Guarantee(epsilon=50.0, delta=1e-6, unit="record"))
    judge, rows = StreamJudge(tmp_path), np.full((3, 2), 0.5)
    stream = made(testing=False)
    stream.append(rows, period="p1")
    judge.heard(["appended p1"])
    judge.look()
    assert not any(judge.counts.values())
    judge.heard(["appended p2"])
    judge.look()
    assert judge.counts["lost"] == 1
    stream.path.unlink()
    again = made(testing=False)
    assert isinstance(again, Stream)
    for label in ("p1", "p2"):
        again.append(rows, period=label)
    judge.look()
    assert judge.counts["twice"] == 1
