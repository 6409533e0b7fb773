"""A private sketch from start to finish, on records made on the spot.

A data owner holds 2,000 records of 300 values in [0, 1]. She publishes 32 noisy numbers per record, such that changing
any one value of any record changes the odds of what is published by a factor of at most e^4; an analyst recovers
distances between records from those numbers alone.
"""

import json
import math
from pathlib import Path

import numpy as np

from sfumato import lattice, noise
from sfumato.calibration import least_level
from sfumato.guarantee import Guarantee
from sfumato.loss import Laplace
from sfumato.projection import Projection, coarsened
from sfumato.secret import Secret

ROWS, COLUMNS, DIMENSION = 2_000, 300, 32
STEPS = 22  # the noise scale is kept near 2^22 lattice steps
OUTPUT = Path("demo-output")


def make_records() -> np.ndarray:
    """Four groups of similar records; stands in for real data."""
    rng = np.random.default_rng(1)
    centres = rng.random((4, COLUMNS))
    return np.clip(centres[np.arange(ROWS) % 4] + 0.05 * rng.standard_normal((ROWS, COLUMNS)), 0, 1)


def main() -> None:
    """Plan, release, save, estimate."""
    promise = Guarantee(epsilon=4.0, unit="attribute")
    print(promise.describe(), "\n")

    # Before any data is read: the projection, what it costs, and the least noise that keeps the promise.
    projection = Projection(family="sparse", dim_in=COLUMNS, dim_out=DIMENSION, seed=2024).on_lattice(np.ones(COLUMNS))
    exact_move = projection.sensitivity(promise.allowed_change, 1)
    shift = max(0, math.floor(math.log2(exact_move / promise.epsilon)) - STEPS)
    move = coarsened(exact_move, shift, DIMENSION, 1)
    scale = least_level(lambda b: Laplace(move, b), promise.epsilon, promise.delta, start=move)
    unit = projection.unit * 2.0**shift
    print(f"One value moves the sketch by at most {move * unit:.4f} in the l1 norm, so Laplace noise of scale")
    print(f"{scale * unit:.4f} is needed, whatever the dimension.\n")

    # The release: clip and round, multiply exactly, round to the coarser grid, add exact noise.
    records = make_records()
    grid = lattice.InputGrid(np.zeros(COLUMNS), np.ones(COLUMNS))
    exact = projection.apply(grid, np.ascontiguousarray(records.T))
    integers = lattice.coarsen(exact, shift)
    words = Secret.fresh().words("demo", scale.hex(), 0, integers)
    published = (integers + noise.laplace(words, integers.size, scale).reshape(integers.shape)) * unit
    OUTPUT.mkdir(exist_ok=True)
    np.save(OUTPUT / "sketch.npy", published.T)
    about = {"epsilon": 4.0, "delta": 0.0, "unit": "attribute", "projection": "sparse", "seed": 2024}
    (OUTPUT / "about.json").write_text(json.dumps(about | {"laplace_scale": scale * unit}, indent=2) + "\n")

    # The analyst: squared distances without the noise's bias, and what error to expect.
    rng = np.random.default_rng(2)
    pairs = rng.choice(ROWS, (500, 2))
    pairs = pairs[pairs[:, 0] % 4 != pairs[:, 1] % 4]
    variance = 2 * (scale * unit) ** 2
    sketch = np.load(OUTPUT / "sketch.npy")
    found = np.square(sketch[pairs[:, 0]] - sketch[pairs[:, 1]]).sum(axis=1) - 2 * DIMENSION * variance
    true = np.square(records[pairs[:, 0]] - records[pairs[:, 1]]).sum(axis=1)
    fourth = np.power(records[pairs[:, 0]] - records[pairs[:, 1]], 4).sum(axis=1)
    predicted = 2 * (true**2 - fourth) / DIMENSION + 8 * variance * true + 14 * DIMENSION * variance**2
    print(f"{len(pairs)} pairs of records from different groups: squared distance {true.mean():.1f} on average,")
    print(f"recovered {found.mean():.1f}; error {np.sqrt(np.mean((found - true) ** 2)):.1f} per pair,", end=" ")
    print(f"predicted {np.sqrt(predicted.mean()):.1f} (projection and noise together).\n")
    print(
        f"The sketch ({ROWS} x {DIMENSION}) is in {OUTPUT / 'sketch.npy'}, its parameters in {OUTPUT / 'about.json'}."
    )


if __name__ == "__main__":
    main()
