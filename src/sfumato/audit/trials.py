"""How each mechanism is sampled and scored: its worst pair, its own run, and the statistic that tells most.

=====================  ===============================================================================================
closed                 the mechanism's own ``run`` on many equal records (or rows of a sketch, or pairs of vertices),
                       and the exact likelihood ratio of what it publishes
draws                  the draws of one recorded run, each drawn again as often as wanted by the same sampler at the
                       same scale from the same integers: all that is accounted for, published or not, and its exact
                       likelihood ratio. What depends on an earlier outcome is held at one outcome: the proof of every
                       later stage is for each of them
learned                many whole runs, and logistic regression on the published numbers (``classifier``)
=====================  ===============================================================================================
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.audit import classifier
from sfumato.audit.block_rows import Copies
from sfumato.audit.claimed_moves import row_covariance
from sfumato.audit.recorder import Draw
from sfumato.audit.worst_pairs import Pair, recorded_pair, searched_pair, sketch_pair
from sfumato.estimation.response_columns import encoded
from sfumato.files.edges import open_edges
from sfumato.mechanisms.base import Prepared, Recipe, settled
from sfumato.mechanisms.covariance import PreparedCovarianceSketch
from sfumato.mechanisms.graph_pairs import PreparedEdgeNoise, PreparedEdgeResponse
from sfumato.mechanisms.graph_sketch import GraphSketch, PreparedGraphSketch
from sfumato.mechanisms.responses import PreparedResponses
from sfumato.mechanisms.sketch import PreparedSketch
from sfumato.numerics.types import Floats, Integers
from sfumato.privacy.calibration import calibrate
from sfumato.privacy.guarantee import Guarantee
from sfumato.projection.projection import Projection
from sfumato.randomness.secret import Secret, Words
from sfumato.tables.schema import Schema

Method = Literal["closed", "draws", "learned", "one run"]
Sample = Callable[[int, int, Secret], Floats]

_VERTICES = 4  # of a graph sketch under audit
_PAIRED = 512  # vertices where every pair is an audit of its own
_MOST_ROWS = 1 << 20  # of one graph sketch
_CELLS = 1 << 22  # numbers drawn at a time


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """A mechanism at a level, and how to sample scores of it.

    sample : (side, count, secret) gives at least one score for runs on that side of the worst pair, or rows of
             features, of which a score will be learnt. Side 0 is more likely where scores are high.
    batch  : how many to ask for at once.
    """

    guarantee: Guarantee
    method: Method
    sample: Sample
    batch: int


def trial(
    mechanism: Recipe, *, schema: Schema | None, guarantee: Guarantee, method: Method | None = None, level: float = 0.0
) -> Trial:
    """How an audit samples a recipe: its trial at the level that its guarantee asks for, or at another one."""
    prepared = mechanism.prepare(schema, guarantee)
    level = level or calibrate(prepared, guarantee).level
    if not isinstance(prepared, PreparedSketch) or not prepared.fresh:
        return of_prepared(prepared, level, method)
    if prepared.recipe.family == "gaussian" and method != "closed":
        return fresh_rows(guarantee, settled(prepared.recipe.noise), prepared.dimension, level)
    return _fresh(mechanism, prepared, level)


def of_prepared(prepared: Prepared, level: float, method: Method | None = None) -> Trial:
    """How an audit samples a prepared mechanism: its trial at a level."""
    if method == "learned":
        return _learned(prepared, level, searched_pair(prepared, level))
    if method == "draws":
        return of_draws(prepared.guarantee, recorded_pair(prepared, level, searched_pair(prepared, level)))
    return _closed(prepared, level)


@functools.singledispatch
def _closed(prepared: Any, level: float) -> Trial:
    """The trial of a mechanism where nothing better is registered: its recorded draws, again and again."""
    return of_prepared(prepared, level, "draws")


# ---- through the run ------------------------------------------------------------------------------------------------


@_closed.register
def _(prepared: PreparedSketch, level: float) -> Trial:
    return sketch_trial(prepared, level, sketch_pair(prepared))


def sketch_trial(prepared: PreparedSketch, level: float, pair: Pair) -> Trial:
    """The trial of a sketch: many records at either end of a pair, through the sketch's own run."""
    images = [prepared.projection.matrix().T @ _clipped(prepared, row) for row in pair]
    scale = prepared.scale(level) * prepared.unit

    def sample(side: int, count: int, secret: Secret) -> Floats:
        blocks = prepared.run(Copies(pair[side], count), level, secret).blocks
        return np.concatenate([log_ratio(settled(prepared.recipe.noise), np.asarray(z), images, scale) for z in blocks])

    return Trial(prepared.guarantee, "closed", sample, _CELLS // prepared.dimension)


def _clipped(prepared: PreparedSketch, row: Floats) -> Floats:
    return np.asarray(prepared.schema.clip(row) * prepared.schema.encoding.weights[:, None])


def log_ratio(law: str, outputs: NDArray[Any], ends: list[Floats], scale: float) -> Floats:
    """A trial's scores: log-likelihood ratios of columns of numbers about two centres.

    They are rounded, so that equal ones are equal.
    """
    power = 2 if law == "gaussian" else 1
    gaps = [np.abs((outputs - end) / scale) ** power for end in ends]
    return np.asarray(np.round((gaps[1] - gaps[0]).sum(axis=0) / power, 9))


def _fresh(mechanism: Recipe, prepared: PreparedSketch, level: float) -> Trial:
    """The trial of a sketch by fresh projections, one for each sample and seen with it.

    Slow, since each is prepared as for a release.
    """
    encoding, radius = prepared.schema.encoding, prepared.guarantee.allowed_change.radius or 0.0
    middle, half = (encoding.low + encoding.high) / 2, np.zeros(encoding.dim)
    half[0] = min(radius, encoding.ranges[0]) / encoding.weights[0] / 2
    pair = (middle + half)[:, None], (middle - half)[:, None]

    def one(side: int, secret: Secret) -> Floats:
        drawn = mechanism.prepare(prepared.schema, prepared.guarantee)
        assert isinstance(drawn, PreparedSketch)
        return sketch_trial(drawn, level, pair).sample(side, 1, secret)

    def sample(side: int, count: int, secret: Secret) -> Floats:
        return np.concatenate([one(side, key) for key in _keys(secret, count)])

    return Trial(prepared.guarantee, "closed", sample, 64)


def fresh_rows(guarantee: Guarantee, law: str, dimension: int, level: float) -> Trial:
    """The trial of a sketch by fresh gaussian projections, quickly: rows of a tall one are as many independent ones.

    A change of length R in one column moves the image by R times a row of P; noise of level times R is drawn about it.
    """
    steps = 2.0**22

    def sample(side: int, count: int, secret: Secret) -> Floats:
        seed = int(secret.words("audit projection").draw(1)[0]) & ((1 << 62) - 1)
        tall = Projection(family="gaussian", dim_in=count, dim_out=dimension, seed=seed).draw()
        words = secret.words("audit noise")
        moved = np.rint(np.asarray(tall.values).T * (tall.factor * steps))
        drawn = _noise(words, law, moved.size, level * steps).reshape(moved.shape)
        return log_ratio(law, drawn + (moved if side == 0 else 0.0), [moved, np.zeros((1, 1))], level * steps)

    return Trial(guarantee, "draws", sample, _CELLS // (4 * dimension))


def _noise(words: Words, law: str, size: int, scale: float) -> Integers:
    draws = {"laplace": words.laplace, "discrete laplace": words.discrete_laplace, "gaussian": words.gaussian}
    return draws[law](size, scale)


def _keys(secret: Secret, count: int) -> list[Secret]:
    """A key for each of a trial's many runs; testing keys, since nothing of them is ever published."""
    words = secret.words("audit keys").draw(4 * count)
    return [secret.unprotected(words[4 * i : 4 * i + 4].tobytes()) for i in range(count)]


@_closed.register
def _(prepared: PreparedResponses, level: float) -> Trial:
    """The trial of randomized response: all values that one unit may change, from one answer to another."""
    sizes = [answer.categories for answer in prepared.answers]
    changing = list(prepared.changed)
    codes = np.zeros((2, len(sizes)), int)
    for i, size in enumerate(sizes):
        if size in changing:
            changing.remove(size)
            codes[1, i] = 1
    ends = [encoded(prepared.schema, row[:, None], prepared.levels) for row in codes]

    def sample(side: int, count: int, secret: Secret) -> Floats:
        blocks = prepared.run(Copies(ends[side], count), level, secret).blocks
        return np.concatenate([_agreement(np.asarray(z), *codes) for z in blocks])

    return Trial(prepared.guarantee, "closed", sample, _CELLS // len(sizes))


def _agreement(answers: Any, one: Any, two: Any) -> Floats:
    """A trial's score of randomized answers: how many are the first truth less how many are the second.

    It is the log-likelihood ratio, but for a factor.
    """
    return np.asarray(((answers == one[:, None]).astype(float) - (answers == two[:, None])).sum(axis=0))


@_closed.register
def _(prepared: PreparedGraphSketch, level: float) -> Trial:
    """The trial of a graph sketch: with and without an edge whose ends have no other.

    Rows are independent, so a sketch of many is many sketches.
    """
    each, edges = prepared.recipe.height, (np.array([[0.0, 1.0, 1.0]]), np.empty((0, 3)))

    def sample(side: int, count: int, secret: Secret) -> Floats:
        recipe = GraphSketch(rows=each * count, vertices=_VERTICES)
        many = PreparedGraphSketch(recipe, prepared.guarantee)
        rows = np.concatenate(list(many.run(open_edges(edges[side]), level, secret).blocks), axis=1).astype(float)
        return np.asarray(((rows[:, 0] - rows[:, 1]) ** 2).reshape(count, each).sum(axis=1))

    return Trial(prepared.guarantee, "closed", sample, _MOST_ROWS // each)


@_closed.register
def _(prepared: PreparedCovarianceSketch, level: float) -> Trial:
    """The trial of a covariance sketch: the likelihood ratio's quadratic form, beside the noisy number of rows."""
    pair, each = searched_pair(prepared, level), prepared.draws
    covariances = [row_covariance(prepared, level, Copies(table)) for table in pair]
    form = (np.linalg.inv(covariances[1]) - np.linalg.inv(covariances[0])) / 2
    counts = [table.shape[1] for table in pair]

    def sample(side: int, count: int, secret: Secret) -> Floats:
        many = replace(prepared, draws=each * count)
        out = next(many.run(Copies(pair[side]), level, secret).blocks)[0].astype(float)
        rows = out[: each * count * len(form)].reshape(-1, len(form))
        scores = np.einsum("ij,jk,ik->i", rows, form, rows).reshape(count, each).sum(axis=1)
        if prepared.counted:
            drawn = counts[side] + secret.words("audit").laplace(count, prepared._count_scale)[None]
            scores += log_ratio("laplace", drawn, [np.full((1, 1), float(c)) for c in counts], prepared._count_scale)
        return np.asarray(scores)

    return Trial(prepared.guarantee, "closed", sample, max(1, _CELLS // (each * len(form))))


@_closed.register(PreparedEdgeNoise)
@_closed.register(PreparedEdgeResponse)
def _(prepared: Any, level: float) -> Trial:
    """The trial of noisy or answered pairs: a complete graph against one without edges.

    Each pair of vertices is an audit of its own.
    """
    vertices = np.array(np.triu_indices(_PAIRED, 1)).T.astype(float)
    graphs = vertices, vertices[:0]
    several = replace(prepared, recipe=replace(prepared.recipe, vertices=_PAIRED))
    law = prepared.recipe.noise if isinstance(prepared, PreparedEdgeNoise) else "response"

    def sample(side: int, count: int, secret: Secret) -> Floats:
        blocks = several.run(open_edges(graphs[side]), level, secret).blocks
        out = np.concatenate(list(blocks), axis=1)[:, :count].astype(float)
        return out[0] if law == "response" else log_ratio(law, out, [np.ones((1, 1)), np.zeros((1, 1))], level)

    return Trial(prepared.guarantee, "closed", sample, len(vertices))


# ---- draw by draw ---------------------------------------------------------------------------------------------------


def of_draws(guarantee: Guarantee, pairs: list[tuple[Draw, Draw]]) -> Trial:
    """The trial of recorded draws: draw what differs again and again; scores add up over the draws."""
    differing = [(one, two, (one.fed != two.fed).ravel()) for one, two in pairs]
    differing = [part for part in differing if part[2].any()]
    cells = sum(one.fed.size if one.law == "choice" else int(some.sum()) for one, _, some in differing)
    slow = any(one.law == "choice" for one, _, _ in differing)

    def sample(side: int, count: int, secret: Secret) -> Floats:
        scores = np.zeros(count)
        for i, (one, two, some) in enumerate(differing):
            scores += _REDRAWN[one.law](secret.words("audit", i), one, two, some, side, count)
        return np.round(scores, 9)

    return Trial(guarantee, "draws", sample, 1000 if slow else max(1, _CELLS // max(1, cells)))


def _redrawn_noise(words: Words, one: Draw, two: Draw, some: Any, side: int, count: int) -> Floats:
    """Scores in a trial of recorded draws: noise of the draw's law and scale about the integers of one side."""
    centres = [np.asarray(draw.fed.ravel()[some], float)[:, None] for draw in (one, two)]
    size = count * len(centres[0])
    drawn = _noise(words, one.law, size, one.scale)
    return log_ratio(one.law, drawn.reshape(-1, count) + centres[side], centres, one.scale)


def _redrawn_answers(words: Words, one: Draw, two: Draw, some: Any, side: int, count: int) -> Floats:
    truths = [draw.fed.ravel()[some] for draw in (one, two)]
    asked = np.repeat(truths[side][:, None], count, axis=1)
    return one.scale * _agreement(words.respond(asked, one.options, one.scale), *truths)


def _redrawn_choice(words: Words, one: Draw, two: Draw, some: Any, side: int, count: int) -> Floats:
    del some
    scores = [draw.fed.tolist() for draw in (one, two)]
    drawn = [words.choose(scores[side], one.scale, bits=one.options) for _ in range(count)]
    chances = [one.scale * np.array(s, float) * 2.0**-one.options for s in scores]
    log_chances = [c - np.logaddexp.reduce(c) for c in chances]
    return np.asarray((log_chances[0] - log_chances[1])[drawn])


_REDRAWN: dict[str, Callable[[Words, Draw, Draw, Any, int, int], Floats]] = {
    "laplace": _redrawn_noise,
    "discrete laplace": _redrawn_noise,
    "gaussian": _redrawn_noise,
    "response": _redrawn_answers,
    "choice": _redrawn_choice,
}


# ---- learnt ---------------------------------------------------------------------------------------------------------


def _learned(prepared: Prepared, level: float, pair: Pair) -> Trial:
    """The trial by a learnt score: whole runs on two small tables.

    Features are of all published numbers and of the projection, if there is one.
    """

    def one(side: int, secret: Secret) -> Floats:
        published = prepared.run(Copies(pair[side]), level, secret)
        blocks = np.concatenate([np.asarray(b, float) for b in published.blocks], axis=1)
        matrix = np.empty(0) if not isinstance(published.matrix, np.ndarray) else published.matrix.ravel()
        return np.concatenate([_summary(blocks), matrix])

    def sample(side: int, count: int, secret: Secret) -> Floats:
        return classifier.features(np.array([one(side, key) for key in _keys(secret, count)]))

    return Trial(prepared.guarantee, "learned", sample, 32)


def _summary(blocks: Floats) -> Floats:
    """Features in a trial of whole runs: a few rows as they are; of many, drawn alike, means and second moments."""
    if blocks.shape[1] <= 4:
        return blocks.ravel()
    return np.concatenate([blocks.mean(axis=1), (blocks @ blocks.T / blocks.shape[1])[np.triu_indices(len(blocks))]])
