"""Release a sketch of 1,797 handwritten digits, and estimate distances from it.

The demo prints each command before it runs it. The last part compares estimated distances with the true ones, which
only the data owner can do.
"""

import shutil
import sys
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from sfumato import load
from sfumato.cli import main as sfumato

OUTPUT = Path("demo-output")


def command(line: str) -> None:
    """Show a command and run it."""
    print(f"$ sfumato {line}")
    if sfumato(line.split()) != 0:
        sys.exit(2)
    print()


def main() -> None:
    """Release, estimate, compare."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    for name in ("digits.parquet", "digits.toml"):
        (OUTPUT / name).write_bytes(resources.files("sfumato").joinpath("data", name).read_bytes())
    release = OUTPUT / "digits.release"
    command(
        f"release sketch {OUTPUT}/digits.parquet --schema {OUTPUT}/digits.toml --epsilon 4 --unit attribute "
        f"--distance 50 --out {release}"
    )
    command(f"estimate distance {release} 3 17")
    command(f"estimate nearest {release} 3 --k 3")
    compare(release)


def compare(path: Path) -> None:
    """Compare estimated squared distances with the true ones, over random pairs."""
    release = load(path)
    pixels = np.column_stack([c.to_numpy() for c in pq.read_table(OUTPUT / "digits.parquet").columns]).astype(float)
    pairs = np.random.default_rng(1).choice(len(pixels), (2000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    gaps = pixels[pairs[:, 0]] - pixels[pairs[:, 1]]
    true = np.square(gaps).sum(axis=1)
    found = release.distances(pairs[:, 0], pairs[:, 1])
    low, high = found.interval(0.95)
    predicted = release.law.distance_variance(true, np.power(gaps, 4).sum(axis=1))
    error = np.sqrt(np.mean(np.square(found.uncut - true)))
    means = f"{true.mean():.0f} on average, estimated as {found.uncut.mean():.0f}"
    print(f"{len(pairs)} random pairs: squared distance {means}.")
    print(f"Root mean square error: predicted {np.sqrt(np.mean(predicted)):.0f}, actual {error:.0f}.")
    print(f"The 95% interval contains the true distance for {np.mean((low <= true) & (true <= high)):.1%} of pairs.")
    print(f"The release is the folder {path}. Its README.txt states the guarantee in plain words.")


if __name__ == "__main__":
    main()
