"""What is asked of every mechanism: all of them declare it, and what most agree on is the default."""

import math

import pytest

import sfumato as sf
from sfumato.errors import ParameterError, ReleaseError
from sfumato.mechanisms import base
from sfumato.mechanisms.base import Prepared, Recipe
from sfumato.studio.release_screen import _HELD
from support.golden import CASES


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_mechanism_answers_all_that_is_asked_of_it(name):
    _, schema, recipe, guarantee = CASES[name]
    prepared = recipe.prepare(schema, guarantee)
    assert Recipe in type(recipe).__mro__
    assert Prepared in type(prepared).__mro__
    assert prepared.guarantee == guarantee
    assert (prepared.schema is None) == (schema is None)
    assert prepared.guess is None or prepared.guess > 0
    assert prepared.dimension >= 1
    assert set(prepared.settings) <= set(_HELD)
    assert recipe.not_covered == ()


def test_what_recipes_say_of_themselves_is_what_was_given():
    assert sf.Sketch(dimension=5).width == sf.Components(dimension=5).width == sf.Synthetic(dimension=5).width == 5
    assert sf.GraphSketch(rows=7).width == sf.Covariance(noise="sketch", rows=7).width == 7
    assert sf.Synthetic(rows=10**6).width is None  # rows that are drawn, not numbers of a row
    assert sf.GraphSketch(rows=7, vertices=30).vertices == 30
    assert sf.Sketch().vertices is None
    shown = sf.Synthetic(label="c", kind="classes", counts="public")
    assert shown.not_covered == (base.CLASSES_SHOWN,)


@pytest.mark.parametrize("gone", [{"constants": "published"}, {"as_published": True}])
def test_constants_that_do_not_keep_their_promise_are_no_option(gone):
    with pytest.raises(TypeError, match="unexpected keyword"):
        sf.Synthetic(**gone)


def test_a_scale_is_refused_outside_of_what_can_be_drawn_with_its_room():
    promise, largest = sf.Guarantee(epsilon=3.0), base.noise.LARGEST_SCALE
    base.check_scale(promise, largest, 2.0)
    with pytest.raises(ParameterError, match=r"epsilon=3.0 asks for 2 times .* an epsilon nearer"):
        base.check_scale(promise, largest, 2.0, "nearer", room=(1, 2))
    with pytest.raises(ParameterError, match="no grid"):
        base.check_scale(promise, base.noise.SMALLEST_SCALE * 1.9, 2.0, room=(2, 1))


def test_the_number_of_rows_is_told_where_it_is_public_and_there_are_some():
    assert base.public_rows(3, sf.Guarantee(epsilon=1.0)) == 3
    assert base.public_rows(0, sf.Guarantee(epsilon=1.0, neighbours="add-remove")) is None
    with pytest.raises(ReleaseError, match="no rows"):
        base.public_rows(0, sf.Guarantee(epsilon=1.0))


@pytest.mark.parametrize("order", [1, 2])
def test_two_stages_add_up_to_the_level_that_was_shared_out(order):
    first, second = base.split_levels(2.0, 0.3, order)
    assert 1 / first**order + 1 / second**order == pytest.approx(1 / 2.0**order)
    whole, split = base.noise_loss(order, 2.0), base.split_loss(first, second, order)
    assert split.delta(0.5 * (1 + 1e-12)) == pytest.approx(whole.delta(0.5), rel=1e-9)
    assert base.split_levels(2.0, 0.0, order) == (math.inf, 2.0)
