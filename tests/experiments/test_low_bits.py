"""Low bits: textbook noise gives itself away by them, ours does not."""

import numpy as np

from low_bits import impossible, lowest_bit
from sfumato.audit.block_rows import Copies
from sfumato.mechanisms.sketch import Sketch
from sfumato.privacy.guarantee import Guarantee
from sfumato.randomness.secret import Secret
from sfumato.tables.schema import Schema


def test_the_lowest_bit_is_found():
    assert lowest_bit(np.array([1.0, 0.75, -3.0, 6.0, 2.0**-1074, 0.0])).tolist() == [0, -2, 0, 1, -1074, 4096]


def test_float_noise_gives_impossible_outputs_and_the_lattice_none():
    """Mironov 2012: what 1 + noise can be, 0 + noise often cannot."""
    rng, n = np.random.default_rng(1), 50_000
    textbook = [x + np.log(rng.random(n)) * rng.choice([-1.0, 1.0], n) for x in (0.0, 1.0)]
    assert impossible(*textbook) > 5000
    assert impossible(textbook[0], np.log(rng.random(n)) * rng.choice([-1.0, 1.0], n)) == 0
    for recipe, promise in (
        (Sketch(), {}),
        (Sketch(dimension=2, projection="gaussian", noise="gaussian", seed=1), {"delta": 0.01}),
    ):
        for low in (0.0, -0.3):
            prepared = recipe.prepare(
                Schema.reals(3, low=low, high=1.0), Guarantee(epsilon=1.0, unit="attribute", **promise)
            )
            ends = [np.array([[x], [0.5], [0.5]]) for x in (low, 1.0)]
            out = [
                np.concatenate(list(prepared.run(Copies(end, n), 1.0, Secret.for_testing(i)).blocks), axis=1)[0]
                for i, end in enumerate(ends)
            ]
            assert impossible(*out) == 0
