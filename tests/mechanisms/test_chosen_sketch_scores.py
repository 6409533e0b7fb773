"""Scores of candidate dimensions: by the distance of two rows, whichever rows they are, and by pairs of the table."""

import numpy as np

from sfumato.mechanisms.chosen_sketch import ChosenSketch
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.schema import Schema

BOX = Schema.reals(16, low=0, high=1)
SCORE = ChosenSketch(choice=0.5).prepare(BOX, Guarantee(epsilon=2.0, unit="attribute"))._scorer(1.0)


def test_only_the_distance_of_a_pair_counts():
    """Pairs of equal rows score alike wherever they are, and a pair a distance apart otherwise."""
    nothing, ones = np.zeros((16, 2)), np.ones((16, 2))
    apart = np.concatenate([np.zeros((16, 1)), np.ones((16, 1))], axis=1)
    assert SCORE(0, nothing).tolist() == SCORE(0, ones).tolist()
    assert SCORE(0, apart).tolist() != SCORE(0, ones).tolist()
    assert SCORE(0, apart).tolist() == SCORE(0, apart[:, ::-1]).tolist()


def test_pairs_are_those_of_the_table_wherever_a_block_begins():
    rows = np.random.default_rng(1).uniform(0, 1, (16, 7))
    assert SCORE(1, rows).tolist() == SCORE(0, rows[:, 1:]).tolist()
    assert SCORE(3, rows).tolist() == SCORE(1, rows).tolist()
    assert SCORE(2, rows).tolist() == SCORE(0, rows).tolist() == SCORE(0, rows[:, :6]).tolist()
