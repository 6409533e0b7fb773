"""Places among sorted edges: those of ``np.searchsorted``, wherever edges and numbers lie."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.numerics.edge_search import places

EXTREMES = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 1.7e308, -1.7e308]
EDGES = {
    "none": (),
    "one": (1.0,),
    "equal": tuple(np.linspace(-3, 5, 129)),
    "crowded": (*np.linspace(0, 1, 50), *(1 + 2.0 ** -np.arange(50, 0, -1)), 7.0),
    "twice": tuple(np.repeat(np.arange(40.0), 2)),
    "all alike": (2.0,) * 30,
    "subnormal": tuple(np.arange(30) * 5e-324),
    "too far apart": (-1.7e308, *np.arange(20.0), 1.7e308),
    "far apart": (-1e300, *np.arange(20.0), 1e300),
    "infinite": (-math.inf, *np.arange(20.0), math.inf),
    "close": tuple(1e9 + np.arange(200) * 2.0**-23),
}


def searched(edges, numbers):
    return np.where(np.isnan(numbers), 0, np.searchsorted(np.array(edges, float), numbers, side="right"))


@pytest.mark.parametrize("name", EDGES)
def test_places_are_those_of_a_search(name):
    edges, rng = EDGES[name], np.random.default_rng(1)
    own = np.array([*edges, 1.0])
    near = np.concatenate([own, np.nextafter(own, math.inf), np.nextafter(own, -math.inf)])
    spread = rng.uniform(-10, 60, 1 << 15)  # over several pieces
    numbers = rng.permutation(np.concatenate([near, EXTREMES, spread, 10 * rng.standard_cauchy(5000)]))
    found = places(edges, numbers)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, searched(edges, numbers))


@given(
    st.lists(st.floats(allow_nan=False), max_size=40).map(sorted),
    st.lists(st.floats() | st.integers(-50, 50).map(float), max_size=60),
)
@settings(max_examples=300, deadline=None)
def test_places_of_any_numbers_among_any_edges_are_those_of_a_search(edges, numbers):
    both = np.array([*numbers, *edges], float)
    np.testing.assert_array_equal(places(tuple(edges), both), searched(edges, both))


def test_single_precision_is_compared_as_doubles():
    edges = tuple(np.linspace(0.1, 1, 50))
    numbers = np.array(edges, np.float32)
    np.testing.assert_array_equal(places(edges, numbers), searched(edges, numbers.astype(float)))
