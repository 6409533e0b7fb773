"""Profiles joined by lines: above what they join, at the dots and between them, in both directions."""

import math

import numpy as np
import pytest

from sfumato.privacy import pld, profiles

GAUSSIAN = lambda epsilon: profiles.gaussian(epsilon, sensitivity=1.0, scale=2.0)  # noqa: E731
ADDING = lambda epsilon: profiles.chi_square_adding(epsilon, rows=9, ratio=0.4)  # noqa: E731
REMOVING = lambda epsilon: profiles.chi_square_removing(epsilon, rows=9, ratio=0.4)  # noqa: E731


@pytest.mark.parametrize(("forward", "backward"), [(GAUSSIAN, GAUSSIAN), (ADDING, REMOVING), (REMOVING, ADDING)])
def test_joined_dots_lie_above_the_profile_and_close_to_it(forward, backward):
    joined = pld.dots(forward, backward)
    for epsilon in (0.0, 0.00005, 0.01, 0.1234, 0.5, 1.0, 2.0):
        truth = forward(epsilon)
        found = joined.get_delta_for_epsilon(epsilon)
        assert truth * (1 - 1e-12) <= found <= truth * 1.02 + 1e-9


def test_the_other_direction_is_what_negative_losses_follow_from():
    """Composed with itself, the joined profile is above the composition of the two-sided law."""
    joined = pld.dots(GAUSSIAN, GAUSSIAN)
    twice = joined.self_compose(2)
    for epsilon in (0.1, 0.5, 1.0):
        truth = profiles.gaussian(epsilon, sensitivity=math.sqrt(2), scale=2.0)
        assert truth * (1 - 1e-9) <= twice.get_delta_for_epsilon(epsilon) <= truth * 1.02 + 1e-9
    turned = pld.sampled(ADDING, REMOVING).turned()
    assert turned.forward == pld.sampled(REMOVING, ADDING).forward
    assert turned.turned() == pld.sampled(ADDING, REMOVING)


def test_the_backward_profile_is_kept_where_it_differs():
    dots = pld.sampled(ADDING, REMOVING)
    epsilons = [step * pld.INTERVAL for step in dots.steps]
    assert dots.forward == tuple(map(ADDING, epsilons))
    assert dots.backward == tuple(map(REMOVING, epsilons))
    assert dots.forward != dots.backward


def test_dots_reach_from_nothing_to_where_nothing_is_left():
    """On the grid, denser near 0; beyond the last, delta is negligible in both directions."""
    for forward, backward in ((GAUSSIAN, GAUSSIAN), (ADDING, REMOVING), (REMOVING, ADDING)):
        steps = pld._support(forward, backward)
        end = steps[-1] * pld.INTERVAL
        assert steps[0] == 0
        assert steps.size <= 200
        assert steps.size > 150
        assert (np.diff(steps) > 0).all()
        assert np.diff(steps)[:5].mean() < np.diff(steps)[-5:].mean() / 10
        assert max(forward(end), backward(end)) <= 1e-16
        assert max(forward(end / 1.51), backward(end / 1.51)) > 1e-16
    for scale in (0.5, 1.0, 1.5, 3.0, 4.0, 8.0):

        def law(epsilon, scale=scale):
            return profiles.gaussian(epsilon, sensitivity=1.0, scale=scale)

        end = pld._support(law, law)[-1] * pld.INTERVAL
        assert law(end) <= 1e-16 < law(end / 1.51)
    far = pld._support(lambda _: 1.0, lambda _: 1.0)
    assert far[-1] * pld.INTERVAL == pytest.approx(pld.LARGEST_LOSS, abs=2 * pld.INTERVAL)


@pytest.mark.parametrize("edge", [0.3, 0.00005, 1.00007, 0.5, 1000.0])
def test_a_two_point_loss_has_dots_around_its_edge(edge):
    steps = pld._around([edge]).tolist()
    capped = min(edge, pld.LARGEST_LOSS)
    assert steps[0] == 0
    assert len(steps) in {2, 3}
    assert steps[-1] * pld.INTERVAL >= capped * (1 - 1e-12)
    assert (steps[-1] - 1) * pld.INTERVAL < capped
    if len(steps) == 3:
        assert steps[1] == steps[2] - 1


def test_the_lower_hull_keeps_corners_and_drops_what_lies_above():
    x = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    assert pld._lowest(x, np.array([4.0, 2.0, 1.0, 0.5, 0.4])) == [0, 1, 2, 3, 4]
    assert pld._lowest(x, np.array([4.0, 3.9, 1.0, 0.9, 0.0])) == [0, 2, 4]
    assert pld._lowest(x, np.array([4.0, 3.0, 2.0, 1.0, 0.0])) == [0, 4]
    assert pld._lowest(x[:2], np.array([1.0, 0.0])) == [0, 1]


def test_every_distribution_shares_one_grid():
    """Written into ledgers: another grid could not be read there."""
    assert pld.INTERVAL == 1e-4
    assert pld.LARGEST_LOSS == 64.0


def test_a_profile_of_one_is_joined_too():
    """A probability of 1 has no logarithm: it counts as a hair less, which the allowance of composed deltas covers."""
    certain = pld.Dots((0, 10_000, 20_000), (1.0,) * 3, (1.0,) * 3).joined()
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        assert 1 - 1e-9 <= certain.get_delta_for_epsilon(epsilon) <= 1
