"""How many units of a release one unit of a cap is: every chain of neighbours by itself."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import LedgerError, ParameterError
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.privacy.units import Cap, _moves, units


def record(group=1, change=None, neighbours="replace"):
    fields = {} if change is None else {"change": change}
    return Guarantee(epsilon=1.0, unit="record", group=group, neighbours=neighbours, **fields)


VALUE = Guarantee(epsilon=1.0, unit="attribute")
COLUMNS = 7


@pytest.mark.parametrize(
    ("release", "cap", "expected"),
    [
        (VALUE, Cap(VALUE), 1),
        (VALUE, Cap(VALUE, 3), 3),
        (VALUE, Cap(VALUE, 30), COLUMNS),
        (VALUE, Cap(record()), COLUMNS),
        (VALUE, Cap(record(group=4)), 4 * COLUMNS),
        (record(), Cap(VALUE, 3), 1),
        (record(), Cap(record(group=4)), 4),
        (record(group=3), Cap(record(group=4)), 2),
        (record(group=4), Cap(record(group=4)), 1),
        (record(neighbours="add-remove"), Cap(record()), 2),
        (record(neighbours="add-remove", group=2), Cap(record(group=4)), 4),
        (record(neighbours="add-remove"), Cap(record(neighbours="add-remove", group=3)), 3),
        (record(change=Change.l1(0.5)), Cap(record(change=Change.l1(2.0))), 4),
        (record(change=Change.l2(0.5)), Cap(record(change=Change.l1(2.0))), 4),
        (record(change=Change.l2(0.5)), Cap(record(change=Change.l2(1.75))), 4),
        (record(change=Change.l2(0.5), group=2), Cap(record(change=Change.l2(1.75), group=5)), 12),
        (record(), Cap(record(change=Change.l2(1.75))), 1),
    ],
)
def test_units_are_counted_along_a_chain_of_neighbours(release, cap, expected):
    assert units(release, cap, COLUMNS) == expected


@pytest.mark.parametrize(
    ("release", "cap"),
    [
        (record(), Cap(record(neighbours="add-remove"))),
        (record(change=Change.l1(0.5)), Cap(record(change=Change.l2(2.0)))),
        (record(change=Change.l1(0.5)), Cap(record())),
        (Guarantee(epsilon=1.0, unit="edge"), Cap(record())),
        (record(), Cap(Guarantee(epsilon=1.0, unit="edge"))),
    ],
)
def test_what_has_no_chain_is_refused(release, cap):
    with pytest.raises(LedgerError, match="cannot be charged"):
        units(release, cap, COLUMNS)


@pytest.mark.parametrize("attributes", [0, -1, 1.5])
def test_a_cap_counts_whole_values(attributes):
    with pytest.raises(ParameterError, match="attributes"):
        Cap(VALUE, attributes)


def test_a_cap_of_several_values_is_for_values():
    with pytest.raises(ParameterError, match="attribute"):
        Cap(record(), 2)
    assert Cap(record(), 1).attributes == 1


def test_moves_of_a_radius_reach_as_far_as_the_change_to_the_last_bit():
    rng, promise = np.random.default_rng(5), Guarantee(epsilon=1.0)
    for radius, times in zip(rng.random(2000).tolist(), rng.integers(1, 50, 2000).tolist(), strict=True):
        wanted = math.nextafter(times * radius, math.inf)
        moves = _moves(Change.l2(radius), Change.l2(wanted), promise, None)
        assert (moves - 1) * Fraction(radius) < Fraction(wanted) <= moves * Fraction(radius)
