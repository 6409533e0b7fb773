"""Rows that AIM and MST of private-pgm make, for ``table_rivals``: run by the Python of .venv-judges-mbi.

Usage: .venv-judges-mbi/bin/python experiments/mbi_rows.py ASKED.npz TOLD.npz
Both are the authors' own code (the folder ``mechanisms`` of a checkout of private-pgm beside the environment), under
zero-concentrated privacy for a record added or removed: a table of counts moves by 1 in one cell, so Gaussian noise of
sd s costs rho = 1 / (2 s^2); an l1 distance that chooses a table moves by 1.

A record replaced moves two cells of a table by 1, so the same noise costs 2 rho, and it moves an l1 distance by 2, so
the same choice costs 4 rho. Where ``replaced`` is asked, the mechanism runs with rho / 2, and distances that choose are
divided by sqrt(2) more: noise and choices then cost exactly rho, and the mechanism's own shares stay as they are.

mbi takes long, since AIM fits its model anew after every table. Where ``inference`` is
``sfumato``, the authors' code chooses, measures and adds noise as before, and the model that fits the measurements best
is found by our junction tree. Both minimise the same sum of squares on the same kind of tree.
"""

import contextlib
import itertools
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sfumato.marginals.fitting import FittedTree, Measured, fit
from sfumato.marginals.junction_tree import Clique, JunctionTree
from sfumato.marginals.sampling import sample

sys.path.insert(0, str(Path(sys.prefix) / "private-pgm" / "mechanisms"))

import aim
import mst
from cdp2adp import cdp_rho
from mbi import Dataset, Domain, Factor, estimation

MOST_CELLS = 10_000  # of a table that AIM may measure, its own default


class _Aim(aim.AIM):  # type: ignore[misc]
    """AIM with a budget of ``rho``, and distances that choose divided by ``stretch`` more."""

    def __init__(self, rho: float, stretch: float, **more: Any) -> None:
        super().__init__(1.0, 0.0, **more)
        self.rho, self.stretch = rho, stretch

    def exponential_mechanism(self, qualities: Any, epsilon: float, sensitivity: float = 1.0, **more: Any) -> Any:
        """Choose, for distances that move more."""
        return super().exponential_mechanism(qualities, epsilon, sensitivity * self.stretch, **more)


@dataclass(frozen=True)
class _Table:
    """Expected counts, as mbi gives them."""

    counts: Any

    def datavector(self) -> Any:
        """All of them, in C order."""
        return self.counts.ravel()


@dataclass(frozen=True)
class _Model:
    """A model of mbi's form on our junction tree: what AIM asks of one."""

    domain: Any
    fitted: FittedTree
    total: float
    cliques: list[tuple[str, ...]]

    @property
    def potentials(self) -> "_Model":
        """Where the next fit starts."""
        return self

    def expand(self, _: Any) -> "_Model":
        """Ours need not be told for which tables."""
        return self

    def project(self, names: Any) -> _Table:
        """The expected counts of some columns."""
        return _Table(self.total * self.fitted.tree.marginal(self.fitted.beliefs, _numbers(self.domain, names)))

    def synthetic_data(self, rows: int | None = None) -> Any:
        """Rows drawn from the model; without a number, as many as it expects."""
        seed = int(np.random.randint(2**31))  # noqa: NPY002 - as all of AIM
        codes = sample(self.fitted.tree, self.fitted.beliefs, rows or int(self.total), np.random.default_rng(seed))
        return Dataset(pd.DataFrame(codes.T, columns=list(self.domain.attrs)), self.domain)


def _numbers(domain: Any, names: Any) -> Clique:
    return tuple(domain.attrs.index(name) for name in names)


def _measured(domain: Any, one: Any) -> Measured:
    """A measurement of mbi: counts with noise, some of them divided by a number, as MST does with merged cells."""
    columns = _numbers(domain, one.clique)
    shape, order = [domain.shape[c] for c in columns], np.argsort(columns)
    factors = np.asarray(one.query(Factor(domain.project(one.clique), np.ones(shape))), float)
    counts, variances = np.asarray(one.noisy_measurement, float) / factors, (one.stddev / factors) ** 2
    counts, variances = (values.reshape(shape).transpose(order) for values in (counts, variances))
    return Measured(tuple(sorted(columns)), counts, variances)


class _Estimation:
    """In the place of mbi's module of this name."""

    @staticmethod
    def mirror_descent(
        domain: Any, measurements: Any, *, iters: int, potentials: Any = None, callback_fn: Any = None
    ) -> _Model:
        """The best fit to the measurements, on their junction tree."""
        del callback_fn
        total = estimation.minimum_variance_unbiased_total(measurements)
        measured = [_measured(domain, one) for one in measurements]
        tree = JunctionTree.of(domain.shape, [one.columns for one in measured])
        old = potentials.fitted if potentials is not None else None
        usable = old is not None and all(tree.home(clique) is not None for clique in old.tree.cliques)
        fitted = fit(tree, measured, total, iterations=iters, start=old if usable else None)
        return _Model(domain, fitted, total, [tuple(one.clique) for one in measurements])


def by_aim(data: Any, rho: float, stretch: float, given: Any) -> Any:
    """All tables of ``degree`` columns, each as important as the others."""
    tables = [t for t in itertools.combinations(data.domain, int(given["degree"])) if data.domain.size(t) <= MOST_CELLS]
    if str(given["inference"]) == "sfumato":
        aim.estimation = _Estimation
    maker = _Aim(rho, stretch, max_model_size=float(given["megabytes"]))
    return maker.run(data, [(t, 1.0) for t in tables], num_synth_rows=data.records)[1]


def by_mst(data: Any, rho: float, stretch: float, given: Any) -> Any:
    """A tree of pairs."""
    if str(given["inference"]) == "sfumato":
        mst.estimation = _Estimation
    choose = mst.exponential_mechanism
    mst.cdp_rho = lambda *_: rho
    mst.exponential_mechanism = lambda q, eps, sensitivity, **more: choose(q, eps, sensitivity * stretch, **more)
    return mst.MST(data, 1.0, 0.0)


def main() -> None:
    """Learn from the rows, and sample."""
    asked, told = sys.argv[1:]
    given = np.load(asked)
    names = [f"c{i}" for i in range(len(given["sizes"]))]
    data = Dataset(pd.DataFrame(given["rows"], columns=names), Domain(names, tuple(map(int, given["sizes"]))))
    rho = cdp_rho(float(given["epsilon"]), float(given["delta"])) * float(given["share"])
    budget, stretch = (rho / 2, float(np.sqrt(2))) if given["replaced"] else (rho, 1.0)
    np.random.seed(int(given["seed"]))  # noqa: NPY002 - what both draw from
    start = time.monotonic()
    with contextlib.redirect_stdout(sys.stderr):
        made = {"aim": by_aim, "mst": by_mst}[str(given["method"])](data, budget, stretch, given)
    used = resource.getrusage(resource.RUSAGE_SELF)
    facts = {"cpu": used.ru_utime + used.ru_stime, "wall": time.monotonic() - start, "mib": used.ru_maxrss / 1024}
    np.savez(told, rows=made.df[names].to_numpy(), **facts)


if __name__ == "__main__":
    main()
