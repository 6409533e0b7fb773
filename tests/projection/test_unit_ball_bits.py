"""How many bits rows within the ball have: as many as keep their squared lengths exact, and 20 at most."""

import pytest

from sfumato.errors import ParameterError
from sfumato.projection.unit_ball import Frame
from sfumato.tables.schema import Schema


@pytest.mark.parametrize(("columns", "bits"), [(1, 20), (3, 20), (2049, 20), (4096, 20), (4097, 19), (20_000, 18)])
def test_squared_lengths_of_clipped_rows_stay_exact(columns, bits):
    """Before they are shortened, entries are at most 2^bits, or twice that about a centre."""
    frame = Frame.of(Schema.reals(columns, low=-1, high=1), "once")
    assert frame.bits == bits
    assert columns * (2 * frame.top**2) <= 2**53
    assert frame.top == 2**bits
    assert frame.dim == columns


def test_room_is_left_for_rounding():
    frame = Frame.of(Schema.reals(100, low=-1, high=1), "once")
    assert frame.one == frame.top - 5 - 1


@pytest.mark.parametrize(
    ("widest", "allowed"), [(1.5e-100, True), (0.7e-100, False), (0.7e100, True), (1.5e100, False)]
)
def test_numbers_whose_squares_would_vanish_or_overflow_are_refused(widest, allowed):
    schema = Schema.reals(2, low=-widest, high=widest)
    if allowed:
        assert Frame.of(schema, "once").dim == 2
    else:
        with pytest.raises(ParameterError, match="bounds times weights"):
            Frame.of(schema, "once")
