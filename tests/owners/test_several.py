"""The composed loss of somebody who is with several owners: rebuilt from manifests, never below the truth."""

import math

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.fileformat.owners import loss_words
from sfumato.owners.several import loss_of, owners, several
from sfumato.privacy.losses import Composed, Gaussian, Laplace, Pure
from sfumato.randomness.secret import Secret
from support.sources import MODULES, SOURCE, imported_modules

SCHEMA = sf.Schema([sf.Real("a", 0, 1), sf.Real("b", 0, 1), sf.Real("c", 0, 1)], scale="raw")


def table(rows=6, seed=0):
    return pa.table(dict(zip("abc", np.random.default_rng(seed).random((3, rows)), strict=True)))


def made(recipe, guarantee, seed=0):
    return sf.release(
        table(seed=seed), schema=SCHEMA, mechanism=recipe, guarantee=guarantee, secret=Secret.for_testing(seed)
    ).manifest


def sketch(epsilon, delta, group=1):
    recipe = sf.Sketch(projection="sparse", dimension=2, seed=7, noise="gaussian" if delta else "laplace")
    return made(recipe, sf.Guarantee(epsilon=epsilon, delta=delta, unit="record", group=group))


def test_gaussian_owners_compose_to_one_gaussian():
    manifests = [sketch(1.0, 1e-6), sketch(2.0, 1e-6)]
    found = several(manifests)
    ratios = [m["mechanism"]["sensitivity"] / m["mechanism"]["scale"] for m in manifests]
    exact = Gaussian(math.hypot(*ratios), 1.0)
    assert found["delta"] == 2e-6
    assert exact.delta(found["epsilon"]) <= 2e-6
    assert exact.delta(found["epsilon"] * (1 - 1e-6)) > 2e-6  # and hardly above
    assert 2.0 < found["epsilon"] < 3.0


def test_pure_owners_add_up():
    found = several([sketch(0.1, 0.0)] * 10)
    assert found == {"epsilon": 1.0, "delta": 0.0, "unit": "record"}


def test_pure_owners_at_a_delta_lose_less():
    manifests = [sketch(1.0, 0.0)] * 4
    found = several(manifests, 1e-3)
    assert found["delta"] == 1e-3
    assert found["epsilon"] < 4
    assert Composed([Laplace(1.0, 1.0)] * 4).delta(found["epsilon"]) <= 1e-3


def test_laplace_and_gaussian_together_are_tight():
    manifests = [sketch(1.0, 0.0), sketch(1.0, 1e-5)]
    found = several(manifests)
    parts = [loss_of(manifest) for manifest in manifests]
    assert Composed(parts).delta(found["epsilon"]) <= found["delta"] == 1e-5
    assert found["epsilon"] < 2.0


def test_a_release_without_known_noise_adds_its_promise():
    answers = made(sf.RandomizedResponse(levels=4), sf.Guarantee(epsilon=1.5, unit="record"))
    assert loss_of(answers) is None
    alone, both = several([sketch(1.0, 1e-6)]), several([sketch(1.0, 1e-6), answers])
    assert alone["epsilon"] <= 1.0
    assert both["delta"] == 1e-6
    assert alone["epsilon"] + 1.5 <= both["epsilon"] <= 2.5 * (1 + 1e-12)


def test_promises_with_deltas_keep_them():
    fresh = sf.Guarantee(epsilon=1.0, delta=1e-6, unit="record", change=sf.Change.l2(1.0), projection="fresh")
    drawn = made(sf.Sketch(projection="gaussian", dimension=2, noise="gaussian"), fresh)
    assert loss_of(drawn) is None
    found = several([drawn, sketch(1.0, 1e-6)])
    assert found["delta"] == 2e-6
    assert found["epsilon"] <= 2.0 * (1 + 1e-9)
    assert found["unit"] == "each"  # rows move within a ball with the one, anywhere with the other
    with pytest.raises(sf.ParameterError, match="delta"):
        several([drawn], 1e-7)


