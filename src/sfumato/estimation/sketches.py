"""What an analyst recovers from a sketch: distances, inner products, norms, with their errors.

Setting: z_i = x_i P + noise, with independent noise on each of k entries. Everything here is post-processing of a
release: pure formulas on published numbers, free of privacy cost. The variances come in closed form from the moments of
the noise and of the projection (``SketchLaw``); planner, error bars and reports all call the same ones.

The projection's share of an error is an average over P. One release has one P, so all its pairs share that luck: bars
hold for each pair over the draw of P and noise, and ``simultaneous`` bars hold for all pairs at once, whatever they
share. Rows of two releases in one shared space are pairs like others, with a noise of its own on each (``law.second``).
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Self, TypeAlias

import numpy as np
import scipy
from numpy.typing import ArrayLike

from sfumato.intervals import cosines, inner_products, squared_lengths
from sfumato.intervals.estimate import Ends, Estimate, Quantity, in_step, plain
from sfumato.intervals.moments import SketchLaw
from sfumato.intervals.pair_law import Gram
from sfumato.intervals.squared_lengths import LengthLaw, Seen
from sfumato.numerics.types import Floats

Triple: TypeAlias = tuple[Floats, Floats, Floats]

_ANY = Quantity()  # of no unit and any size

# ---- lengths --------------------------------------------------------------------------------------------------------


def squared_distance(a: ArrayLike, b: ArrayLike, law: SketchLaw, quantity: Quantity = _ANY) -> Estimate:
    """Squared distances ||x - y||^2 between original rows, from sketched rows ``a`` and ``b``, pairwise in step.

    Guarantee: post-processing of a release; costs no privacy.
    Assumes:   a and b are different rows of one sketch release, or of two in one space (``law.second``).
    Error:     unbiased over noise and projection; the error covers both. Negative when the noise is larger.
    Reference: Kenthapadi et al. 2013, Algorithm 2 and Theorem 2; Laplace term corrected (``distance_variance``).
    """
    one, two = _rows(law, a=a, b=b)
    return squared_length(one - two, law, 2, quantity)


def squared_distance_to_public(
    z: ArrayLike, q_projected: ArrayLike, law: SketchLaw, quantity: Quantity = _ANY
) -> Estimate:
    """Squared distances between original rows, sketched as ``z``, and public rows q, given as qP without noise.

    Guarantee: post-processing of a release; costs no privacy.
    Error:     unbiased over noise and projection; the error covers both.
    """
    one, two = _rows(law, z=z, q_projected=q_projected)
    return squared_length(one - two, law, 1, quantity)


def squared_norm(a: ArrayLike, law: SketchLaw, quantity: Quantity = _ANY) -> Estimate:
    """Squared norms of original rows from a sketch: free post-processing, unbiased over noise and projection."""
    return squared_length(_rows(law, a=a)[0], law, 1, quantity)


def _rows(law: SketchLaw, **named: ArrayLike) -> list[Floats]:
    """The arrays of sketched rows in a question, which must agree in shape and with the geometry."""
    arrays = {name: np.asarray(rows, np.float64) for name, rows in named.items()}
    return in_step(arrays, law.geometry.dim_out, "released numbers", "sketch")


def squared_length(image: Floats, law: SketchLaw, copies: int, quantity: Quantity = _ANY) -> Estimate:
    """Squared length behind noisy images vP + e of a sketch, e holding ``copies`` draws of noise in each entry.

    The standard error is that at the estimate, cut to what the ``quantity`` can be.
    """
    law, copies = law.apart if copies == 2 else (law, copies)
    seen, length = Seen.of(image), LengthLaw(law, copies)
    value = seen.squares - length.bias
    error = np.sqrt(law.length_variance(np.maximum(quantity.cut(value), 0.0), copies))
    bounds = partial(squared_lengths.bounds, seen=seen, law=length)
    return Estimate(plain(value), plain(error), law.geometry.covers, bounds, quantity)


# ---- angles ---------------------------------------------------------------------------------------------------------


def inner_product(a: ArrayLike, b: ArrayLike, law: SketchLaw) -> Estimate:
    """Inner products <x, y> of original rows, pairwise in step, for different rows of one sketch.

    Guarantee: post-processing of a release; costs no privacy.
    Error:     unbiased over noise and projection; the error covers both, with the norms estimated from the same rows.
               95% intervals cover 94% to 96% (simulated, rows spread over many columns) from k = 4 on, near and far:
               their arms are stretched until simulated pairs are covered (``prepivoting``). Without a random projection
               that holds in any direction.
    """
    one, two = _rows(law, a=a, b=b)
    products = _Products.of(one, two, law)
    error = np.sqrt(products.covariances(law)[0])
    bounds = partial(inner_products.bounds, pair=Gram.of(one, two), law=law)
    return Estimate(plain(np.sum(one * two, axis=-1)), plain(error), law.geometry.covers, bounds)


def cosine(a: ArrayLike, b: ArrayLike, law: SketchLaw) -> Estimate:
    """Cosines of the angle between original rows, from a sketch, pairwise in step; free post-processing.

    Error: first order (delta method), so good only where the norms stand out of the noise; nan for the value and
    infinite where an estimated squared norm is not positive. The interval is right there too (``cosines``): exact far
    from the noise, wider and cautious near it, as it must be, and within [-1, 1].
    """
    one, two = _rows(law, a=a, b=b)
    products = _Products.of(one, two, law)
    known = (products.squared_x > 0) & (products.squared_y > 0)
    n, m = (np.where(known, squared, 1.0) for squared in (products.squared_x, products.squared_y))
    value, slope = np.sum(one * two, axis=-1) / np.sqrt(n * m), products.inner / np.sqrt(n * m) / 2
    gradient = (np.where(known, 1 / np.sqrt(n * m), np.inf), -slope / n, -slope / m)
    bounds = partial(cosines.bounds, pair=Gram.of(one, two), law=law)
    return replace(_ratio(value, gradient, products, law, -1.0), bounds=bounds)


def jaccard(a: ArrayLike, b: ArrayLike, law: SketchLaw) -> Estimate:
    """Jaccard similarity of original rows of zeros and ones, from a sketch.

    Jaccard similarity |x and y| / |x or y| of original rows of zeros and ones (1 less it is the Jaccard distance).

    <x, y> / (||x||^2 + ||y||^2 - <x, y>), which for such rows counts the flags set in both and in either; free
    post-processing.
    Error: first order (delta method), so good only where the rows stand out of the noise. The interval is cautious
    near the ends of [0, 1] and cut to it. Where the estimated union is not positive the value is nan, its error
    infinite, the interval [0, 1].
    """
    one, two = _rows(law, a=a, b=b)
    products = _Products.of(one, two, law)
    both, total = np.sum(one * two, axis=-1), products.squared_x + products.squared_y
    known = total > both
    either = np.where(known, total - both, 1.0)
    gradient = (np.where(known, total / either**2, np.inf), -both / either**2, -both / either**2)
    return _ratio(both / either, gradient, products, law, 0.0)


@dataclass(frozen=True, slots=True)
class _Products:
    """Estimates to plug in: squared norms cut at 0, the inner product cut to what Cauchy and Schwarz then allow."""

    inner: Floats
    squared_x: Floats
    squared_y: Floats

    @classmethod
    def of(cls, one: Floats, two: Floats, law: SketchLaw) -> Self:
        n, m = (
            np.maximum(np.sum(rows * rows, axis=-1) - own.bias, 0.0)
            for rows, own in zip((one, two), law.each, strict=True)
        )
        most = np.sqrt(n * m)
        return cls(np.clip(np.sum(one * two, axis=-1), -most, most), n, m)

    def covariances(self, law: SketchLaw) -> list[Floats]:
        """Covariances of a sketch's estimates of inner product and squared norms.

        Of the estimates X of <x,y>, N of ||x||^2, M of ||y||^2: Var X, N, M; Cov(X,N), Cov(X,M), Cov(N,M).
        """
        x, n, m = self.inner, self.squared_x, self.squared_y
        (p, q, _), (one, two) = law.geometry.coefficients, law.each
        return [
            law.inner_product_variance(n, m, x),
            one.norm_variance(n),
            two.norm_variance(m),
            x * ((2 * p - q) * n + 2 * one.noise.variance),
            x * ((2 * p - q) * m + 2 * two.noise.variance),
            2 * p * x**2 - q * n * m,
        ]


def _ratio(value: Floats, gradient: Triple, products: _Products, law: SketchLaw, least: float) -> Estimate:
    """A similarity estimated from a sketch, to first order.

    A function of <x,y>, ||x||^2, ||y||^2 with this gradient (infinite: unknown), in [least, 1], to first order.
    """
    xx, nn, mm, xn, xm, nm = products.covariances(law)
    known = np.isfinite(gradient[0])
    x, n, m = (np.where(known, slope, 0.0) for slope in gradient)
    variance = x * x * xx + n * n * nn + m * m * mm + 2 * (x * n * xn + x * m * xm + n * m * nm)
    error = np.where(known, np.sqrt(np.maximum(variance, 0.0)), np.inf)
    raised = error * (1 + 1 / law.geometry.dim_out)  # for plugging in what k columns estimate
    bounds = partial(_either_scale, value=np.where(known, value, 0.0), error=raised, least=least)
    return Estimate(plain(np.where(known, value, np.nan)), plain(error), law.geometry.covers, bounds)


def _either_scale(tail: float, value: Floats, error: Floats, least: float) -> Ends:
    """Interval of a similarity estimated from a sketch.

    The hull of the normal interval on the plain scale and on Fisher's, where [least, 1] becomes the whole line.

    The one is too short away from the ends of the range, the other next to them (simulated).
    """
    reach = -scipy.special.ndtri(tail) * error
    low, high = np.clip(value - reach, least, 1.0), np.clip(value + reach, least, 1.0)
    half = (1 - least) / 2
    central = np.clip((value - least) / half - 1, -1 + 1e-9, 1 - 1e-9)
    steep = np.minimum(reach / half / (1 - central**2), 1e3)
    fisher = [least + half * (1 + np.tanh(np.arctanh(central) + sign * steep)) for sign in (-1, 1)]
    return np.minimum(low, fisher[0]), np.maximum(high, fisher[1])
