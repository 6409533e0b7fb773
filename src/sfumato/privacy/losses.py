"""What a run costs: frozen descriptions of privacy loss, each with its own profile delta(epsilon) and its PLD.

``delta`` is never below the truth. For single mechanisms it is evaluated in ball arithmetic (``profiles``); for
composed ones it comes from privacy-loss distributions (``pld``), pessimistically discretised, with an allowance for
the rounding of Fourier transforms that grows with the number of folds.
"""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol

from sfumato import check
from sfumato.errors import ParameterError
from sfumato.privacy import pld, profiles
from sfumato.privacy.guarantee import Neighbours

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

# A part whose delta is above this even there is not private at all, and neither is a composition with it.
_HOPELESS = 1 - 1e-6


class Loss(Protocol):
    """The privacy loss of one run: a frozen value."""

    def __hash__(self) -> int: ...

    def delta(self, epsilon: float) -> float:
        """Delta of the loss: an upper bound on the hockey-stick divergence at ``epsilon`` >= 0 over all neighbours."""
        ...

    def pld(self) -> "PrivacyLossDistribution":
        """The loss as a privacy-loss distribution that dominates the run, for composition."""
        ...


@dataclass(frozen=True, slots=True)
class Pure:
    """Any epsilon-differentially private mechanism with delta = 0; randomized response on one bit is the worst."""

    epsilon: float

    def __post_init__(self) -> None:
        check.positive(epsilon=self.epsilon)
        _settle(self, "epsilon")

    def delta(self, epsilon: float) -> float:
        """Delta of a pure loss: (e^epsilon0 - e^epsilon) / (1 + e^epsilon0), Kairouz, Oh and Viswanath 2015."""
        return profiles.response(_valid(epsilon), response_epsilon=self.epsilon, categories=2)

    def pld(self) -> "PrivacyLossDistribution":
        """A pure loss as the two-point distribution of randomized response."""
        return _response_pld(Response(self.epsilon))


