"""The median mechanism as a survey prints it (Prakash, Figure 1): fresh noise for each comparison, and no shared noise.

Each comparison is rate-private with rate = s / b, s being what one unit moves r; all of them together cost what
``classified`` says, which needs delta > 0, so a session is (epsilon, delta)-private but never pure. The product's
``Median`` compares by a sparse vector instead: it is pure, and less noisy.

What is printed, and what holds: the survey leaves out r (equation 4 of the paper), m, gamma and alpha'. With noise
Lap(2 / (epsilon n alpha')) on r and Lap(1 / (n alpha')) on hard answers, rate = alpha'/2, and for c hard answers the
cost is at most c alpha'/2 + (R - 1) G + c alpha' (``classified``), about 2.2 c alpha' for large c. With the paper's
alpha' = alpha / (720 m ln|X|) and c = 20 m ln|X| that is about 0.06 alpha: the claim of (alpha, tau) holds, with
sixteen times the noise it needs. It is not pure for any alpha: every easy answer costs something, without end.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from flint import arb

from sfumato import check
from sfumato.answering.base import Live, Noises, check_scales
from sfumato.answering.median import Median, MedianParts, PreparedMedian
from sfumato.answering.sparse_vector import Comparisons, Scales
from sfumato.errors import ParameterError
from sfumato.privacy import pld
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Loss
from sfumato.privacy.profiles import _bound
from sfumato.queries.domain import Domain
from sfumato.randomness.noise import laplace_scale

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


def classified(epsilon: float, *, positives: int, rate: float) -> float:
    """Any number of yes-or-no answers in turn, each ``rate``-private by itself, until ``positives`` of them are yes.

    Let h, h' be the chances of a yes under the two inputs, given what came before. A yes costs at most the rate. A no
    costs u' - u with u = -ln(1 - h), u' = -ln(1 - h'), and u' <= R u, R = ln(1 + e^rate) / ln(1 + e^-rate): h' is at
    most e^rate h and u' at most u + rate, and the ratio u'/u of either bound is largest where they meet, at
    h = 1 / (1 + e^rate) (of the first it grows with h, term by term of the power series; of the second it falls). Under
    the first input, a no is what an exponential clock survives that is set anew after each yes, so all u together are
    at most a Gamma(positives) variable G. So the loss is at most positives * rate + (R - 1) G, and delta is at most
    E (1 - e^(epsilon - loss))+ = Q(c, g) - e^(epsilon - c rate) R^-c Q(c, R g), g = (epsilon - c rate)+ / (R - 1), with
    Q the upper regularised Gamma function. However many questions there are.
    """

    def value() -> arb:
        a, c = arb(rate), arb(positives)
        ratio = a.exp().log1p() / (-a).exp().log1p()
        room = (arb(epsilon) - c * a).nonnegative_part()
        g = room / (ratio - 1)
        left = (arb(epsilon) - c * a - c * ratio.log()).exp()
        return g.gamma_upper(c, regularized=1) - left * (ratio * g).gamma_upper(c, regularized=1)

    return _bound(value)


@dataclass(frozen=True, slots=True)
class Classified:
    """Yes-or-no answers in turn, each ``rate``-private, until ``positives`` are yes: ``classified``."""

    positives: int
    rate: float

    def delta(self, epsilon: float) -> float:
        """An upper bound that holds for any number of questions."""
        check.not_negative(epsilon=epsilon)
        return classified(float(epsilon), positives=self.positives, rate=self.rate)

    def pld(self) -> "PrivacyLossDistribution":
        """Connect-the-dots over the bound, which is the same in both directions."""
        return pld.symmetric(pld.dots(self.delta, self.delta))


class _Afresh(Comparisons):
    """Comparisons that share no noise: that of the threshold is 0."""

    def __init__(self, noises: Noises, scales: Scales, positives: int) -> None:
        Live.__init__(self)
        self.noises, self.scales = noises, scales
        self.left, self.threshold = np.full(1, positives), np.zeros(1, np.int64)


class _QuestionScale(Scales):
    """The scale of each question alone."""

    def exceeded(self, probability: float) -> float:
        """As if the threshold had a thousandth of the noise."""
        return Scales(self.query * 1e-3, self.query).exceeded(probability)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedMedian(Median):
    """The recipe, as printed."""

    @property
    def context(self) -> str:
        """As version 0.1.0 wrote it, so that results can be made again to the bit."""
        return "Median(" + repr(self).partition("(")[2].removesuffix(")") + ", comparison='printed')"

    def prepare(self, domain: Domain, guarantee: Guarantee) -> "PreparedPrinted":
        """Refuse a pure promise, too."""
        honest = Median.prepare(self, domain, guarantee)
        if guarantee.delta == 0:
            raise ParameterError("as printed, every easy answer costs something: give a delta > 0, or use Median")
        return PreparedPrinted(self, domain, guarantee, honest.hard)


class PreparedPrinted(PreparedMedian):
    """As printed, before calibration; the part ``comparing`` is the rate of each comparison."""

    def parts(self, level: float) -> MedianParts:
        """How epsilon is shared out."""
        usual = PreparedMedian.parts(self, level)
        return replace(usual, comparing=usual.comparing / self.hard)

    def comparing_loss(self, epsilon: float) -> Loss:
        """Of all comparisons, at this rate of each."""
        return Classified(self.hard, epsilon)

    def comparisons(self, noises: Noises, level: float, rows: int) -> Comparisons:
        """With noise afresh for each."""
        scales = _QuestionScale(0.0, laplace_scale(self.agreement_move(rows), self.parts(level).comparing))
        check_scales(self.guarantee, scales.query)
        return _Afresh(noises, scales, self.hard)
