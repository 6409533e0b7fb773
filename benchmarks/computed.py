"""Figures of the documents that follow from formulas and from nothing else: no clock, no simulation, some seconds.

Usage: make figures ONLY=computed
A test computes them again and compares them with the record, benchmarks/figures.md, to the letter.
"""

import math
import sys
from pathlib import Path

from scipy import optimize

from sfumato.intervals.inner_products import laplace_scores
from sfumato.intervals.moments import Geometry, NoiseLaw, SketchLaw
from sfumato.mechanisms.responses import response_loss
from sfumato.planning import covariance_options, cut_options
from sfumato.privacy import attack_bounds
from sfumato.privacy.calibration import least_level
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Gaussian
from sfumato.privacy.profiles import folded_sum_tail

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from published_constants import graph_ridge
from published_synthetic import largest_loss, second_moment_draws

ROWS = (119, 473, 4239)
EPSILONS = (0.1, 1.0, 4.0)


def gaussian_noise() -> None:
    """What the exact mechanism needs, and what was published."""
    print("Gaussian noise at sensitivity 1")
    exact, log = least_level(lambda s: Gaussian(1.0, s), 1.0, 1e-6), math.log(1 / 2e-6)
    print(f"  (1, 1e-6)  exact {exact:.4f}, Theorem 1 {math.sqrt(2 * (log + 1)):.4f}", end=", ")
    print(f"Lemma 2 {4 * math.sqrt(math.log(1e6)):.3f}, with delta for 2 delta {math.sqrt(2 * math.log(1e6) + 2):.2f}")
    exact = least_level(lambda s: Gaussian(1.0, s), 4.0, 0.3)
    print(f"  (4, 0.3)   exact {exact:.2f}, without epsilon under the root {math.sqrt(2 * math.log(1 / 0.6)) / 4:.2f}")


def chernoff() -> None:
    """The scale over the radius at (1, 1e-6) by Chernoff's bound on the l1 norm of an image."""
    print("Laplace noise after a fresh gaussian projection, b/R at (1, 1e-6) by Chernoff's bound")
    for k in (2, 3, 10, 20, 64):
        low, high = 1.0, 20.0
        while high - low > 1e-4:
            middle = (low + high) / 2
            low, high = (low, middle) if folded_sum_tail(middle * math.sqrt(k), dim_out=k) <= 1e-6 else (middle, high)
        print(f"  k = {k:2}   {high:.2f}")


def simulation_errors() -> None:
    """Standard errors of shares near 95%."""
    for count in (200, 4000, 10_000, 20_000):
        one = math.sqrt(0.95 * 0.05 / count)
        print(f"Standard error of a share of 95%, {count:,} repetitions: {one:.2%}; three of them {3 * one:.2%}")


def images() -> None:
    """What few columns become under a random P."""
    apart = math.prod(1 - i / 128 for i in range(5))
    print(f"Five equal columns in 128 buckets: all apart with probability {apart:.1%}; else {7 / 5} or {3 / 5} mostly")
    print(f"Achlioptas, k = 4, one column: an image of 0 with probability {(2 / 3) ** 4:.1%}")
    single, many = (float(laplace_scores(0.025)(c)) for c in (1.0, 1e-9))
    print(f"Scores of sums of Laplace noises at 95%: one entry {single:.2f}, many {many:.2f}")


def count_sketch() -> None:
    """Variances of a squared distance of 16 at epsilon 4, one value as the unit."""
    sparse = SketchLaw(NoiseLaw("laplace", math.sqrt(2) / 4), Geometry("sparse", 1000, 20))
    ours = [sparse.distance_variance(16.0, fourth) for fourth in (0.0, 16.0)]
    print(f"CountSketch, k = 20, squared distance 16, epsilon 4: variance at most {ours[0]:.1f}, of ones {ours[1]:.1f}")
    law = SketchLaw(NoiseLaw("laplace", math.sqrt(2) * 2 * math.sqrt(20) / 4), Geometry("gaussian", 1000, 20))
    print(f"  the published mechanism: {law.distance_variance(16.0):.0f}")


