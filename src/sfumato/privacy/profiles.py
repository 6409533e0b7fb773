"""Privacy profiles in ball arithmetic: for each law, a proved upper bound on delta as a function of epsilon.

delta(epsilon) is the hockey-stick divergence sup_S Pr[M(D) in S] - e^epsilon Pr[M(D') in S] of the worst pair of
neighbours. Every function returns a double that is never below the true value, and above it by at most about one part
in 2^40 (for mixtures: while delta is above 1e-19): the formula is evaluated with ``arb`` balls, the precision is raised
until the ball is that small, and its upper end is returned. Arguments are doubles and are taken as exact. Only
``gaussian_in_doubles`` is no bound; its name says so.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy
from flint import acb, arb, arb_poly

from sfumato.numerics.balls import precision, upper
from sfumato.numerics.types import Floats

_ACCURATE_BITS = 40
_PRECISIONS = (96, 192, 384, 768, 1536)


def _bound(value: Callable[[], arb]) -> float:
    """Delta of a profile: the upper end of a probability in ball arithmetic, sharp by enough precision."""
    ball = arb(1)
    for bits in _PRECISIONS:
        with precision(bits):
            ball = value()
            if ball.is_finite() and ball.rel_accuracy_bits() >= _ACCURATE_BITS:
                break
    if ball.is_zero():
        return 0.0
    return min(1.0, max(0.0, upper(ball)))


def _normal_tail(x: arb | acb) -> arb | acb:
    """Normal tail in ball arithmetic, from which profiles are made.

    Pr[g > x] for a standard normal g; also at complex x, for integration.
    """
    return (x / arb(2).sqrt()).erfc() / 2


def _gaussian(epsilon: arb, mu: arb | acb) -> arb | acb:
    """Profile of N(0, 1) against N(mu, 1); Balle and Wang 2018, Theorem 5."""
    ratio = epsilon / mu if epsilon != 0 else arb(0)
    return _normal_tail(ratio - mu / 2) - epsilon.exp() * _normal_tail(ratio + mu / 2)


def gaussian(epsilon: float, *, sensitivity: float, scale: float) -> float:
    """Profile of Gaussian noise.

    Gaussian noise of standard deviation ``scale`` on a vector that moves by ``sensitivity`` in length.
    """
    return _bound(lambda: _gaussian(arb(epsilon), arb(sensitivity) / arb(scale)))


def failing_gaussian(epsilon: float, *, sensitivity: float, scale: float, failure: float) -> float:
    """Profile of Gaussian noise beside an event of probability ``failure``, in which anything may be told.

    The proof that counts above a threshold have it is in ``threshold_loss``.
    """

    def value() -> arb:
        return arb(failure) + (1 - arb(failure)) * _gaussian(arb(epsilon), arb(sensitivity) / arb(scale))

    return _bound(value)


def normal_tail(x: float) -> float:
    """Pr[g > x] for a standard normal g, as a proved upper bound: the failure of thresholds, for their profile."""
    return _bound(lambda: _normal_tail(arb(x)))


def gaussian_in_doubles(epsilon: Floats | float, mu: Floats | float) -> Floats:
    """The profile of N(0, 1) against N(mu, 1) in plain doubles: quick, for many at once, and no bound."""
    above, below = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    return np.asarray(scipy.special.ndtr(above) - np.exp(epsilon + scipy.special.log_ndtr(below)))


def laplace(epsilon: float, *, sensitivity: float, laplace_scale: float) -> float:
    """Profile of Laplace noise.

    Laplace noise on a vector that moves by ``sensitivity`` in l1: 1 - exp((epsilon - u)/2), u = sensitivity/scale.

    This is the profile of one coordinate that makes the whole move, and that is the worst case. Proof: let F_u be it.
    Composing coordinates that move by u1 >= u2 and integrating F_u1(epsilon - loss) over the loss of the second gives,
    with u = u1 + u2 and 0 <= epsilon <= u, 1 - e^((epsilon - u)/2) * (1 + min(u2/2, (u - epsilon)/4)) <= F_u(epsilon);
    negative epsilon follows by symmetry and more coordinates by induction, since composition keeps domination.
    """

    def value() -> arb:
        excess = arb(sensitivity) / arb(laplace_scale) - arb(epsilon)
        return -(-excess / 2).expm1() if excess > 0 else excess.nonnegative_part()

    return 0.0 if sensitivity <= 0 or _at_most(sensitivity, laplace_scale, epsilon) else _bound(value)


def laplace_pair(epsilon: float, first: float, second: float) -> float:
    """Profile of two Laplace mechanisms in turn.

    Two Laplace mechanisms in turn, pure at ``first`` and ``second``: the composition in the proof of ``laplace``.
    """

    def value() -> arb:
        excess = arb(first) + arb(second) - arb(epsilon)
        gained = (arb(min(first, second)) / 2).min(excess / 4).log1p()
        return -(gained - excess / 2).expm1() if excess > 0 else excess.nonnegative_part()

    return _bound(value)


def discrete_laplace(epsilon: float, *, sensitivity: int, laplace_scale: float) -> float:
    """Profile of discrete Laplace noise.

    Noise k in proportion to q^|k|, q = e^(-1/scale), on integers that move by ``sensitivity`` = D in l1. Exact:
    1 - (q^(j+1) + e^epsilon q^(D-j)) / (1 + q), where j is the whole part of (D - epsilon scale)/2.

    This is the profile of one integer that makes the whole move. Its losses are (D - 2t)/scale with t = 0 .. D, the
    noise moved into that range. At such an epsilon, t = m, it is 1 - q^m, that of Laplace noise, and between two of
    them a line in e^epsilon. That is the worst case. Proof: let moves D1 >= D2 sum to D. The profile of both is also
    made of lines between the same epsilons, so these decide. Let t have the law of the second, p_0 = 1/(1 + q), p_t =
    (1 - q) q^t/(1 + q), p_D2 = q^D2/(1 + q). At m, 1 less the profile of both is the sum over t of p_t r(m - t), where
    r(i) is 1 for i < 0, q^i up to D1, and q^(2i - D1) beyond. If m <= D1, r(m - t) >= q^m, and so is the sum. If m = D1
    + a, 1 <= a <= D2, it is q^m times the sum of p_t q^(a - 2t) over t < a, which is q/(1 + q), and of p_t q^-t over t
    >= a, which is (1 + (D2 - a)(1 - q))/(1 + q): at least q^m again. More integers follow by induction.
    """
    gap = Fraction(sensitivity) - Fraction(epsilon) * Fraction(laplace_scale)
    if gap <= 0:
        return 0.0
    steps = math.floor(gap / 2)

    def value() -> arb:
        q = (-1 / arb(laplace_scale)).exp()
        last = (arb(epsilon) - (sensitivity - steps) / arb(laplace_scale)).exp()
        return 1 - (q ** (steps + 1) + last) / (1 + q)

    return _bound(value)


def _at_most(numerator: float, denominator: float, bound: float) -> bool:
    """Whether a profile is 0: numerator/denominator <= bound, decided exactly."""
    top, bottom = numerator.as_integer_ratio(), denominator.as_integer_ratio()
    edge = bound.as_integer_ratio()
    return top[0] * bottom[1] * edge[1] <= edge[0] * top[1] * bottom[0]


def response(epsilon: float, *, response_epsilon: float, categories: int) -> float:
    """Profile of randomized response.

    Randomized response: the truth is exp(response_epsilon) times as likely as any other of ``categories``.
    """

    def value() -> arb:
        top = arb(response_epsilon).exp()
        return (top - arb(epsilon).exp()) / (top + categories - 1)

    return 0.0 if response_epsilon <= epsilon else _bound(value)


def responses(epsilon: float, *, response_epsilon: float, folds: tuple[tuple[int, int], ...]) -> float:
    """Profile of randomized response in many columns that all change.

    Randomized response in many columns that all change; ``folds`` holds (categories, how many columns) pairs.

    The loss of one column is +-e0 where the answer is one of the two truths and 0 elsewhere, so the loss of all is a
    multiple k of e0 with p_k a coefficient of prod (e^e0 x^2 + (m - 2) x + 1)^n / (e^e0 + m - 1)^n, centred. As
    p_-k = e^(-k e0) p_k, delta is the sum over k e0 > epsilon of p_k - e^epsilon p_-k: exact, and symmetric.
    """
    columns = sum(count for _, count in folds)

    def value() -> arb:
        top, law = arb(response_epsilon).exp(), arb_poly([1])
        for categories, count in folds:
            total = top + categories - 1
            law *= arb_poly([1 / total, (categories - 2) / total, top / total]) ** count
        first = max(1, math.floor(epsilon / response_epsilon * (1 - 1e-12)))
        terms = (law[columns + k] - arb(epsilon).exp() * law[columns - k] for k in range(first, columns + 1))
        return sum((term.nonnegative_part() for term in terms), arb(0))

    return 0.0 if response_epsilon * columns * (1 + 2.0**-50) <= epsilon else _bound(value)


# How far into the tails the mixtures below are integrated, in standard deviations; what lies beyond is bounded and
# added. It is below 2e-31, so the bound is sharp for every delta above 1e-19.
_TAIL = 12


@dataclass(frozen=True, slots=True)
class Moves:
    """How far a fresh projection moves a row, over the noise: radius/scale times (||vP||/||v|| + rounding)."""

    radius: float
    scale: float
    rounding: float

    def mu(self, stretch: arb | acb) -> arb | acb:
        """The Gaussian shift in a profile at a stretch ||vP||/||v||."""
        return arb(self.radius) / arb(self.scale) * (stretch + arb(self.rounding))


def fresh_gaussian_chi(epsilon: float, moves: Moves, *, dim_out: int) -> float:
    """Profile of Gaussian noise after a fresh Gaussian projection.

    Gaussian noise after a fresh gaussian projection: the stretch is x/sqrt(k) with x ~ chi_k.

    chi_k lies above sqrt(k) + 12, or below sqrt(k - 1) - 12, with probability at most exp(-12^2/2) each: it is a
    1-Lipschitz function of k normal variables and its mean lies between sqrt(k - 1) and sqrt(k).
    """
    k = dim_out

    def value() -> arb:
        half, root = acb(k) / 2, arb(k).sqrt()
        constant = (1 - half) * acb(2).log() - half.lgamma()

        def weight(x: acb) -> acb:
            return x ** (k - 1) * (constant - x * x / 2).exp()

        tails = 2 * arb(-_TAIL * _TAIL / 2).exp()
        ends = ((arb(k - 1).sqrt() - _TAIL).nonnegative_part().lower(), root + _TAIL)
        return tails + _mixture(arb(epsilon), lambda x: moves.mu(x / root), weight, ends)

    return _bound(value)


def fresh_gaussian_beta(epsilon: float, moves: Moves, *, dim_in: int, dim_out: int) -> float:
    """Profile of Gaussian noise after a fresh orthonormal projection.

    Gaussian noise after a fresh orthonormal projection: the squared stretch is (d/k) Beta(k/2, (d-k)/2).

    With the beta variable written sin(t)^2 the density is 2 sin^(k-1) cos^(d-k-1) / B(k/2, (d-k)/2) on [0, pi/2].
    """
    d, k = dim_in, dim_out
    if k == d:
        return _bound(lambda: _gaussian(arb(epsilon), moves.mu(arb(1))))

    def value() -> arb:
        a, b, root = acb(k) / 2, acb(d - k) / 2, (arb(d) / k).sqrt()
        constant = 2 * ((a + b).lgamma() - a.lgamma() - b.lgamma()).exp()

        def weight(t: acb) -> acb:
            return constant * t.sin() ** (k - 1) * t.cos() ** (d - k - 1)

        return _mixture(arb(epsilon), lambda t: moves.mu(root * t.sin()), weight, (arb(0), arb.pi() / 2))

    return _bound(value)


def _mixture(epsilon: arb, mu: Callable[[acb], acb], weight: Callable[[acb], acb], ends: tuple[arb, arb]) -> arb:
    """Profile of a mixture of Gaussian shifts.

    The integral of weight(x) times the Gaussian profile at mu(x), where mu and so the profile grow with x.

    Where epsilon/mu - mu/2 >= 12 the profile is at most Pr[g > 12], below 2e-33: its value at that mu is added once and
    the integral starts there, away from the essential singularity of the profile at mu = 0.
    """
    start, end = ends
    skipped = arb(0)
    least = 2 * epsilon / ((_TAIL * _TAIL + 2 * epsilon).sqrt() + _TAIL)
    if epsilon > 0 and mu(start) < least:
        start, skipped = _last_below(mu, least, start, end.lower()), _gaussian(epsilon, least)

    def integrand(x: acb, _analytic: bool) -> acb:
        return weight(x) * _gaussian(epsilon, mu(x))

    relative, absolute = arb(2) ** -(_ACCURATE_BITS + 4), arb(10) ** -36
    return skipped + acb.integral(integrand, acb(start), acb(end), rel_tol=relative, abs_tol=absolute).real


def _last_below(mu: Callable[[arb], arb], level: arb, low: arb, high: arb) -> arb:
    """Where the mixture in a profile may start.

    A point at which mu is certainly below a level, close to the last such point; found by halving.
    """
    for _ in range(1000):
        middle = ((low + high) / 2).mid()
        low, high = (middle, high) if mu(middle) < level else (low, middle)
        if (high - low) * 64 < low:
            break
    return low


def folded_laplace(epsilon: float, *, dim_out: int, radius: float, laplace_scale: float) -> float:
    """Profile of one coordinate of Laplace noise after a fresh gaussian projection.

    The average of the Laplace profile at u = c|g|, with c = radius/(sqrt(k) b): integrating 1 - exp((epsilon - c g)/2)
    over g > epsilon/c gives 2 Q(epsilon/c) - 2 exp(epsilon/2 + c^2/8) Q(epsilon/c + c/2).
    """

    def value() -> arb:
        c = arb(radius) / arb(dim_out).sqrt() / arb(laplace_scale)
        at = arb(epsilon) / c
        return 2 * _normal_tail(at) - 2 * (arb(epsilon) / 2 + c * c / 8).exp() * _normal_tail(at + c / 2)

    return _bound(value)


def folded_sum_tail(threshold: float, *, dim_out: int) -> float:
    """Tail bound for the profile of Laplace noise after a fresh Gaussian projection.

    Chernoff's bound on Pr[|g_1| + ... + |g_k| > threshold]: min over x of e^(-x t) (2 e^(x^2/2) Phi(x))^k.
    """
    k = dim_out

    def log_bound(x: float) -> float:
        return -x * threshold + k * (math.log(2) + x * x / 2 + math.log(math.erfc(-x / math.sqrt(2)) / 2))

    low, high = 0.0, threshold / k + 10.0
    for _ in range(200):  # golden-section search of a convex function; any x gives a valid bound
        third = (high - low) / 3
        if log_bound(low + third) < log_bound(high - third):
            high -= third
        else:
            low += third
    best = (low + high) / 2
    return _bound(
        lambda: (-arb(best) * arb(threshold)).exp() * (2 * (arb(best) ** 2 / 2).exp() * _normal_tail(-arb(best))) ** k
    )


def chi_square_adding(epsilon: float, *, rows: int, ratio: float) -> float:
    """Profile of a Gaussian sketch when a record is added.

    ``rows`` draws of N(0, 1 + s) against N(0, 1), s = ratio: the likelihood ratio grows with the sum of squares.
    """

    def value() -> arb:
        s, e, r = arb(ratio), arb(epsilon), arb(rows) / 2
        t = 2 * (1 + s) / s * (e + r * s.log1p())
        return _gamma_tail(r, t / (1 + s) / 2) - e.exp() * _gamma_tail(r, t / 2)

    return _bound(value)


def chi_square_removing(epsilon: float, *, rows: int, ratio: float) -> float:
    """Profile of a Gaussian sketch when a record is removed.

    ``rows`` draws of N(0, 1) against N(0, 1 + s): the likelihood ratio falls with their sum of squares.
    """

    def value() -> arb:
        s, e, r = arb(ratio), arb(epsilon), arb(rows) / 2
        t = 2 * (1 + s) / s * (r * s.log1p() - e)
        if t <= 0:
            return arb(0)
        return 1 - _gamma_tail(r, t / 2) - e.exp() * (1 - _gamma_tail(r, t / (1 + s) / 2))

    return _bound(value)


def _gamma_tail(shape: arb, x: arb) -> arb:
    """Gamma tail in ball arithmetic, for profiles: Pr[a gamma variable of this shape > x]."""
    return x.gamma_upper(shape, regularized=1)
