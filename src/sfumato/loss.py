"""What a run costs: frozen descriptions of privacy loss, each with its own profile delta(epsilon) and its PLD.

``delta`` is never below the truth. For single mechanisms it is evaluated in ball arithmetic (``profile``); for
composed ones it comes from ``dp_accounting``'s privacy-loss distributions (PLDs), pessimistically discretised, with
an allowance for the rounding of its Fourier transforms.
"""

import functools
import importlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from sfumato import check, profile
from sfumato.errors import ParameterError
from sfumato.guarantee import Neighbours

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import PLDPmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

# All PLDs share this grid of losses, or they could not be composed.
_INTERVAL = 1e-4
# Composition is by FFT in doubles; this covers its rounding (tests compare with exact Gaussian composition).
_FFT_ALLOWANCE = 1e-12


class Loss(Protocol):
    """The privacy loss of one run."""

    def delta(self, epsilon: float) -> float:
        """An upper bound on the hockey-stick divergence at ``epsilon`` >= 0 over all pairs of neighbours."""
        ...

    def pld(self) -> "PrivacyLossDistribution":
        """A privacy-loss distribution that dominates the run, for composition."""
        ...


@dataclass(frozen=True, slots=True)
class Pure:
    """Any epsilon-differentially private mechanism with delta = 0; randomized response on one bit is the worst."""

    epsilon: float

    def __post_init__(self) -> None:
        check.positive(epsilon=self.epsilon)

    def delta(self, epsilon: float) -> float:
        """(e^epsilon0 - e^epsilon) / (1 + e^epsilon0), Kairouz, Oh and Viswanath 2015."""
        return profile.response(epsilon, response_epsilon=self.epsilon, categories=2)

    def pld(self) -> "PrivacyLossDistribution":
        """The two-point distribution of randomized response."""
        return _pure_pld(self.epsilon)