def graphs() -> None:
    """Ridges of graph sketches, exact and published, and how they compare with noise on pairs."""
    print("Graph sketches, w at delta 1e-6 for many vertices, exact (published)")
    for rows in ROWS:
        line = f"  r = {rows:4}"
        for epsilon in EPSILONS:
            exact = _three(cut_options.sketch_ridge(10**12, rows, Guarantee(epsilon=epsilon, delta=1e-6, unit="edge")))
            line += f"   epsilon {epsilon:g}: {exact} ({graph_ridge(rows, epsilon, 1e-6):.0f})"
        print(line)
    w = cut_options.sketch_ridge(10**12, 119, Guarantee(epsilon=1.0, delta=1e-6, unit="edge"))
    over = w / math.sqrt(119)
    side = (1 - math.sqrt(1 - 4 / over**2)) / 2
    print(
        f"  the ridge's error at r = 119, epsilon 1: {over / 2:.1f} times that of Laplace noise for balanced cuts",
        end="",
    )
    print(f", equal at a side of {side:.1%}, {math.sqrt(2 / 119) * w:.1f} at one vertex")
    print(f"  variance of a pair at epsilon 1: responses {1 / (4 * math.sinh(0.5) ** 2):.2f}, Laplace noise 2")


def _three(value: float) -> str:
    """Three figures, four if it is a thousand or more."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"


def responses() -> None:
    """What each of 300 flags may have at epsilon 1."""
    level = least_level(lambda x: response_loss(1 / x, (2,) * 300), 1.0, 1e-6, start=300.0)
    print(f"Randomized response, 300 flags of a record, (1, 1e-6): epsilon {1 / level:.5f} each; pure {1 / 300:.5f}")


def _counted(epsilon: float) -> Guarantee:
    return Guarantee(epsilon=epsilon, delta=1e-6, neighbours="add-remove")


def covariances() -> None:
    """What the anchor costs, and ridges of sketches."""
    print("Covariances: a constant of R/2 beside each row")
    square = 1 + 0.5**2
    print(f"  costs {square - 1:.0%} at mean 0; separate releases under replace", end=" ")
    apart = math.sqrt((2 + 8 * 0.5**2) / (2 * square**2))
    print(f"{apart:.2f} times; noise for the centred scatter {4 / square:.1f} times")
    for rows in ROWS:
        plain, centred = (covariance_options.ridge(rows, _counted(1.0), centred=c) for c in (False, True))
        counted = covariance_options.ridge(rows, _counted(0.98), centred=False) / plain - 1
        line = f"  sketch of {rows:4} rows, (1, 1e-6): w^2 {_three(plain)}, centred {_three(centred)}"
        print(f"{line}, error at variance 0 {math.sqrt(2 / rows) * plain:.2f}, {counted:.1%} more with the count")
    least = least_level(lambda x: covariance_options._sketch_loss(473, "replace", x), 1.0, 1e-6)
    quick = covariance_options.ridge(473, Guarantee(epsilon=1.0, delta=1e-6), centred=False)
    print(f"  sketch of 473 rows, replace: w^2 {quick:.3f}, least {least:.3f}")


def synthetic_rows() -> None:
    """The constant beside rows that are read once, 16 columns."""
    a = math.sqrt(optimize.brentq(lambda x: 16 * x**2 + x - 1, 0.0, 1.0))
    print(
        f"Synthetic rows in one pass, p = 16: a = {a:.2f}, noise of the mean {(1 + a * a) / (2 * a):.1f} times", end=""
    )
    print(f", of the second moment {1 + a * a:.2f} times")


def attacks() -> None:
    """Where nothing can be recovered, and what published constants lose."""
    epsilon = optimize.brentq(lambda e: attack_bounds.correlation(e) - 0.9, 0.1, 10.0)
    print(f"A correlation of 0.9 with a protected column is possible from epsilon {epsilon:.3f} on")
    for constants in ("published", "proved"):
        loss = largest_loss(*second_moment_draws(4, 4.0, published=constants == "published"))
        print(f"RON-Gauss, p = 4, claimed 4, {constants} constant: largest loss {loss:.3f}")
    print(f"  on real numbers, as published: {4 * math.sqrt(2):.3f}")
    slope = 1 / math.log(2)
    print(
        f"The median mechanism as printed: R - 1 is about {slope:.2f} a, c hard answers cost about {1 + slope:.1f} c a"
    )


def main() -> None:
    """All of them."""
    gaussian_noise()
    chernoff()
    simulation_errors()
    images()
    count_sketch()
    graphs()
    responses()
    covariances()
    synthetic_rows()
    attacks()


if __name__ == "__main__":
    main()
