"""The variance that the principal components of diffprivlib and OpenDP capture, for experiments/components.py.

Usage: make peers DATA=folder     writes experiments/peers.json
Both follow Amin et al. 2019: eigenvalues with Laplace noise, and one eigenvector after the other from a Bingham law,
which is sampled by rejection from an angular Gaussian envelope. A proposal u should be accepted with probability
exp(-u'Au) (u'Wu)^(d/2) / M, the Bingham density over M times the envelope's (Kent, Ganeiber, Mardia 2018, section 3).
Both divide by (u'Wu)^(d/2) instead, so what they draw has another law, to which the proof does not apply, and hardly
any proposal is accepted on data of this size. A third column is diffprivlib with that one line put right.
"""

import argparse
import json
import math
import multiprocessing
import resource
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import diffprivlib.models.utils as ibm
import numpy as np
import opendp.prelude as dp
from diffprivlib.models import PCA
from numpy.typing import NDArray

from components import COUNTS, EPSILONS, PEERS, Table, tables

Floats = NDArray[np.float64]
REPEATS, SECONDS = 5, 10
Fit = Callable[[Table, float, int], Floats]
AS_IT_IS = ibm.Bingham


class Right(AS_IT_IS):  # type: ignore[misc, valid-type]
    """diffprivlib's sampler of the Bingham law with the acceptance of Kent, Ganeiber and Mardia 2018."""

    def randomise(self, value: Floats) -> Floats:
        """A unit vector of density proportional to exp(epsilon u'Cu / (4 sensitivity))."""
        rng = np.random.default_rng()
        while True:
            proposals, log_right, _ = envelope(value, self.epsilon / self.sensitivity, 16, rng)
            for u, log_chance in zip(proposals, log_right, strict=True):
                if math.log(rng.random()) <= log_chance:
                    return np.asarray(u)


