"""How far a mechanism says that one unit moves what gets its noise, and how far a pair of runs really moved it.

Both are measured in the noise's own scale, stage by stage: the l1 norm over b for Laplace noise, the Euclidean norm of
the entries over their standard deviations for Gaussian noise, how many answers change, how far a choice's scores move;
for sketches that are private by themselves, how much the covariance of the rows stretches.
"""

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import linalg

from sfumato.audit.recorder import Draw
from sfumato.errors import ParameterError
from sfumato.files.edges import gather
from sfumato.mechanisms.base import Prepared
from sfumato.mechanisms.chosen_sketch import PreparedChoice
from sfumato.mechanisms.components import PreparedComponents
from sfumato.mechanisms.covariance import PreparedCovariance, PreparedCovarianceSketch
from sfumato.mechanisms.distances import PreparedDistances
from sfumato.mechanisms.graph_pairs import PreparedEdgeNoise, PreparedEdgeResponse
from sfumato.mechanisms.graph_sketch import PreparedGraphSketch, _Sampler
from sfumato.mechanisms.histogram import PreparedHistogram
from sfumato.mechanisms.responses import PreparedResponses
from sfumato.mechanisms.second_moment import SecondMoment
from sfumato.mechanisms.sketch import PreparedSketch
from sfumato.mechanisms.synthetic.recipe import PreparedSynthetic
from sfumato.mechanisms.table.recipe import PreparedTable
from sfumato.numerics.spectral_norm import norm_bound
from sfumato.numerics.types import Floats
from sfumato.tables.blocks import Rows

Stages = dict[str, float]

SLACK = 1 + 1e-9  # for the doubles in which moves are measured; the moves themselves are integers


# Mechanisms whose noise is counted as one stage, and what its streams are called.
_ALONE = {
    PreparedCovariance: "second moment",
    PreparedDistances: "distances",
    PreparedHistogram: "histogram",
    PreparedEdgeNoise: "edge noise",
    PreparedTable: "table",  # all its stages together, which are chosen as the run goes on
}


@functools.singledispatch
def allowed(prepared: Any, level: float) -> Stages:
    """How far a mechanism claims that one unit moves each stage, by the first words of the stage's streams."""
    del level
    raise ParameterError(f"no audit is implemented for {type(prepared).__name__}")


@allowed.register
def _(prepared: PreparedSketch, level: float) -> Stages:
    if not prepared.fresh:
        return {"sketch": 1 / level}
    # A fresh projection promises nothing for the P in hand but that a change of that radius is stretched by at most
    # its largest singular value; and a step per output for coarsening.
    matrix = prepared.projection.matrix()
    dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    root = math.sqrt(prepared.dimension) if prepared.order == 1 else 1.0
    return {"sketch": norm_bound(dense) * root / level + prepared.dimension / prepared.scale(level)}


@allowed.register
def _(prepared: PreparedChoice, level: float) -> Stages:
    return {"dimension": float(prepared.guarantee.group), "sketch": 1 / level}


@allowed.register
def _(prepared: PreparedComponents, level: float) -> Stages:
    first, second = prepared.levels(level)
    return {"second moment": 1 / first, "sketch": 1 / second}


@allowed.register
def _(prepared: PreparedSynthetic, level: float) -> Stages:
    first, second = prepared.levels(level)
    mean = {} if prepared.mean is None else {"synthetic mean": 1 / first}
    return mean | {"synthetic moments": 1 / second}


@allowed.register
def _(
    prepared: PreparedCovariance | PreparedDistances | PreparedEdgeNoise | PreparedHistogram | PreparedTable,
    level: float,
) -> Stages:
    return {_ALONE[type(prepared)]: 1 / level}


@allowed.register
def _(prepared: PreparedResponses, level: float) -> Stages:
    del level
    return {"responses": float(len(prepared.changed) * prepared.guarantee.group)}


@allowed.register
def _(prepared: PreparedEdgeResponse, level: float) -> Stages:
    del prepared, level
    return {"edge response": 1.0}


@allowed.register
def _(prepared: PreparedCovarianceSketch, level: float) -> Stages:
    return {"covariance of the rows": (4.0 if prepared.recipe.centred else 1.0) / level}


@allowed.register
def _(prepared: PreparedGraphSketch, level: float) -> Stages:
    return {"covariance of the rows": prepared.ratio(level)}


Pairs = Iterable[tuple[Draw, Draw]]


def moves(pairs: Pairs, stages: Iterable[str]) -> Stages:
    """How far two runs really moved each stage beside what is claimed; draws of no stage keep their own name."""
    sums: dict[tuple[str, str], float] = defaultdict(float)
    pairs = list(pairs)
    noise = next((one.law for one, _ in pairs if one.law in _CHOICE_COSTS), "laplace")
    for one, two in pairs:
        name = next((s for s in stages if one.place[0].startswith(s)), one.place[0].split(" ")[0])
        moved = np.abs(one.fed - two.fed).astype(np.float64)
        if one.law == "choice" and name == _ALONE[PreparedTable]:
            order, cost = _CHOICE_COSTS[noise]
            sums[name, noise] += (cost * float(moved.max()) * one.scale) ** order
        else:
            sums[name, one.law] += _MEASURES[one.law](moved, one)
    found: Stages = defaultdict(float)
    for (name, law), value in sums.items():
        found[name] += math.sqrt(value) if law == "gaussian" else value
    return dict(found)


# By the noise beside it: its order, and what a choice at a rate costs for each step that its scores move, in the scale
# of that noise. A choice at rate r by scores that move by d is 2 d r-private, and sqrt(pi/2) d r-GDP.
_CHOICE_COSTS: dict[str, tuple[int, float]] = {"laplace": (1, 2.0), "gaussian": (2, math.sqrt(math.pi / 2))}

_MEASURES: dict[str, Callable[[Floats, Draw], float]] = {
    "laplace": lambda moved, draw: float((moved / draw.scale).sum()),
    "discrete laplace": lambda moved, draw: float((moved / draw.scale).sum()),
    "gaussian": lambda moved, draw: float(np.square(moved / draw.scale).sum()),
    "response": lambda moved, _: float(np.count_nonzero(moved)),
    "choice": lambda moved, draw: float(moved.max()) * 2.0**-draw.options,
    "flips": lambda moved, _: float(moved.max()),
}


def row_covariance(prepared: Prepared, level: float, rows: Rows) -> Floats:
    """Rows' covariance in a sketch that is private by itself, off the directions it never has, to see how it moves."""
    if isinstance(prepared, PreparedCovarianceSketch):
        exact = SecondMoment(prepared.grid, prepared.guarantee, 2, 0.0, centred=True).exact(rows)
        scatter = prepared._scatter(exact)
        return np.asarray(scatter + level * prepared.longest**2 * np.eye(len(scatter)))
    assert isinstance(prepared, PreparedGraphSketch)
    graph = gather(rows, prepared.recipe.vertices)
    n, weight = graph.vertices, prepared.ridge(level, graph.vertices)
    whole = weight * (np.eye(n) - 1 / n)
    for _start, incidence in _Sampler(graph, weight, 1.0, functools.partial(np.zeros, 0))._incidences():
        whole += (incidence @ incidence.T).toarray()
    off = linalg.null_space(np.ones((1, n)))
    return np.asarray(off.T @ whole @ off)


def stretch(first: Floats, second: Floats) -> float:
    """How far a covariance moved: s, where its eigenvalues in units of the other reach from 1/(1 + s) to 1 + s."""
    values = linalg.eigh(first, second, eigvals_only=True)
    return float(max(values.max(), 1 / values.min()) - 1)