@pytest.mark.parametrize("name", ["sensitivity", "scale"])
def test_a_loss_that_breaks_its_promise_is_not_believed(name):
    manifest = sketch(1.0, 1e-6)
    worse = {**manifest, "mechanism": {**manifest["mechanism"], name: manifest["mechanism"][name] * 2}}
    assert (loss_of(worse) is None) == (name == "sensitivity")
    further = {**manifest, "mechanism": {**manifest["mechanism"], "choice": {"epsilon": 0.1, "candidates": [1]}}}
    assert loss_of(further) is None


def test_covariances_count_by_their_noise():
    manifest = made(sf.Covariance(), sf.Guarantee(epsilon=1.0, delta=1e-6, unit="record"))
    assert isinstance(loss_of(manifest), Gaussian)
    assert several([manifest])["epsilon"] <= 1.0 + 1e-9


def test_many_different_owners_are_quick_and_cautious():
    manifests = [sketch(round(0.01 + 0.0001 * i, 6), 0.0) for i in range(80)]
    pure = several(manifests)
    exact = Composed([Pure(m["guarantee"]["epsilon"]) for m in manifests])
    assert exact.delta(pure["epsilon"] * (1 + 1e-12)) == 0.0
    found = several(manifests, 1e-6)
    assert found["epsilon"] < pure["epsilon"]
    losses = [loss_of(manifest) for manifest in manifests]
    assert Composed(losses[::8] * 8).delta(found["epsilon"]) <= 1e-6  # the same losses, coarsened downwards


def test_sums_of_sums_keep_their_owners():
    one, two = sketch(1.0, 1e-6), sketch(2.0, 0.0)
    both = {**one, "owners": owners([one, two]), "several": several([one, two])}
    assert [o["digest"] for o in owners([both, one])] == [m["digest"] for m in (one, two, one)]
    assert owners([one])[0]["rows"] == 6
    assert loss_of(both) is None
    added = several([both, two])
    assert added["epsilon"] >= both["several"]["epsilon"]
    assert several([both])["epsilon"] == both["several"]["epsilon"]


# ---- units ----------------------------------------------------------------------------------------------------------


def values(epsilon, delta=0.0):
    """A sketch that protects single values of three columns."""
    recipe = sf.Sketch(projection="sparse", dimension=2, seed=7, noise="gaussian" if delta else "laplace")
    return made(recipe, sf.Guarantee(epsilon=epsilon, delta=delta, unit="attribute"))


def test_owners_who_protect_values_say_what_a_value_and_what_a_record_costs():
    found = several([values(8.0), values(4.0)])
    assert found == {"epsilon": 12.0, "delta": 0.0, "unit": "attribute", "record": {"epsilon": 36.0, "delta": 0.0}}


def test_of_owners_of_different_columns_one_value_is_with_one():
    found = several([values(8.0), values(4.0)], parts=True)
    assert found == {"epsilon": 8.0, "delta": 0.0, "unit": "attribute", "record": {"epsilon": 36.0, "delta": 0.0}}


def test_a_value_counts_as_often_as_a_record_has_values_beside_owners_who_protect_records():
    found = several([sketch(1.0, 0.0), values(4.0), values(8.0)])
    assert found == {"epsilon": 37.0, "delta": 0.0, "unit": "record"}
    pair = several([sketch(1.0, 0.0, group=2), values(4.0)])  # two records of three values each
    assert pair == {"epsilon": 25.0, "delta": 0.0, "unit": "record"}


def test_gaussian_noise_counts_for_a_record_by_how_far_it_moves():
    manifests = [values(1.0, 1e-6), values(0.5, 1e-6)]
    found = several(manifests)
    moves = [3 * m["mechanism"]["sensitivity"] / m["mechanism"]["scale"] for m in manifests]
    exact = Gaussian(math.hypot(*moves), 1.0)
    assert found["record"]["delta"] == 2e-6
    assert exact.delta(found["record"]["epsilon"]) <= 2e-6 < exact.delta(found["record"]["epsilon"] * (1 - 1e-6))
    assert found["epsilon"] < 1.5
    assert found["record"]["epsilon"] > 3