def envelope(matrix: Floats, epsilon: float, count: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Proposals, and the logarithms of their chances of acceptance: right, and as the peers have them."""
    dim = len(matrix)
    tilted = epsilon * (np.linalg.eigvalsh(matrix).max() * np.eye(dim) - matrix) / 4
    b = _root(np.linalg.eigvalsh(tilted), dim)
    omega = np.eye(dim) + 2 * tilted / b
    z = rng.standard_normal((count, dim)) @ np.linalg.cholesky(np.linalg.inv(omega)).T
    u = z / np.linalg.norm(z, axis=1, keepdims=True)
    bingham = -np.sum((u @ tilted) * u, axis=1) + (dim - b) / 2 - dim / 2 * math.log(dim / b)
    power = dim / 2 * np.log(np.sum((u @ omega) * u, axis=1))
    return u, bingham + power, bingham - power


def acceptance(table: Table, epsilon: float) -> tuple[float, float]:
    """How often a first eigenvector is accepted: by the right chance, and by the peers'."""
    scaled = len(table.rows) * table.covariance / table.norm**2
    _, right, wrong = envelope(scaled, epsilon, 20_000, np.random.default_rng(1))
    return float(np.exp(right).mean()), float(np.exp(wrong).mean())


def _root(eigenvalues: Floats, dim: int) -> float:
    """Where the sum of 1 / (b + 2 eigenvalue) is 1."""
    low, high = 0.5, float(dim)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.sum(1 / (middle + 2 * np.maximum(eigenvalues, 0.0))) >= 1 else (low, middle)
    return high


def diffprivlib(table: Table, epsilon: float, k: int) -> Floats:
    """As its users call it; one record replaced, by its sensitivities."""
    ibm.Bingham = AS_IT_IS
    return _diffprivlib(table, epsilon, k)


def corrected(table: Table, epsilon: float, k: int) -> Floats:
    """The same with the sampler above."""
    ibm.Bingham = Right
    return _diffprivlib(table, epsilon, k)


def _diffprivlib(table: Table, epsilon: float, k: int) -> Floats:
    model = PCA(k, epsilon=epsilon, data_norm=table.norm, bounds=(table.low, 1.0))
    return np.asarray(model.fit(table.rows.copy()).components_)


def opendp(table: Table, epsilon: float, k: int) -> Floats:
    """Its measurement says that one record replaced (distance 2) costs twice the argument: half of epsilon goes in."""
    count, columns = table.rows.shape
    facts = {"row_norm": table.norm, "n_samples": count, "n_features": columns, "n_components": k}
    cost = dp.sklearn.decomposition.PCA(epsilon=epsilon / 2, **facts).measurement().map(2)
    assert math.isclose(cost, epsilon, rel_tol=1e-6), cost
    return np.asarray(dp.sklearn.decomposition.PCA(epsilon=epsilon / 2, **facts).fit(table.rows.copy()).components_)


def runs(fit: Fit, table: Table, epsilon: float, k: int) -> list[float]:
    """The share of the best variance that each fit captures; none if one took too long."""
    found = []
    for _ in range(REPEATS):
        vectors = within(SECONDS, fit, (table, epsilon, k))
        if vectors is None:
            return []
        found.append(table.captured(np.linalg.qr(vectors[:k].T)[0]))
    return found


def rising(fit: Fit, table: Table, k: int) -> Iterator[list[float]]:
    """At each epsilon, until one did not end."""
    found: list[float] | None = None
    for epsilon in EPSILONS:
        found = runs(fit, table, epsilon, k) if found is None or found else []
        yield found


def within(seconds: int, fit: Fit, arguments: tuple[Table, float, int]) -> Floats | None:
    """What a fit finds, in a process of its own that the system ends after so many seconds of computing: then None."""
    forking = multiprocessing.get_context("fork")
    here, there = forking.Pipe(duplex=False)

    def run() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        there.send(fit(*arguments))

    process = forking.Process(target=run)
    process.start()
    there.close()
    try:
        return np.asarray(here.recv())
    except EOFError:
        process.join()
        if process.exitcode == 1:
            raise
        return None
    finally:
        process.join()


def notes(table: Table) -> list[str]:
    """What the page must say of these columns."""
    right, wrong = acceptance(table, 1 / 12)  # half of epsilon 1 for the mean, and six parts
    return [
        f'"no": a fit did not end within {SECONDS} seconds of computing (and was not tried at larger epsilons, where',
        "fewer proposals are accepted). OpenDP's own map charges one replaced record twice its argument, so it is",
        "given half of epsilon. Both peers draw eigenvectors from a Bingham law by rejection, and divide by a power",
        "where Kent, Ganeiber and Mardia 2018 multiply by it: another law, to which the proof of Amin et al. does not",
        f"apply. On {table.name} (epsilon 1, five components) a first proposal is accepted with probability",
        f"{wrong:.0e}, where the right chance is {right:.2f}. The last column is diffprivlib with that line put right.",
    ]


def main() -> None:
    """Every library on every reduced table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    folder = parser.parse_args().data
    dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
    warnings.simplefilter("ignore")
    version = {name: f"{name} {metadata.version(name)}" for name in ("diffprivlib", "opendp")}
    libraries = {
        version["diffprivlib"]: diffprivlib,
        version["opendp"]: opendp,
        f"{version['diffprivlib']}, sampler corrected": corrected,
    }
    stored, every = [], list(tables(folder, small=True))
    for table in every:
        for k in (k for k in COUNTS if k < table.raw.shape[1]):
            for name, fit in libraries.items():
                for epsilon, found in zip(EPSILONS, rising(fit, table, k), strict=True):
                    run = {"data": table.name, "digest": table.digest, "library": name, "epsilon": epsilon}
                    stored.append(run | {"components": k, "captured": [round(share, 6) for share in found]})
                    print(json.dumps(stored[-1]), file=sys.stderr, flush=True)
    told = notes(max(every, key=lambda table: table.raw.size))
    lines = ",\n".join(f"  {json.dumps(run)}" for run in stored)
    text = f'{{\n "notes": {json.dumps(told, indent=1)},\n "runs": [\n{lines}\n ]\n}}\n'
    PEERS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
