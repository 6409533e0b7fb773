"""Audits on schemas that mix all kinds of columns: honest mechanisms are not refuted, broken twins are."""

import pytest

from sfumato.audit.cases import audit
from sfumato.audit.examine import Effort
from sfumato.mechanisms.components import Components
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.distances import NoisyDistances
from sfumato.mechanisms.histogram import Histogram
from sfumato.mechanisms.sketch import Sketch
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.privacy.guarantee import Guarantee
from sfumato.tables.schema import Schema
from tests.support.all_kinds import LEVELS, PLAIN, SCHEMAS
from tests.support.twins import ErringEffort, share_of_the_noise

COUNTED = Schema(LEVELS[:6], scale="bounds")
FEW = Schema((LEVELS[0], PLAIN[7], PLAIN[9], LEVELS[5]), scale="bounds")
VALUE, RECORD = {"unit": "attribute"}, {"delta": 0.01}
CASES = {
    "sketch": (Sketch(), SCHEMAS["levels"], VALUE),
    "sketch of raw columns": (Sketch(dimension=3, projection="gaussian", seed=1), SCHEMAS["levels, raw"], VALUE),
    "sketch of records": (Sketch(noise="gaussian"), SCHEMAS["plain"], RECORD),
    "components": (Components(dimension=1, noise="gaussian"), FEW, RECORD),
    "distances": (NoisyDistances(), FEW, RECORD),
    "covariance": (Covariance(noise="laplace"), FEW, {"neighbours": "add-remove"}),
    "histogram": (Histogram((("real", "date"), ("integer",))), COUNTED, RECORD),
    "synthetic": (Synthetic(dimension=2, noise="gaussian", seed=1), FEW, RECORD),
}


SLOW = ("components", "synthetic")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CASES])
def test_an_honest_mechanism_is_not_refuted_and_one_with_a_fifth_of_the_noise_is(name):
    mechanism, schema, promise = CASES[name]
    guarantee, effort = Guarantee(epsilon=1.0, **promise), {"samples": 20_000, "seconds": 20.0, "seed": 3}
    honest = audit(mechanism, schema=schema, guarantee=guarantee, effort=Effort(**effort))
    assert not honest.refuted
    broken = audit(
        mechanism, schema=schema, guarantee=guarantee, effort=ErringEffort(words=share_of_the_noise(0.2), **effort)
    )
    assert broken.bound.epsilon > honest.bound.epsilon
    assert broken.refuted
