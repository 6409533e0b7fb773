"""Two published constants under audit, each as its paper has it and with nothing else in the way.

RON-Gauss (Chanyaswad, Liu and Mittal 2019, Lemma 4): one record is said to move the second moment of p columns by
2 sqrt(p) in the l1 norm; it moves it by sqrt(2) p for even p, along the outermost eigenvectors of [[J, J], [J, -J]].
So the largest loss of a run that claims epsilon is sqrt(p/2) epsilon. To let an audit see that stage alone, W = I, the
centre is 0, and all of epsilon is spent on the second moment: what another stage adds would only hide it.

Dhaliwal et al. (Theorem 5): a gaussian projection to k numbers with Laplace noise of scale k t / epsilon, t =
sqrt(2 ln(2k) / k) for changes of length 1, is said to be epsilon-private with a probability that is 0 at this t. As an
(epsilon, 1e-6) claim for whoever knows P it is false.
"""

import math
from dataclasses import replace

import numpy as np

from sfumato.audit.block_rows import Copies
from sfumato.audit.recorder import Draw
from sfumato.audit.trials import Trial, fresh_rows, of_draws
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.mechanisms.synthetic.stages import Constants
from sfumato.numerics.types import Floats
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.projection.unit_ball import Turned
from sfumato.tables.schema import Schema


def farthest_rows(columns: int) -> tuple[Floats, Floats]:
    """The unit rows x, y that move x x' - y y' farthest in the l1 norm of the whole matrix, for an even number."""
    ones = np.ones((columns // 2, columns // 2))
    vectors = np.linalg.eigh(np.block([[ones, ones], [ones, -ones]]))[1]
    return vectors[:, -1:], vectors[:, :1]


def second_moment_draws(columns: int, epsilon: float, constants: Constants) -> tuple[Draw, Draw]:
    """The draw of stage 2 on both rows, with W = I, about 0, and noise for the whole of epsilon."""
    published = constants == "published"
    recipe = Synthetic(dimension=columns, centring="private", constants=constants, as_published=published, seed=0)
    prepared = recipe.prepare(Schema.reals(columns, low=-1.0, high=1.0), Guarantee(epsilon=epsilon))
    frame = prepared.moment.frame
    moment, centre = replace(prepared.moment, turned=Turned.of(np.eye(columns), frame)), np.zeros(columns, np.int64)
    scale = moment.sensitivity / epsilon
    fed = [moment.moved(moment.exact(Copies(row), centre)[0]).ravel() for row in farthest_rows(columns)]
    one, two = (Draw(("second moment",), "laplace", scale, 0, integers, integers) for integers in fed)
    return one, two


def largest_loss(one: Draw, two: Draw) -> float:
    """The exact largest loss of Laplace noise about two centres: the l1 distance over b, attained beyond both."""
    return float(np.abs(one.fed - two.fed).sum() / one.scale)


def ron_gauss(columns: int = 4, epsilon: float = 4.0, constants: Constants = "published") -> Trial:
    """The second moment of RON-Gauss, with its published constant or with the proved one."""
    return of_draws(Guarantee(epsilon=epsilon), [second_moment_draws(columns, epsilon, constants)])


def row_wise_laplace(dimension: int = 2, epsilon: float = 4.0, delta: float = 1e-6) -> Trial:
    """Dhaliwal et al. 2020, Algorithm 1 with the constant of Theorem 5, as an (epsilon, delta) claim."""
    t = math.sqrt(2 * math.log(2 * dimension) / dimension)
    promise = Guarantee(epsilon=epsilon, delta=delta, change=Change.l2(1.0), projection="fresh")
    return fresh_rows(promise, "laplace", dimension, dimension * t / epsilon)