def test_a_promise_to_values_counts_for_a_record_by_group_privacy():
    answers = made(sf.RandomizedResponse(levels=4), sf.Guarantee(epsilon=1.5, unit="attribute"))
    assert several([answers, sketch(1.0, 0.0)])["epsilon"] == 5.5
    known = values(1.0, 1e-6)
    vague = {**known, "mechanism": {**known["mechanism"], "choice": {"epsilon": 0.1, "candidates": [1]}}}
    record = several([vague])["record"]
    assert record["epsilon"] == 3.0
    assert record["delta"] == pytest.approx(1e-6 * (math.exp(3) - 1) / (math.exp(1) - 1))
    hopeless = {**vague, "guarantee": {**vague["guarantee"], "epsilon": 20.0}}
    assert "record" not in several([hopeless])


def test_without_a_common_unit_each_promise_is_stated_as_it_is():
    assert several([sketch(1.0, 0.0), sketch(1.0, 0.0, group=2)]) == {"epsilon": 2.0, "delta": 0.0, "unit": "each"}
    within = sf.Guarantee(epsilon=1.0, delta=0.0, unit="record", change=sf.Change.l1(1.0))
    ball = made(sf.Sketch(projection="sparse", dimension=2, seed=7, noise="laplace"), within)
    assert several([ball, values(4.0)]) == {"epsilon": 5.0, "delta": 0.0, "unit": "each"}


def test_a_replaced_record_goes_and_comes_where_the_number_of_rows_is_protected():
    shown = made(sf.Histogram((("a",),)), sf.Guarantee(epsilon=1.0, delta=0.0, unit="record"))
    hidden = made(sf.Histogram((("a",),)), sf.Guarantee(epsilon=1.0, delta=0.0, unit="record", neighbours="add-remove"))
    assert several([hidden, hidden])["epsilon"] == 2.0
    assert several([shown, hidden])["epsilon"] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("facts", "parts", "words"),
    [
        (
            {"epsilon": 3.0, "delta": 1e-6, "unit": "record"},
            False,
            "epsilon 3 and delta 1e-06 for a whole record with each",
        ),
        (
            {"epsilon": 12.0, "delta": 0.0, "unit": "attribute", "record": {"epsilon": 36.0, "delta": 0.0}},
            False,
            "epsilon 12 for one value with each, epsilon 36 for a whole record with each",
        ),
        (
            {"epsilon": 8.0, "delta": 0.0, "unit": "attribute", "record": {"epsilon": 36.0, "delta": 0.0}},
            True,
            "epsilon 8 for one value, epsilon 36 for the whole record",
        ),
        ({"epsilon": 9.0, "delta": 0.0, "unit": "attribute"}, True, "for the whole record no epsilon can be stated"),
        ({"epsilon": 5.0, "delta": 0.0, "unit": "each"}, False, "epsilon 5 for one unit of each, as each promises"),
    ],
)
def test_words_say_what_a_composed_loss_is_the_loss_of(facts, parts, words):
    assert words in loss_words(facts, parts=parts)
    assert "2 records of a person" in loss_words({"epsilon": 1.0, "delta": 0.0, "unit": "record"}, 2)


def test_what_analysts_do_with_several_releases_imports_no_mechanism():
    """It must work where nothing can be released: no mechanism, no noise, no secret, no ledger."""
    reached, todo = set(), [module for module in MODULES if module.startswith("owners.")]
    assert len(todo) > 5
    while todo:
        module = todo.pop()
        if module not in reached:
            reached.add(module)
            file = SOURCE / f"{module.replace('.', '/')}.py"
            todo += imported_modules(file.read_text()) if file.exists() else []
    packages = {module.split(".")[0] for module in reached}
    assert packages.isdisjoint({"mechanisms", "answering", "pipeline", "randomness", "ledger", "engines"})
    assert "projection.projection" not in reached


def test_nobody_is_refused():
    with pytest.raises(sf.ParameterError, match="at least one"):
        several([])
