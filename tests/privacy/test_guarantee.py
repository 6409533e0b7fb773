import dataclasses
import math

import pytest

import sfumato
from sfumato.errors import ParameterError, SfumatoError
from sfumato.privacy.guarantee import Change, Guarantee


def test_a_guarantee_carries_all_five_fields():
    promise = Guarantee(epsilon=1.0, delta=1e-6, unit="record", change=Change.l2(1.0), projection="fresh")
    assert dataclasses.asdict(promise) == {
        "epsilon": 1.0,
        "delta": 1e-6,
        "unit": "record",
        "neighbours": "replace",
        "change": {"kind": "l2", "radius": 1.0},
        "projection": "fresh",
        "group": 1,
    }


@pytest.mark.parametrize(("unit", "kind"), [("attribute", "attribute"), ("record", "box"), ("edge", "attribute")])
def test_the_default_change_follows_from_the_unit(unit, kind):
    assert Guarantee(epsilon=1.0, unit=unit).allowed_change.kind == kind


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0"),
        ({"epsilon": -1.0}, "epsilon=-1.0"),
        ({"epsilon": math.nan}, "epsilon=nan"),
        ({"epsilon": math.inf}, "epsilon=inf"),
        ({"epsilon": "1"}, "epsilon='1'"),
        ({"epsilon": 1.0, "delta": -1e-9}, "delta=-1e-09"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta=1.0"),
        ({"epsilon": 1.0, "delta": math.nan}, "delta=nan"),
        ({"epsilon": 1.0, "unit": "person"}, "unit='person'"),
        ({"epsilon": 1.0, "neighbours": "swap"}, "neighbours='swap'"),
        ({"epsilon": 1.0, "projection": "new"}, "projection='new'"),
        ({"epsilon": 1.0, "group": 0}, "group=0"),
        ({"epsilon": 1.0, "group": 2, "unit": "attribute"}, "unit='attribute'"),
        ({"epsilon": 1.0, "unit": "attribute", "change": Change.l2(1.0)}, "unit='attribute'"),
        ({"epsilon": 1.0, "unit": "record", "change": Change.attribute()}, "unit='record'"),
        ({"epsilon": 1.0, "projection": "fresh", "change": Change.l2(1.0)}, "delta=0.0"),
        ({"epsilon": 1.0, "delta": 1e-6, "projection": "fresh"}, "change='box'"),
    ],
)
def test_a_bad_field_is_named_with_its_value(fields, named):
    with pytest.raises(ParameterError) as caught:
        Guarantee(**fields)
    assert named in str(caught.value)


@pytest.mark.parametrize("radius", [0.0, -1.0, math.nan, math.inf, None])
def test_a_ball_needs_a_positive_finite_radius(radius):
    with pytest.raises(ParameterError, match="radius"):
        Change("l1", radius)


def test_a_box_takes_no_radius():
    with pytest.raises(ParameterError, match=r"radius=1\.0"):
        Change("box", 1.0)


def test_errors_are_value_errors_too():
    with pytest.raises(ValueError, match="epsilon"):
        Guarantee(epsilon=-1)
    assert issubclass(ParameterError, SfumatoError)


def test_the_description_says_what_is_protected():
    text = Guarantee(epsilon=1.0, delta=1e-6, unit="record", change=Change.l2(2.0), group=3).describe()
    for part in ("at most 3", "e^1 = 2.718", "1e-06", "2.0 in Euclidean length", "known or reused"):
        assert part in text
    assert "drawn after" in Guarantee(epsilon=1, delta=1e-6, change=Change.l2(1.0), projection="fresh").describe()


def test_public_names_resolve_and_others_do_not():
    assert sfumato.Guarantee is Guarantee
    assert set(dir(sfumato)) >= set(sfumato.__all__)
    with pytest.raises(AttributeError, match="gurantee"):
        _ = sfumato.gurantee
