"""What one unit moves in sums and second moments, to 40 digits: never less than the proofs say, and more by a hair."""

import pytest
from mpmath import mp

from published_synthetic import whole_move
from sfumato.projection import unit_ball

RELATIONS = ["replace", "add-remove"]


def covered(found, truth):
    return truth <= mp.mpf(found) <= truth * (1 + mp.mpf(2) ** -42)


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(40):
        yield


def by_signs(dim, *, empty=0):
    """sqrt(2) |S|_F of the proofs: 1 on the diagonal but for the ``empty`` corner, 1/2 off it."""
    return mp.sqrt(2 * (dim - empty + mp.mpf(dim * (dim - 1)) / 4))


def triangle_truth(dim, order, relation, top):
    if relation == "add-remove":
        return top**2 * (mp.mpf(dim + 1) / 2 if order == 1 else 1)
    if dim == 1:
        return top**2
    return top**2 * (by_signs(dim) if order == 1 else mp.sqrt(2))


def labelled_truth(dim, order, relation, label, top):
    squared = top**2 + label**2
    if order == 2:
        return squared * (mp.sqrt(2) if relation == "replace" else 1)
    cross = label * mp.sqrt(dim) * top * (2 if relation == "replace" else 1)
    parts = triangle_truth(dim, 1, relation, top) + cross + label**2
    return min(parts, triangle_truth(dim + 1, 1, relation, mp.mpf(1)) * squared)


SIZES = pytest.mark.parametrize(("dim", "top"), [(1, 1.0), (2, 1.0), (7, 0.3), (30, 1000.7)])
ORDERS = pytest.mark.parametrize("order", [1, 2])
RELATED = pytest.mark.parametrize("relation", RELATIONS)


@SIZES
@ORDERS
@RELATED
def test_sums_and_triangles_are_rounded_up(dim, top, order, relation):
    t, twice = mp.mpf(top), 2 if relation == "replace" else 1
    for appended in ((), (0.4,), (3.0, 0.7)):
        more = [mp.mpf(x) for x in appended]
        moved = mp.sqrt(dim) * t + sum(more) if order == 1 else mp.sqrt(t**2 + sum(x**2 for x in more))
        assert covered(unit_ball.sums_move(dim, order, relation, top=top, appended=appended), twice * moved)
    assert covered(unit_ball.triangle_move(dim, order, relation, top=top), triangle_truth(dim, order, relation, t))
    assert covered(whole_move(dim, top=top), t**2 * (mp.sqrt(2) * dim if dim > 1 else 1))


@SIZES
@ORDERS
@RELATED
@pytest.mark.parametrize("label", [0.01, 0.5, 900.0])
def test_labelled_moments_are_rounded_up(dim, top, order, relation, label):
    truth = labelled_truth(dim, order, relation, mp.mpf(label), mp.mpf(top))
    assert covered(unit_ball.labelled_move(dim, order, relation, label=label, top=top), truth)


@SIZES
@ORDERS
@RELATED
@pytest.mark.parametrize("label", [0.0, 0.5])
@pytest.mark.parametrize("constant", [0.25, 1.5, 2000.0])
def test_moments_of_classes_are_rounded_up(dim, top, order, relation, label, constant):
    a, y, t = mp.mpf(constant), mp.mpf(label), mp.mpf(top)
    if order == 2:
        truth = (t**2 + a**2 + y**2) * (mp.sqrt(2) if relation == "replace" else 1)
    else:
        truth = labelled_truth(dim, 1, "add-remove", y, t) + a * (mp.sqrt(dim) * t + y) + a**2
        truth *= 2 if relation == "replace" else 1
    assert covered(unit_ball.classes_move(dim, order, relation, constant=constant, label=label, top=top), truth)


@SIZES
@ORDERS
@pytest.mark.parametrize("label", [0.0, 0.5])
@pytest.mark.parametrize("constant", [0.25, 1.5, 2000.0])
def test_moments_within_classes_are_rounded_up(dim, top, order, label, constant):
    a, y, t = mp.mpf(constant), mp.mpf(label), mp.mpf(top)
    squared = t**2 + y**2
    if order == 2:
        truth = mp.sqrt(8 * a**2 * squared) if a**2 > squared else mp.sqrt(2) * (squared + a**2)
    else:
        parts = labelled_truth(dim, 1, "replace", y, t) + 2 * a * (mp.sqrt(dim) * t + y)
        truth = min(parts, (squared + a**2) * by_signs(dim + 1 + (label > 0), empty=1))
    assert covered(unit_ball.within_classes_move(dim, order, constant=constant, label=label, top=top), truth)