@dataclass(frozen=True, slots=True)
class Laplace:
    """Laplace noise of scale b on a vector that one unit moves by at most ``sensitivity`` in the l1 norm."""

    sensitivity: float
    laplace_scale: float

    def __post_init__(self) -> None:
        check.positive(sensitivity=self.sensitivity, laplace_scale=self.laplace_scale)

    def delta(self, epsilon: float) -> float:
        """Zero from epsilon = sensitivity/b on; the whole move in one coordinate is worst (``profile.laplace``)."""
        return profile.laplace(epsilon, sensitivity=self.sensitivity, laplace_scale=self.laplace_scale)

    def pld(self) -> "PrivacyLossDistribution":
        """From ``dp_accounting``."""
        return _laplace_pld(self.sensitivity, self.laplace_scale)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Gaussian noise of standard deviation ``scale`` on a vector that moves by at most ``sensitivity`` in length."""

    sensitivity: float
    scale: float

    def __post_init__(self) -> None:
        check.positive(sensitivity=self.sensitivity, scale=self.scale)

    def delta(self, epsilon: float) -> float:
        """The analytic Gaussian mechanism, exact."""
        return profile.gaussian(epsilon, sensitivity=self.sensitivity, scale=self.scale)

    def pld(self) -> "PrivacyLossDistribution":
        """From ``dp_accounting``."""
        return _gaussian_pld(self.sensitivity, self.scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshGaussian:
    """Gaussian noise on a row projected by a P drawn for this release alone, when rows move by ``radius`` in length.

    P is published, so the profile is the average over P of the Gaussian profile at ||vP||: exact, with no failure
    probability. Only the length of vP matters, and its law is known for two families: chi for ``gaussian``, beta for
    ``orthonormal``. ``rounding`` bounds the Frobenius norm of the difference between P and the matrix really used.
    """

    family: Literal["gaussian", "orthonormal"]
    dim_in: int
    dim_out: int
    radius: float
    scale: float
    rounding: float = 0.0

    def __post_init__(self) -> None:
        if self.family not in ("gaussian", "orthonormal"):
            raise ParameterError(
                "a fresh projection has a known law for families 'gaussian' and 'orthonormal' only, "
                f"got family={self.family!r}: use projection='fixed'"
            )
        check.whole(1, dim_in=self.dim_in, dim_out=self.dim_out)
        check.positive(radius=self.radius, scale=self.scale)
        check.not_negative(rounding=self.rounding)
        if self.family == "orthonormal" and self.dim_out > self.dim_in:
            raise ParameterError(
                f"dim_out must be at most dim_in={self.dim_in} for orthonormal, got dim_out={self.dim_out}"
            )

    def delta(self, epsilon: float) -> float:
        """E over ||vP|| of the Gaussian profile."""
        return _fresh_gaussian_delta(self, epsilon)

    def pld(self) -> "PrivacyLossDistribution":
        """Connect-the-dots over the profile, which is the same in both directions."""
        return _fresh_gaussian_pld(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshLaplace:
    """Laplace noise on a row projected by a fresh gaussian P, when rows move by ``radius`` in Euclidean length.

    The k coordinates of vP are independent N(0, radius^2/k), and so is the noise: the run is exactly the k-fold
    composition of one coordinate, whose profile is closed (``profile.folded_laplace``). Chernoff's bound on
    ||vP||_1 gives another, and the smaller is used.
    ``rounding`` (as in FreshGaussian) moves the output by at most sqrt(k) * radius * rounding in the l1 norm, which
    costs that over b in pure epsilon, on top.
    """

    dim_out: int
    radius: float
    laplace_scale: float
    rounding: float = 0.0

    def __post_init__(self) -> None:
        check.whole(1, dim_out=self.dim_out)
        check.positive(radius=self.radius, laplace_scale=self.laplace_scale)
        check.not_negative(rounding=self.rounding)

    @property
    def _extra(self) -> float:
        return math.sqrt(self.dim_out) * self.radius * self.rounding / self.laplace_scale * (1 + 1e-15)

    def delta(self, epsilon: float) -> float:
        """The smaller of the composed profile and Chernoff's bound."""
        composed = _composed_delta(self.pld(), epsilon)
        left = epsilon - self._extra
        if left <= 0:
            return composed
        threshold = left * self.laplace_scale * math.sqrt(self.dim_out) / self.radius * (1 - 1e-15)
        return min(composed, profile.folded_sum_tail(threshold, dim_out=self.dim_out))

    def pld(self) -> "PrivacyLossDistribution":
        """The k-fold composition of one coordinate, shifted by the cost of rounding."""
        return _fresh_laplace_pld(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChiSquare:
    """A Gaussian sketch: ``rows`` draws of N(0, S + vv') against N(0, S), where ``ratio`` bounds s = v' S^-1 v.

    add-remove : the larger of the two directions, both in closed form through the chi-square law.
    replace    : one vector leaves and another comes; the worst case is that they are orthogonal after whitening, which
                 is the composition of a removal and an addition.
    """

    rows: int
    ratio: float
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        check.whole(1, rows=self.rows)
        check.positive(ratio=self.ratio)
        check.one_of(("replace", "add-remove"), neighbours=self.neighbours)

    def delta(self, epsilon: float) -> float:
        """Exact for add-remove, pessimistic PLD for replace."""
        if self.neighbours == "replace":
            return _composed_delta(self.pld(), epsilon)
        return max(self._adding(epsilon), self._removing(epsilon))

    def pld(self) -> "PrivacyLossDistribution":
        """Connect-the-dots over the two directions, composed with each other for ``replace``."""
        return _chi_square_pld(self)

    def _adding(self, epsilon: float) -> float:
        return profile.chi_square_adding(epsilon, rows=self.rows, ratio=self.ratio)

    def _removing(self, epsilon: float) -> float:
        return profile.chi_square_removing(epsilon, rows=self.rows, ratio=self.ratio)


@dataclass(frozen=True, slots=True)
class Response:
    """Randomized response: the true value out of ``categories`` is e^epsilon times as likely as each other."""

    epsilon: float
    categories: int = 2

    def __post_init__(self) -> None:
        check.positive(epsilon=self.epsilon)
        check.whole(2, categories=self.categories)

    def delta(self, epsilon: float) -> float:
        """(e^epsilon0 - e^epsilon) / (e^epsilon0 + categories - 1), exact."""
        return profile.response(epsilon, response_epsilon=self.epsilon, categories=self.categories)

    def pld(self) -> "PrivacyLossDistribution":
        """Connect-the-dots over the profile, which is the same in both directions."""
        return _response_pld(self)


@dataclass(frozen=True, slots=True)
class Composed:
    """Several runs on the same data. Runs with fresh projections must each have drawn their own."""

    losses: tuple[Loss, ...]

    def __init__(self, losses: Iterable[Loss]) -> None:
        object.__setattr__(self, "losses", tuple(losses))
        if not self.losses:
            raise ParameterError("losses must hold at least one loss, got losses=()")

    def delta(self, epsilon: float) -> float:
        """From the composed PLD."""
        return _composed_delta(self.pld(), epsilon)

    def pld(self) -> "PrivacyLossDistribution":
        """The convolution of the parts; equal parts are raised to a power at once."""
        return _composed_pld(tuple(sorted(self.losses, key=repr)))


def _composed_delta(pld: "PrivacyLossDistribution", epsilon: float) -> float:
    return min(1.0, float(pld.get_delta_for_epsilon(epsilon)) + _FFT_ALLOWANCE)


def _library(module: str) -> Any:
    """Part of dp_accounting; it takes a second to import, and a single release never needs it."""
    return importlib.import_module(f"dp_accounting.pld.{module}")


_remember = functools.lru_cache(maxsize=256)


@_remember
def _fresh_gaussian_delta(loss: FreshGaussian, epsilon: float) -> float:
    moves = profile.Moves(loss.radius, loss.scale, loss.rounding)
    if loss.family == "gaussian":
        return profile.fresh_gaussian_chi(epsilon, moves, dim_out=loss.dim_out)
    return profile.fresh_gaussian_beta(epsilon, moves, dim_in=loss.dim_in, dim_out=loss.dim_out)


@_remember
def _pure_pld(epsilon: float) -> "PrivacyLossDistribution":
    parameters = _library("common").DifferentialPrivacyParameters(epsilon, 0.0)
    library = _library("privacy_loss_distribution")
    return library.from_privacy_parameters(parameters, value_discretization_interval=_INTERVAL)


@_remember
def _laplace_pld(sensitivity: float, laplace_scale: float) -> "PrivacyLossDistribution":
    library = _library("privacy_loss_distribution")
    return library.from_laplace_mechanism(
        laplace_scale, sensitivity=sensitivity, value_discretization_interval=_INTERVAL
    )


@_remember
def _gaussian_pld(sensitivity: float, scale: float) -> "PrivacyLossDistribution":
    library = _library("privacy_loss_distribution")
    return library.from_gaussian_mechanism(scale, sensitivity=sensitivity, value_discretization_interval=_INTERVAL)


@_remember
def _fresh_gaussian_pld(loss: FreshGaussian) -> "PrivacyLossDistribution":
    return _symmetric(_dots(loss.delta, loss.delta))


@_remember
def _fresh_laplace_pld(loss: FreshLaplace) -> "PrivacyLossDistribution":
    def coordinate(epsilon: float) -> float:
        return profile.folded_laplace(
            epsilon, dim_out=loss.dim_out, radius=loss.radius, laplace_scale=loss.laplace_scale
        )

    whole = _symmetric(_dots(coordinate, coordinate)).self_compose(loss.dim_out)
    if loss.rounding == 0:
        return whole
    return whole.compose(
        _symmetric(_library("pld_pmf").create_pmf({math.ceil(loss._extra / _INTERVAL): 1.0}, _INTERVAL, 0.0, True))
    )


@_remember
def _chi_square_pld(loss: ChiSquare) -> "PrivacyLossDistribution":
    adding, removing = _dots(loss._adding, loss._removing), _dots(loss._removing, loss._adding)
    if loss.neighbours == "replace":
        return _symmetric(adding.compose(removing))
    return _library("privacy_loss_distribution").PrivacyLossDistribution(removing, adding)


@_remember
def _response_pld(loss: Response) -> "PrivacyLossDistribution":
    return _symmetric(_dots(loss.delta, loss.delta, edge=loss.epsilon))


@_remember
def _composed_pld(losses: tuple[Loss, ...]) -> "PrivacyLossDistribution":
    counts = {loss: losses.count(loss) for loss in losses}
    parts = [loss.pld() if count == 1 else loss.pld().self_compose(count) for loss, count in counts.items()]
    return functools.reduce(lambda a, b: a.compose(b), parts)


def _symmetric(pmf: "PLDPmf") -> "PrivacyLossDistribution":
    return _library("privacy_loss_distribution").PrivacyLossDistribution(pmf)


def _dots(forward: Callable[[float], float], backward: Callable[[float], float], edge: float | None = None) -> "PLDPmf":
    """Connect-the-dots: the PLD whose profile joins the given one at chosen epsilons, and so lies above it everywhere.

    At negative epsilon the profile follows from the other direction, delta(-e) = 1 - e^-e + e^-e * delta'(e).
    """
    epsilons = _support(forward, backward) if edge is None else _around(edge)
    above = np.array([forward(e) for e in epsilons * _INTERVAL])
    reverse = np.array([backward(e) for e in epsilons[:0:-1] * _INTERVAL])
    negative = epsilons[:0:-1] * _INTERVAL
    below = -np.expm1(-negative) + np.exp(-negative) * reverse
    deltas = np.minimum.accumulate(np.clip(np.concatenate([below, above]), 0.0, 1.0))
    return _library("pld_pmf").create_pmf_pessimistic_connect_dots(
        _INTERVAL, np.concatenate([-epsilons[:0:-1], epsilons]), deltas
    )


def _support(forward: Callable[[float], float], backward: Callable[[float], float], points: int = 200) -> np.ndarray:
    """Multiples of the interval from 0 to where delta is negligible, dense near 0 where most of the mass lies."""
    end = _INTERVAL
    while end < 512 and max(forward(end), backward(end)) > 1e-16:
        end *= 1.5
    spread = 4.0
    grid = end * np.sinh(spread * np.linspace(0, 1, points)) / math.sinh(spread)
    return np.unique(np.ceil(grid / _INTERVAL).astype(np.int64))


def _around(edge: float) -> np.ndarray:
    """The dots that matter for a two-point loss: 0 and the two multiples of the interval around +-edge."""
    return np.unique([0, math.floor(edge / _INTERVAL), math.ceil(edge / _INTERVAL)])
