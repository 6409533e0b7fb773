"""The variance that the principal components of diffprivlib and OpenDP capture, as lines of JSON.

Usage: .venv-bench/bin/python experiments/peers.py [--data FOLDER] [--seed 1] [--quick]     (components.py runs this)
Both follow Amin et al. 2019, with a sampler that is wrong (``bingham``). A third column is diffprivlib with that one
line put right. OpenDP takes no seed, so its noise is fresh.
"""

import argparse
import json
import math
import multiprocessing
import resource
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import diffprivlib.models.utils as ibm
import numpy as np
import opendp.prelude as dp
from diffprivlib.models import PCA
from numpy.typing import NDArray

from bingham import envelope
from components import COUNTS, EPSILONS, Data, tables

Floats = NDArray[np.float64]
REPEATS, SECONDS, QUICK = 5, 10, 2  # seconds of computing that a fit may take, and those of a quick run
Fit = Callable[[Data, float, int, int], Floats]
AS_IT_IS = ibm.Bingham


class Right(AS_IT_IS):  # type: ignore[misc, valid-type]
    """diffprivlib's sampler of the Bingham law with the acceptance of Kent, Ganeiber and Mardia 2018."""

    rng: np.random.Generator

    def randomise(self, value: Floats) -> Floats:
        """A unit vector of density proportional to exp(epsilon u'Cu / (4 sensitivity))."""
        while True:
            proposals, log_right, _ = envelope(value, self.epsilon / self.sensitivity, 16, self.rng)
            for u, log_chance in zip(proposals, log_right, strict=True):
                if math.log(self.rng.random()) <= log_chance:
                    return np.asarray(u)


def acceptance(table: Data, epsilon: float) -> tuple[float, float]:
    """How often a first eigenvector is accepted: by the right chance, and by the peers'."""
    scaled = len(table.rows) * table.covariance / table.norm**2
    _, right, wrong = envelope(scaled, epsilon, 20_000, np.random.default_rng(1))
    return float(np.exp(right).mean()), float(np.exp(wrong).mean())


def diffprivlib(table: Data, epsilon: float, k: int, seed: int) -> Floats:
    """As its users call it; one record replaced, by its sensitivities."""
    ibm.Bingham = AS_IT_IS
    return _diffprivlib(table, epsilon, k, seed)


def corrected(table: Data, epsilon: float, k: int, seed: int) -> Floats:
    """The same with the sampler above."""
    ibm.Bingham = Right
    Right.rng = np.random.default_rng(seed)
    return _diffprivlib(table, epsilon, k, seed)


def _diffprivlib(table: Data, epsilon: float, k: int, seed: int) -> Floats:
    model = PCA(k, epsilon=epsilon, data_norm=table.norm, bounds=(table.low, 1.0), random_state=seed)
    return np.asarray(model.fit(table.rows.copy()).components_)


def opendp(table: Data, epsilon: float, k: int, seed: int) -> Floats:
    """Its measurement says that one record replaced (distance 2) costs twice the argument: half of epsilon goes in."""
    del seed
    count, columns = table.rows.shape
    facts = {"row_norm": table.norm, "n_samples": count, "n_features": columns, "n_components": k}
    cost = dp.sklearn.decomposition.PCA(epsilon=epsilon / 2, **facts).measurement().map(2)
    assert math.isclose(cost, epsilon, rel_tol=1e-6), cost
    return np.asarray(dp.sklearn.decomposition.PCA(epsilon=epsilon / 2, **facts).fit(table.rows.copy()).components_)


def rising(fit: Fit, task: tuple[Data, int], seconds: int, rng: np.random.Generator) -> Iterator[list[float]]:
    """The shares of the best variance that fits capture at each epsilon; none from where one took too long."""
    (table, k), ended = task, True
    for epsilon in EPSILONS:
        found: list[float] = []
        while ended and len(found) < REPEATS:
            vectors = within(seconds, fit, (table, epsilon, k, int(rng.integers(2**31))))
            ended = vectors is not None
            if vectors is not None:
                found.append(round(table.captured(np.linalg.qr(vectors[:k].T)[0]), 6))
        yield found if ended else []


def within(seconds: int, fit: Fit, arguments: tuple[Data, float, int, int]) -> Floats | None:
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


def note(table: Data, seconds: int) -> str:
    """What the page must say of these columns."""
    right, wrong = acceptance(table, 1 / 12)  # half of epsilon 1 for the mean, and six parts
    lines = [
        f'"no": a fit did not end within {seconds} seconds of computing (and was not tried at larger epsilons, where',
        "fewer proposals are accepted). OpenDP's own map charges one replaced record twice its argument, so it is",
        "given half of epsilon; its noise is fresh. Both peers draw eigenvectors from a Bingham law by rejection,",
        "and divide by a power where Kent, Ganeiber and Mardia 2018 multiply by it: another law, to which the proof of",
        f"Amin et al. does not apply. On {table.name} (epsilon 1, five components) a first proposal is accepted with",
        f"probability {wrong:.0e}, where the right chance is {right:.2f}. The last column is diffprivlib with that",
        f"line put right. {REPEATS} fits each.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Every library on every reduced table; on the smallest, with five components, where it is quick."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    seconds, rng = QUICK if options.quick else SECONDS, np.random.default_rng(options.seed)
    dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
    warnings.simplefilter("ignore")
    version = {name: f"{name} {metadata.version(name)}" for name in ("diffprivlib", "opendp")}
    libraries = {
        version["diffprivlib"]: diffprivlib,
        version["opendp"]: opendp,
        f"{version['diffprivlib']}, sampler corrected": corrected,
    }
    every = list(tables(options.data, small=True))
    for table in every[: 1 if options.quick else None]:
        for k in [k for k in COUNTS if k < table.raw.shape[1]][: 1 if options.quick else None]:
            for name, fit in libraries.items():
                for epsilon, found in zip(EPSILONS, rising(fit, (table, k), seconds, rng), strict=True):
                    run = {"data": table.name, "library": name, "epsilon": epsilon}
                    print(json.dumps(run | {"components": k, "captured": found}), flush=True)
    print(json.dumps({"note": note(max(every, key=lambda table: table.raw.size), seconds)}))


if __name__ == "__main__":
    main()
