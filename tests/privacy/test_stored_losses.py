"""Losses for groups and in tables: never smaller than what they stand for."""

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp

from sfumato.errors import LedgerError
from sfumato.privacy import pld, stored_losses
from sfumato.privacy.losses import ChiSquare, Composed, Gaussian, Laplace, Pure, Response
from sfumato.privacy.stored_losses import Tabulated, from_json, group_delta, grouped, tabulated, to_json


@pytest.mark.parametrize("times", [2, 3, 7])
def test_groups_move_further_by_their_number_and_are_rounded_up(times):
    exact = Fraction(0.3) * times
    for made in (Pure(0.3), Response(0.3, 5)):
        epsilon = grouped(made, times).epsilon
        assert exact <= Fraction(epsilon) <= exact * (1 + Fraction(1, 2**50))
    for law in (Laplace, Gaussian):
        found = grouped(law(0.3, 2.0), times)
        assert exact <= Fraction(found.sensitivity) <= exact * (1 + Fraction(1, 2**50))
        assert (found.laplace_scale if law is Laplace else found.scale) == 2.0
    both = grouped(Composed([Pure(0.3), Laplace(0.3, 2.0)]), times)
    assert both.losses == (grouped(Pure(0.3), times), grouped(Laplace(0.3, 2.0), times))


def test_a_group_of_one_is_the_loss_itself():
    for loss in (Pure(0.3), Laplace(1.0, 2.0), Gaussian(1.0, 3.0)):
        assert grouped(loss, 1) == loss


@pytest.mark.parametrize(("epsilon", "delta", "times"), [(0.1, 1e-6, 3), (2.0, 1e-9, 5), (1e-3, 1e-5, 40)])
def test_group_deltas_are_the_sum_of_the_chain_rounded_up(epsilon, delta, times):
    with mp.workdps(30):
        truth = mp.mpf(delta) * sum(mp.exp(i * mp.mpf(epsilon)) for i in range(times))
        assert truth <= group_delta(epsilon, delta, times) <= truth * (1 + mp.mpf(10) ** -11)


def test_group_deltas_at_the_edges():
    assert group_delta(0.0, 1e-6, 4) == pytest.approx(4e-6)
    assert group_delta(0.3, 1e-6, 1) == 1e-6
    assert group_delta(0.3, 0.0, 9) == 0.0
    assert group_delta(300.0, 0.0, 9) == 0.0
    assert group_delta(300.0, 1e-9, 9) == 1.0
    assert group_delta(1.0, 0.5, 4) == 1.0
    assert group_delta(0.0, 0.5, 4) == 1.0


def test_groups_of_a_table_follow_the_chain_rule():
    loss = ChiSquare(rows=20, ratio=0.1)
    found = grouped(loss, 2)
    for epsilon in (0.5, 1.0, 2.0):
        truth = group_delta(epsilon / 2, loss.delta(epsilon / 2), 2)
        assert truth * (1 - 1e-9) <= found.delta(epsilon) <= truth * 1.02 + 1e-12


def test_a_table_lies_above_its_loss_at_dots_and_between():
    loss = ChiSquare(rows=20, ratio=0.1)
    table = tabulated(loss)
    assert isinstance(table, Tabulated)
    steps = table.dots.steps
    assert table.delta(0.0) >= table.dots.forward[0]
    for i in (1, 10, 50, len(steps) - 2):
        at, after = steps[i] * pld.INTERVAL, steps[i + 1] * pld.INTERVAL
        for epsilon in (at, (at + after) / 2, 0.9 * after + 0.1 * at):
            truth = loss._adding(epsilon)
            assert truth <= table.delta(epsilon) <= truth * 1.02 + 1e-12


def test_what_replaces_is_tabled_as_going_and_coming():
    table = tabulated(ChiSquare(rows=20, ratio=0.1, neighbours="replace"))
    assert isinstance(table, Composed)
    first, second = table.losses
    assert (first.dots.forward, first.dots.backward) == (second.dots.backward, second.dots.forward)
    assert first == tabulated(ChiSquare(rows=20, ratio=0.1))


def composed(*counts):
    return {"law": "composed", "parts": [[count, to_json(Pure(0.1))] for count in counts]}


@pytest.mark.parametrize(
    "counts", [(), (0,), (1, 0), (-1, 3), (2, -1), (stored_losses._MOST + 1,), (stored_losses._MOST, 1)]
)
def test_numbers_of_parts_that_make_no_sense_are_refused(counts):
    with pytest.raises(LedgerError):
        from_json(composed(*counts))


def test_parts_are_counted_in_full():
    assert from_json(composed(2, 1)).losses == (Pure(0.1),) * 3
    assert from_json(composed(1)).losses == (Pure(0.1),)
    assert math.isclose(len(from_json(composed(stored_losses._MOST)).losses), stored_losses._MOST)


@pytest.mark.parametrize("times", [2, 3, 7, 10, 1000])
def test_the_delta_of_a_group_at_epsilon_0_is_rounded_up(times):
    deltas = np.random.default_rng(times).random(2000) * 1e-4
    assert all(Fraction(group_delta(0.0, delta, times)) >= Fraction(delta) * times for delta in deltas.tolist())
    assert group_delta(0.0, 0.0, times) == 0
    assert group_delta(0.0, 0.9, times) == 1


def test_a_table_has_two_dots_at_least():
    def table(*dots):
        return {"law": "table", "interval": pld.INTERVAL, "steps": [*range(len(dots))], "forward": [*dots]}

    assert from_json(table(0.25, 0.0)).dots == pld.Dots((0, 1), (0.25, 0.0), (0.25, 0.0))
    with pytest.raises(LedgerError):
        from_json(table(0.25))


def test_the_delta_of_a_table_is_never_above_one():
    certain = Tabulated(pld.Dots((0, 10), (1.0, 1.0), (1.0, 1.0)))
    assert [certain.delta(x * pld.INTERVAL) for x in (0.0, 2.5, 9.9)] == [1.0, 1.0, 1.0]