@dataclass(frozen=True, slots=True)
class Laplace:
    """Laplace noise of scale b on a vector that one unit moves by at most ``sensitivity`` in the l1 norm."""

    sensitivity: float
    laplace_scale: float

    def __post_init__(self) -> None:
        check.positive(sensitivity=self.sensitivity, laplace_scale=self.laplace_scale)
        _settle(self, "sensitivity", "laplace_scale")

    def delta(self, epsilon: float) -> float:
        """Delta of the loss under Laplace noise.

        Zero from epsilon = sensitivity/b on; the whole move in one coordinate is worst (``profiles.laplace``).
        """
        return profiles.laplace(_valid(epsilon), sensitivity=self.sensitivity, laplace_scale=self.laplace_scale)

    def pld(self) -> "PrivacyLossDistribution":
        """The loss under Laplace noise as a distribution, from ``dp_accounting``."""
        return _laplace_pld(self)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Gaussian noise of standard deviation ``scale`` on a vector that moves by at most ``sensitivity`` in length."""

    sensitivity: float
    scale: float

    def __post_init__(self) -> None:
        check.positive(sensitivity=self.sensitivity, scale=self.scale)
        _settle(self, "sensitivity", "scale")

    def delta(self, epsilon: float) -> float:
        """Delta of the loss under Gaussian noise: the analytic Gaussian mechanism, exact."""
        return profiles.gaussian(_valid(epsilon), sensitivity=self.sensitivity, scale=self.scale)

    def pld(self) -> "PrivacyLossDistribution":
        """The loss under Gaussian noise as a distribution, from ``dp_accounting``."""
        return _gaussian_pld(self)


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
        _settle(self, "dim_in", "dim_out", "radius", "scale", "rounding")

    def delta(self, epsilon: float) -> float:
        """Delta of the loss: E over ||vP|| of the Gaussian profile."""
        return _fresh_gaussian_delta(self, _valid(epsilon))

    def pld(self) -> "PrivacyLossDistribution":
        """The loss as a distribution: connect-the-dots over the profile, which is equal in both directions."""
        return _fresh_gaussian_pld(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshLaplace:
    """Laplace noise on a row projected by a fresh gaussian P, when rows move by ``radius`` in Euclidean length.

    The k coordinates of vP are independent N(0, radius^2/k), and so is the noise: the run is exactly the k-fold
    composition of one coordinate, whose profile is closed (``profiles.folded_laplace``). Chernoff's bound on
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
        _settle(self, "dim_out", "radius", "laplace_scale", "rounding")

    def _coordinate(self, epsilon: float) -> float:
        return profiles.folded_laplace(
            epsilon, dim_out=self.dim_out, radius=self.radius, laplace_scale=self.laplace_scale
        )

    @property
    def _extra(self) -> float:
        return math.sqrt(self.dim_out) * self.radius * self.rounding / self.laplace_scale * (1 + 1e-15)

    def delta(self, epsilon: float) -> float:
        """Delta of the loss: the smaller of the composed profile and Chernoff's bound."""
        left = _valid(epsilon) - self._extra
        if left < 0 or self._coordinate(pld.LARGEST_LOSS) > _HOPELESS:
            return 1.0
        composed = pld.composed_delta(_folded_laplace_pld(replace(self, rounding=0.0)), left, self.dim_out)
        if left == 0:
            return composed
        threshold = left * self.laplace_scale * math.sqrt(self.dim_out) / self.radius * (1 - 1e-15)
        return min(composed, profiles.folded_sum_tail(threshold, dim_out=self.dim_out))

    def pld(self) -> "PrivacyLossDistribution":
        """The loss as a distribution: k-fold composition of one coordinate, shifted by the cost of rounding."""
        return _fresh_laplace_pld(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChiSquare:
    """A Gaussian sketch: ``rows`` draws of N(0, S + vv') against N(0, S), where ``ratio`` bounds s = v' S^-1 v.

    add-remove : the larger of the two directions, both in closed form through the chi-square law.
    replace    : one vector leaves and another comes. The generalised eigenvalues of (S + uu', S + vv') lie in
                 [1/(1+s), 1+s] and at most two differ from 1, so the pair is dominated, coordinate by coordinate, by
                 an addition composed with a removal, which orthogonal vectors attain.
    """

    rows: int
    ratio: float
    neighbours: Neighbours = "add-remove"

    def __post_init__(self) -> None:
        check.whole(1, rows=self.rows)
        check.positive(ratio=self.ratio)
        check.one_of(("replace", "add-remove"), neighbours=self.neighbours)
        _settle(self, "rows", "ratio")

    def delta(self, epsilon: float) -> float:
        """Delta of the loss: exact for add-remove, pessimistic PLD for replace."""
        if self.neighbours == "replace":
            return pld.composed_delta(self.pld(), _valid(epsilon), 2)
        return max(self._adding(_valid(epsilon)), self._removing(_valid(epsilon)))

    def pld(self) -> "PrivacyLossDistribution":
        """The loss as a distribution.

        Connect-the-dots over the two directions, composed with each other for ``replace``.
        """
        return _chi_square_pld(self)

    def _adding(self, epsilon: float) -> float:
        return profiles.chi_square_adding(epsilon, rows=self.rows, ratio=self.ratio)

    def _removing(self, epsilon: float) -> float:
        return profiles.chi_square_removing(epsilon, rows=self.rows, ratio=self.ratio)


@dataclass(frozen=True, slots=True)
class Response:
    """Randomized response: the true value out of ``categories`` is e^epsilon times as likely as each other."""

    epsilon: float
    categories: int = 2

    def __post_init__(self) -> None:
        check.positive(epsilon=self.epsilon)
        check.whole(2, categories=self.categories)
        _settle(self, "epsilon", "categories")

    def delta(self, epsilon: float) -> float:
        """Delta of the loss: (e^epsilon0 - e^epsilon) / (e^epsilon0 + categories - 1), exact."""
        return profiles.response(_valid(epsilon), response_epsilon=self.epsilon, categories=self.categories)

    def pld(self) -> "PrivacyLossDistribution":
        """The loss as a distribution: connect-the-dots over the profile, which is equal in both directions."""
        return _response_pld(self)


@dataclass(frozen=True, slots=True)
class Composed:
    """Several runs on the same data. Runs with fresh projections must each have drawn their own."""

    losses: tuple[Loss, ...]
    counts: tuple[tuple[Loss, int], ...] = field(init=False, repr=False, compare=False)

    def __init__(self, losses: Iterable[Loss]) -> None:
        object.__setattr__(self, "losses", tuple(losses))
        if not self.losses:
            raise ParameterError("losses must hold at least one loss, got losses=()")
        object.__setattr__(self, "counts", _counted(self.losses))

    def __hash__(self) -> int:
        return hash(frozenset(self.counts))

    def delta(self, epsilon: float) -> float:
        """Delta of composed losses: 0 where pure epsilons add up to no more, closed for two Laplace, else by PLD."""
        if pure_epsilon(self) <= _valid(epsilon):
            return 0.0
        if len(self.losses) == 2 and all(type(part) is Laplace for part in self.losses):
            return profiles.laplace_pair(float(epsilon), *map(pure_epsilon, self.losses))
        if any(part.delta(pld.LARGEST_LOSS) > _HOPELESS for part, _ in self.counts):
            return 1.0
        return pld.composed_delta(self.pld(), epsilon, _folds(self))

    def pld(self) -> "PrivacyLossDistribution":
        """Composed losses as a distribution: the convolution of the parts, equal ones raised to a power at once."""
        return _composed_pld(frozenset(self.counts))


@dataclass(frozen=True, slots=True, init=False)
class Responses(Composed):
    """Randomized response of one epsilon in many columns that may all change at once, with its exact profile."""

    losses: tuple[Response, ...]

    def __init__(self, epsilon: float, categories: Iterable[int]) -> None:
        Composed.__init__(self, [Response(epsilon, count) for count in categories])

    def delta(self, epsilon: float) -> float:
        """Delta of the loss: a sum over a lattice of losses (``profiles.responses``), exact."""
        folds = Counter(loss.categories for loss in self.losses)
        each = self.losses[0].epsilon
        return profiles.responses(_valid(epsilon), response_epsilon=each, folds=tuple(sorted(folds.items())))


def _counted(losses: Sequence[Loss]) -> tuple[tuple[Loss, int], ...]:
    """How many there are of each loss, in order; one that is there many times as one object is compared once."""
    found, objects = Counter[Loss](), {id(loss): loss for loss in losses}
    for name, count in Counter(map(id, losses)).items():
        found[objects[name]] += count
    return tuple(found.items())


def _folds(loss: Loss) -> int:
    """How many convolutions stand behind a loss's PLD."""
    if isinstance(loss, Composed):
        return sum(_folds(part) * count for part, count in loss.counts)
    if isinstance(loss, FreshLaplace):
        return loss.dim_out
    return 2 if isinstance(loss, ChiSquare) else 1


def pure_epsilon(loss: Loss) -> float:
    """The epsilon at which the delta of a loss is 0, rounded up; infinite where there is none."""
    if isinstance(loss, Composed):
        each = (itertools.repeat(pure_epsilon(part), count) for part, count in loss.counts)
        return math.fsum(itertools.chain.from_iterable(each)) * (1 + 2.0**-50)
    if isinstance(loss, Laplace):
        return math.nextafter(loss.sensitivity / loss.laplace_scale, math.inf)
    return loss.epsilon if isinstance(loss, (Pure, Response)) else math.inf


def _settle(loss: object, *names: str) -> None:
    """Turn parameters of a loss into plain numbers, and refuse those that a double cannot hold."""
    for name in names:
        value = getattr(loss, name)
        plain = float(value)
        if plain != value:
            raise check.fail(name, value, "a number that a double can hold")
        object.__setattr__(loss, name, int(value) if hasattr(value, "__index__") and name in _WHOLE else plain)


_WHOLE = ("dim_in", "dim_out", "rows", "categories")


def _valid(epsilon: float) -> float:
    check.not_negative(epsilon=epsilon)
    return float(epsilon)


_remember = functools.lru_cache(maxsize=32)


@_remember
def _fresh_gaussian_delta(loss: FreshGaussian, epsilon: float) -> float:
    moves = profiles.Moves(loss.radius, loss.scale, loss.rounding)
    if loss.family == "gaussian":
        return profiles.fresh_gaussian_chi(epsilon, moves, dim_out=loss.dim_out)
    return profiles.fresh_gaussian_beta(epsilon, moves, dim_in=loss.dim_in, dim_out=loss.dim_out)


@_remember
def _laplace_pld(loss: Laplace) -> "PrivacyLossDistribution":
    return pld.of_noise("laplace", loss.sensitivity, loss.laplace_scale, loss.delta)


@_remember
def _gaussian_pld(loss: Gaussian) -> "PrivacyLossDistribution":
    return pld.of_noise("gaussian", loss.sensitivity, loss.scale, loss.delta)


@_remember
def _fresh_gaussian_pld(loss: FreshGaussian) -> "PrivacyLossDistribution":
    return pld.of_profile(loss.delta)


@_remember
def _folded_laplace_pld(loss: FreshLaplace) -> "PrivacyLossDistribution":
    """PLD of a ``FreshLaplace`` loss: the k-fold composition of one coordinate, for an exact projection."""
    return pld.of_profile(loss._coordinate).self_compose(loss.dim_out)


def _fresh_laplace_pld(loss: FreshLaplace) -> "PrivacyLossDistribution":
    """PLD of a ``FreshLaplace`` loss, shifted up by the cost of rounding the projection."""
    whole = _folded_laplace_pld(replace(loss, rounding=0.0))
    return whole if loss.rounding == 0 else pld.shifted(whole, loss._extra)


@_remember
def _chi_square_pld(loss: ChiSquare) -> "PrivacyLossDistribution":
    adding, removing = pld.dots(loss._adding, loss._removing), pld.dots(loss._removing, loss._adding)
    if loss.neighbours == "replace":
        return pld.symmetric(adding.to_dense_pmf().compose(removing.to_dense_pmf()))  # sparse ones answer slowly
    return pld.library("privacy_loss_distribution").PrivacyLossDistribution(removing, adding)


@_remember
def _response_pld(loss: Response) -> "PrivacyLossDistribution":
    return pld.of_profile(loss.delta, [loss.epsilon])


@_remember
def _composed_pld(counts: frozenset[tuple[Loss, int]]) -> "PrivacyLossDistribution":
    """PLD of composed losses, in the order of their spelling: the order in which they came leaves no trace."""
    ordered = sorted(counts, key=repr)
    parts = [loss.pld() if count == 1 else loss.pld().self_compose(count) for loss, count in ordered]
    return functools.reduce(lambda a, b: a.compose(b), parts)
