"""The loss of discrete Laplace noise: sums over all outcomes, other computations of it, and draws."""

import functools
import itertools
import math

import numpy as np
import pytest
from mpmath import mp

from sfumato.errors import ParameterError
from sfumato.privacy import pld, stored_losses
from sfumato.privacy.discrete_loss import DiscreteLaplace
from sfumato.privacy.losses import Composed, Laplace, Pure, pure_epsilon
from sfumato.randomness.secret import Secret
from support.evidence import agrees

CASES = [(1, 1.0), (1, 0.3), (2, 1.0), (3, 2.0), (7, 3.3), (20, 10.0)]
SHARES = (0.0, 0.1, 0.35, 0.5, 0.77, 0.99)


def chances(move, scale):
    """Of all whole numbers far around, under noise about 0 and about ``move``."""
    far = int(60 * scale) + move + 20
    q = mp.exp(-1 / mp.mpf(scale))
    about = [[(1 - q) / (1 + q) * q ** abs(k - centre) for k in range(-far, far + 1)] for centre in (0, move)]
    return list(zip(*about, strict=True))


def truth(epsilon, moves, scale):
    """The hockey-stick divergence of integers that move by these, from the law of their losses."""
    losses = {(): mp.mpf(1)}
    for move in moves:
        own = {}
        for one, two in chances(move, scale):
            step = round(float(mp.log(one / two) * mp.mpf(scale)))
            own[step] = own.get(step, 0) + one
        folded = {}
        for (before, p), (step, chance) in itertools.product(losses.items(), own.items()):
            folded[(sum(before) + step,)] = folded.get((sum(before) + step,), 0) + p * chance
        losses = folded
    return sum(p * max(0, 1 - mp.exp(mp.mpf(epsilon) - sum(step) / mp.mpf(scale))) for step, p in losses.items())


@pytest.mark.parametrize(("move", "scale"), CASES)
def test_the_profile_is_the_sum_over_all_outcomes(move, scale):
    with mp.workdps(40):
        for share in SHARES:
            epsilon = share * move / scale
            found, true = DiscreteLaplace(move, scale).delta(epsilon), truth(epsilon, [move], scale)
            assert true * (1 - mp.mpf(10) ** -20) <= mp.mpf(found) <= true * (1 + mp.mpf(2) ** -36)
    assert DiscreteLaplace(move, scale).delta(math.nextafter(move / scale, math.inf)) == 0


def test_a_move_of_one_is_the_worst_of_all_pure_losses_and_long_moves_are_laplace_noise():
    for epsilon in (0.0, 0.2, 0.9):
        assert DiscreteLaplace(1, 1.0).delta(epsilon) == pytest.approx(Pure(1.0).delta(epsilon), rel=1e-11)
        near = Laplace(1000, 1000.0).delta(epsilon)
        assert near <= DiscreteLaplace(1000, 1000.0).delta(epsilon) <= near * (1 + 1e-5)
    for steps in range(4):
        corner = (7 - 2 * steps) / 2.0
        assert DiscreteLaplace(7, 2.0).delta(corner) == pytest.approx(1 - math.exp(-steps / 2.0), abs=1e-12)


@pytest.mark.parametrize("moves", [(1, 1), (3, 2), (1, 1, 1, 1, 1), (4, 1), (2, 2, 1), (3, 3)])
def test_a_move_in_one_integer_is_the_worst(moves):
    whole = sum(moves)
    with mp.workdps(25):
        for scale in (0.7, 2.0):
            lost = [truth(share * whole / scale, moves, scale) for share in SHARES]
            one = [DiscreteLaplace(whole, scale).delta(share * whole / scale) for share in SHARES]
            assert all(a <= b for a, b in zip(lost, one, strict=True))
            less = [DiscreteLaplace(whole - 1, scale).delta(share * whole / scale) for share in SHARES]
            assert any(a > b for a, b in zip(lost, less, strict=True))


@pytest.mark.parametrize(("move", "scale"), [*CASES, (99, 99.0), (5000, 2500.0)])
def test_the_distribution_is_on_the_private_side_and_close(move, scale):
    loss = DiscreteLaplace(move, scale)
    made = pld.library("privacy_loss_distribution").from_discrete_laplace_mechanism
    theirs = made(1 / scale, sensitivity=move, value_discretization_interval=pld.INTERVAL)
    for share in SHARES:
        epsilon = share * move / scale
        found, theirs_too = (d.get_delta_for_epsilon(epsilon) for d in (loss.pld(), theirs))
        assert loss.delta(epsilon) - 1e-14 <= found <= loss.delta(epsilon) + 1e-4
        assert abs(found - theirs_too) < 2e-4


def test_two_of_them_are_not_taken_for_two_laplace_mechanisms():
    pair = Composed([DiscreteLaplace(1, 2.0), DiscreteLaplace(1, 2.0)])
    with mp.workdps(25):
        true = truth(0.4, [1, 1], 2.0)
    assert true <= pair.delta(0.4) <= float(true) + 1e-4
    assert Composed([Laplace(1, 2.0)] * 2).delta(0.4) < true
    assert pair.delta(1.0 + 1e-12) == 0


@pytest.mark.parametrize(("move", "scale"), [(1, 1.0), (3, 2.0)])
def test_draws_lose_what_the_profile_says(move, scale):
    drawn = Secret.for_testing(8).words("loss").discrete_laplace(400_000, scale)
    losses = (np.abs(drawn - move) - np.abs(drawn)) / scale
    assert losses.max() == pytest.approx(move / scale)
    for epsilon in (0.0, 0.3 * move / scale):
        seen = np.maximum(1 - np.exp(epsilon - losses), 0)
        assert agrees(seen, DiscreteLaplace(move, scale).delta(epsilon))
        assert not agrees(seen, DiscreteLaplace(move, scale * 1.1).delta(epsilon))


def test_a_ledger_keeps_it_and_groups_it():
    loss = DiscreteLaplace(2, 3.0)
    assert stored_losses.from_json(stored_losses.to_json(loss)) == loss
    assert stored_losses.tabulated(loss) is loss
    assert stored_losses.grouped(loss, 3) == DiscreteLaplace(6, 3.0)
    assert stored_losses.grouped(Laplace(2, 3.0), 3) != DiscreteLaplace(6, 3.0)
    assert pure_epsilon(loss) == math.nextafter(2 / 3.0, math.inf)
    assert loss != Laplace(2, 3.0)
    assert loss.pld() is DiscreteLaplace(2, 3.0).pld()


@pytest.mark.parametrize("wrong", [(0, 1.0), (1.5, 1.0), (1, 0.0), (1, math.inf)])
def test_moves_are_whole_and_scales_positive(wrong):
    with pytest.raises(ParameterError):
        DiscreteLaplace(*wrong)
    with pytest.raises(ParameterError):
        functools.partial(DiscreteLaplace(1, 1.0).delta, -1.0)()
