"""Sums of releases of several owners: numbers, laws of noise, promises, refusals, and intervals that cover."""

import math
from dataclasses import replace
from importlib import resources

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy

import sfumato as sf
from sfumato.audit.block_rows import Copies
from sfumato.cli import main
from sfumato.errors import ParameterError, ReleaseError
from sfumato.estimation.covariances import Noisy, kept, laplace_sum_tail
from sfumato.estimation.summed_noise import SummedLaw
from sfumato.fileformat.plain_words import summary
from sfumato.intervals.additive_noise import mixed_law
from sfumato.owners.several import several
from sfumato.owners.summed import different_promises
from sfumato.randomness.secret import Secret
from support.evidence import agrees
from support.forging import reseal
from support.spaces import PARTS, SPACE
from support.spaces import people as in_space

SCHEMA = sf.Schema([sf.Real("a", 0, 10), sf.Integer("b", 0, 20), sf.Category("c", ["x", "y"])])
MIXED = ("gaussian", "laplace", "laplace", "gaussian")
EPSILONS = (1.0, 0.5, 2.0, 1.5)


def table(owner, rows=50):
    luck = np.random.default_rng(owner)
    return pa.table(
        {"a": luck.uniform(0, 10, rows), "b": luck.integers(0, 21, rows), "c": luck.choice(["x", "y"], rows)}
    )


def made(recipe, owner, noise, *, epsilon=1.0, neighbours="replace", seed=0, schema=SCHEMA, **more):
    promise = sf.Guarantee(epsilon=epsilon, delta=1e-6 if noise == "gaussian" else 0.0, neighbours=neighbours, **more)
    rows, secret = table(owner, 900 + owner), Secret.for_testing(1000 * seed + owner)
    return sf.release(rows, schema=schema, mechanism=recipe(noise=noise), guarantee=promise, secret=secret)


def owners(recipe, noises=MIXED, times=1.0, **more):
    chosen = zip(noises, EPSILONS, strict=False)
    return [
        made(recipe, owner, noise, epsilon=times * epsilon, **more) for owner, (noise, epsilon) in enumerate(chosen)
    ]


KINDS = [sf.Covariance, sf.Histogram]
NOISES = [MIXED, ("gaussian",) * 3, ("laplace",) * 3]


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("noises", NOISES)
@pytest.mark.parametrize("recipe", KINDS)
def test_a_sum_is_an_ordinary_release_of_all_rows(recipe, noises, neighbours, tmp_path):
    parts = owners(recipe, noises, neighbours=neighbours)
    found = sf.add(parts)
    assert type(found) is type(parts[0])
    assert (found.columns == sum(part.columns for part in parts)).all()
    deviations = [part.manifest["mechanism"]["standard_deviation"] for part in parts]
    assert ("rows" in found.manifest) == (neighbours == "replace")
    if recipe is sf.Covariance:
        assert found.manifest["mechanism"]["standard_deviation"] == pytest.approx(math.hypot(*deviations))
    if neighbours == "replace":
        assert found.rows == sum(part.rows for part in parts)
    assert found.guarantee.epsilon == max(part.guarantee.epsilon for part in parts)
    assert found.guarantee.delta == max(part.guarantee.delta for part in parts)
    assert found.manifest["several"] == several([part.manifest for part in parts])
    assert len({owner["digest"] for owner in found.manifest["owners"]}) == len(parts)
    found.save(tmp_path / "sum.release")
    again = sf.load(tmp_path / "sum.release", allow_unprotected=True)
    assert (again.columns == found.columns).all()
    assert "It is a sum of" in (tmp_path / "sum.release" / "README.txt").read_text()
    assert "test noise" in " ".join(again.manifest["warnings"])
    assert not again.manifest["protected"]


@pytest.mark.parametrize("recipe", KINDS)
def test_sums_of_sums_are_the_sum(recipe):
    parts = owners(recipe)
    whole, nested = sf.add(parts), sf.add([sf.add(parts[:2]), sf.add(parts[2:])])
    assert nested.columns == pytest.approx(whole.columns)
    assert nested.manifest["owners"] == whole.manifest["owners"]
    one, two = (release.manifest["mechanism"] for release in (whole, nested))
    assert one["standard_deviation"] == pytest.approx(two["standard_deviation"])
    assert one["noise"] == two["noise"] == "sum"
    assert nested.manifest["several"]["epsilon"] >= whole.manifest["several"]["epsilon"] * (1 - 1e-9)


def test_what_does_not_fit_is_refused_by_what_differs():
    parts = owners(sf.Covariance, ("laplace", "laplace"))
    other = sf.Schema([sf.Real("a", 0, 11), *SCHEMA.columns[1:]])
    wrong = {
        "high": made(sf.Covariance, 3, "laplace", schema=other),
        "neighbours": made(sf.Covariance, 3, "laplace", neighbours="add-remove"),
        "group": made(sf.Covariance, 3, "laplace", group=2),
        "unit": made(sf.Covariance, 3, "laplace", unit="attribute"),
        "one kind": made(sf.Histogram, 3, "laplace"),
        "about the mean": made(lambda noise: sf.Covariance(noise=noise, centred=False), 3, "laplace"),
    }
    for words, release in wrong.items():
        with pytest.raises(ReleaseError, match=words):
            sf.add([*parts, release])
    sketch = made(lambda noise: sf.Covariance(noise=noise and "sketch", rows=5), 3, "gaussian")
    with pytest.raises(ReleaseError, match="does not add up"):
        sf.add([sketch, sketch])
    with pytest.raises(ReleaseError, match="tables and their cells"):
        sf.add(
            [made(sf.Histogram, 1, "laplace"), made(lambda noise: sf.Histogram((("a",),), noise=noise), 2, "laplace")]
        )


@pytest.mark.parametrize(
    ("bins", "said"),
    [
        ({"a": 12}, "they differ in: tables and their cells: a in 10 cells and in 12"),
        ({"a": [1, 2, 3, 4, 5, 6, 7, 8, 9.5]}, "cells: a in 10 cells, cut at different places"),
    ],
)
def test_cells_that_differ_are_told_by_the_first_column_that_does(bins, said):
    def counted(bins):
        return lambda noise: sf.Histogram((("a",),), noise=noise, bins=bins)

    parts = [made(counted({"a": 10}), 1, "laplace"), made(counted(bins), 2, "laplace")]
    with pytest.raises(ReleaseError, match=f"{said}$"):
        sf.add(parts)


@pytest.mark.parametrize("recipe", KINDS)
def test_owners_of_as_many_rows_add_up_before_they_are_saved(recipe):
    """In memory, releases with the same settings and numbers of rows have the same digest."""
    promise = sf.Guarantee(epsilon=1.0, delta=1e-6)
    parts = [sf.release(table(k), schema=SCHEMA, mechanism=recipe(), guarantee=promise) for k in range(4)]
    found = sf.add([sf.add(parts[:2]), sf.add(parts[2:])])
    assert (found.columns == sum(part.columns for part in parts)).all()
    assert len({owner["digest"] for owner in found.manifest["owners"]}) == len(parts)
    with pytest.raises(ReleaseError, match="twice"):
        sf.add([found, parts[3]])


def test_a_sum_names_the_releases_that_were_saved(tmp_path):
    saved = []
    for part in owners(sf.Histogram):
        part.save(tmp_path / f"{len(saved)}.release")
        saved.append(sf.load(tmp_path / f"{len(saved)}.release", allow_unprotected=True))
    found = sf.add(saved).manifest["owners"]
    assert [owner["digest"] for owner in found] == [one.manifest["digest"] for one in saved]


def test_no_release_is_added_twice():
    parts = owners(sf.Histogram)
    for again in ([parts[0], parts[1], parts[0]], [sf.add(parts[:2]), parts[1]]):
        with pytest.raises(ReleaseError, match="twice"):
            sf.add(again)


def test_owners_in_memory_with_one_promise_and_as_many_rows_add_up(tmp_path):
    """Their manifests are equal: what tells them apart is their numbers."""
    promise = sf.Guarantee(epsilon=1.0, neighbours="add-remove")
    parts = [sf.release(table(place), schema=SCHEMA, mechanism=sf.Histogram(), guarantee=promise) for place in range(3)]
    whole = sf.add(parts)
    whole.save(tmp_path / "sum.release")
    assert len(sf.load(tmp_path / "sum.release").manifest["owners"]) == 3
    for again in ([parts[0], parts[1], parts[0]], [whole, parts[2]]):
        with pytest.raises(ReleaseError, match="twice"):
            sf.add(again)


def test_periods_of_one_stream_are_not_added(tmp_path):
    """Their running sums hold the same records, and share noise."""
    promise = sf.Guarantee(epsilon=1.0, delta=1e-6)
    stream = sf.Stream.init(tmp_path / "a.stream", schema=SCHEMA, guarantee=promise, horizon=4)
    for place in range(2):
        stream.append(table(place), period=str(place))
    first, second = stream.release("0"), stream.release("1")
    other = sf.release(table(3), schema=SCHEMA, mechanism=sf.Covariance(), guarantee=promise)
    both = sf.add([first, other])
    both.save(tmp_path / "sum.release")
    for again in ([first, second], [both, second], [sf.load(tmp_path / "sum.release"), second]):
        with pytest.raises(ReleaseError, match="of one stream"):
            sf.add(again)


def test_a_mapping_from_names_adds_up_as_a_list_does(tmp_path):
    one, two = owners(sf.Histogram)[:2]
    one.save(tmp_path / "one.release")
    assert (sf.add({"hill": one, "lake": two}).columns == sf.add([one, two]).columns).all()
    with pytest.raises(ReleaseError, match="test noise"):  # folders are loaded
        sf.add({"hill": tmp_path / "one.release", "lake": two})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"unit": "attribute"}, "one protects whole records, the other protects single values"),
        ({"neighbours": "add-remove"}, "one shows the number of rows, the other protects the number of rows"),
        ({"group": 2}, "one protects one row of a person, the other protects 2 rows of a person"),
        ({"change": sf.Change.l2(0.5)}, "the other protects a change of a row by at most 0.5 in Euclidean length"),
    ],
)
def test_promises_that_differ_are_told_in_words(change, words):
    promises = sf.Guarantee(epsilon=1.0), sf.Guarantee(epsilon=1.0, **change)
    (found,) = different_promises(*(promise.to_dict() for promise in promises))
    assert words in found
    assert "{" not in found


@pytest.mark.parametrize("given", ["one.release", 3, [], [3], {}])
def test_what_is_no_list_of_releases_is_refused(given):
    with pytest.raises(ParameterError):
        sf.add(given)


def test_one_release_alone_is_no_sum():
    with pytest.raises(ParameterError, match="two or more"):
        sf.add(owners(sf.Histogram)[:1])


def test_a_sum_that_contradicts_itself_is_not_loaded(tmp_path):
    path = tmp_path / "sum.release"
    sf.add(owners(sf.Histogram)).save(path)
    honest = sf.load(path, allow_unprotected=True).manifest
    first = honest["owners"][0]
    for change in (
        {"rows": honest["rows"] + 1},
        {"several": honest["several"] | {"epsilon": 0.1, "delta": 0.5}},
        {"several": honest["several"] | {"epsilon": 0.1}},
        {"several": honest["several"] | {"unit": "attribute"}},
        {"several": honest["several"] | {"record": {"epsilon": 50.0, "delta": 0.1}}},
        {"several": {name: honest["several"][name] for name in ("epsilon", "delta")}},
        {"guarantee": dict(honest["guarantee"]) | {"epsilon": 0.1}},
        {"guarantee": dict(honest["guarantee"]) | {"delta": 0.0}},
        {"owners": [first, first, *honest["owners"][2:]]},
        {"owners": [first]},
        {"mechanism": dict(honest["mechanism"]) | {"standard_deviation": 1.0}},
        {"mechanism": dict(honest["mechanism"]) | {"noise": "laplace"}},
    ):
        reseal(path, **change)
        with pytest.raises(ReleaseError, match=r"contradicts|form of a manifest"):
            sf.load(path, allow_unprotected=True)
        reseal(path, **{key: value for key, value in honest.items() if key not in ("files", "digest")})
    sf.load(path, allow_unprotected=True)


def test_a_sum_of_owners_with_very_different_deltas_is_loaded_again(tmp_path):
    """At the sum of their deltas all together may cost less epsilon than one of them says at its own."""
    promises = sf.Guarantee(epsilon=1.0, delta=1e-9), sf.Guarantee(epsilon=0.001, delta=0.01)
    parts = [
        sf.release(table(place), schema=SCHEMA, mechanism=sf.Covariance(noise="gaussian"), guarantee=promise)
        for place, promise in enumerate(promises)
    ]
    whole = sf.add(parts)
    assert several([part.manifest for part in parts])["epsilon"] < 1.0 == whole.manifest["several"]["epsilon"]
    whole.save(tmp_path / "sum.release")
    assert sf.load(tmp_path / "sum.release").manifest["several"] == whole.manifest["several"]


def test_the_command_adds_folders(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    promise = sf.Guarantee(epsilon=1.0)
    for owner in (1, 2):
        sf.release(table(owner), schema=SCHEMA, mechanism="histogram", guarantee=promise).save(f"{owner}.release")
    assert main(["add", "1.release", "2.release", "--out", "sum.release"]) == 0
    assert "It is a sum of 2 releases" in capsys.readouterr().out
    assert sf.load("sum.release").rows == 100
    assert main(["estimate", "count", "sum.release", "b >= 10"]) == 0
    assert main(["add", "1.release", "2.release", "--out", "sum.release"]) == 2
    assert main(["add", "1.release", "1.release", "--out", "other.release"]) == 2
    assert main(["report", "sum.release", "--out", "sum.html"]) == 0
    assert "It is a sum of 2 releases" in (tmp_path / "sum.html").read_text()


# ---- laws -----------------------------------------------------------------------------------------------------------


def drawn(terms, count, seed=1):
    luck = np.random.default_rng(seed)
    found = np.zeros(count)
    for law, scale, many in terms:
        for _ in range(many):
            found += np.rint(luck.laplace(0, scale, count) if law == "laplace" else luck.normal(0, scale, count))
    return found


TERMS = [
    [("gaussian", 9.0, 1), ("laplace", 4.0, 2)],
    [("laplace", 3.0, 1), ("laplace", 20.0, 1)],
    [("gaussian", 30.0, 1), ("laplace", 5.0, 1)],
    [("laplace", 2.0, 40), ("gaussian", 1.0, 3)],
]


@pytest.mark.parametrize("terms", TERMS)
def test_the_law_of_a_summed_count_is_that_of_its_noises(terms):
    by_law = {law: [(1.0, n, s) for kind, s, n in terms if kind == law] for law in ("laplace", "gaussian")}
    law, seen = mixed_law(by_law), drawn(terms, 200_000)
    assert agrees(seen**2, law.scale**2)
    for tail in (0.2, 0.05, 0.025, 0.005):
        place = float(law.tail(np.array(tail), 1))
        rounded = np.floor(place) + 0.5 if place % 1 < 0.5 else np.ceil(place) + 0.5
        beyond = np.mean(np.abs(seen) > rounded) / 2
        assert abs(beyond - tail) <= 0.06 * tail + 6.1 * math.sqrt(tail / seen.size) + 0.5 / law.scale / 8
        short = np.mean(np.abs(seen) > 0.85 * rounded) / 2
        assert short > tail * 1.1  # the same check would see a law that is too narrow
    assert law.tail(np.array(1e-9), 1) > law.tail(np.array(1e-7), 1)


@pytest.mark.parametrize("terms", TERMS)
def test_the_noise_of_a_summed_covariance_has_these_moments(terms):
    law = SummedLaw.of(terms)
    diagonal = np.arange(400_000) < 200_000
    noise = law.drawn(np.random.default_rng(2), diagonal)
    on, off = noise[diagonal], noise[~diagonal]
    assert agrees(on**2, law.variance)
    assert agrees(off**2, law.variance * law.off)
    assert agrees((off / off.std()) ** 4, 3 + 3 / law.alike)
    assert not agrees(on**2, law.variance * 1.1)
    for tail in (0.1, 0.025, 0.005):
        reach = laplace_sum_tail(tail, law.alike) * law.scale * math.sqrt(law.off)
        missed = np.mean(np.abs(off) > reach) / 2
        assert missed <= tail * 1.04 + 6.1 * math.sqrt(tail / off.size)
        assert missed >= tail * 0.85


def test_one_law_alone_is_what_it_was():
    values, mask = np.arange(9.0), kept(3, centred=False, counted=False)
    assert mask.sum() <= 9
    for count in (1, 7):
        law = SummedLaw.of([("laplace", 2.0, count)])
        assert law.alike == pytest.approx(count)
        assert (law.off, law.variance) == (1.0, pytest.approx(8.0 * count))
    view = Noisy(values[: mask.sum()], 3, SummedLaw.of([("laplace", 2.0, 1)]), 1.0, False, 100)
    plain = Noisy(values[: mask.sum()], 3, sf_law("laplace", 2.0 * math.sqrt(2)), 1.0, False, 100)
    one, two = (np.eye(3)[0], np.eye(3)[1])
    assert view.form(one, two) == pytest.approx(plain.form(one, two))
    assert view.quantile(0.025, 1.0) == pytest.approx(plain.quantile(0.025, 1.0))


def sf_law(kind, scale):
    from sfumato.intervals.moments import NoiseLaw  # noqa: PLC0415 - for one test

    return NoiseLaw(kind, scale)


# ---- coverage -------------------------------------------------------------------------------------------------------


def noisy_again(recipe, noises):
    """The sum of releases, and the same with new noise on the exact sums, again and again."""
    parts = owners(recipe, noises, times=8.0)
    found, exact, scales = sf.add(parts), 0.0, []
    for owner, (noise, release) in enumerate(zip(noises, parts, strict=True)):
        prepared = recipe(noise=noise).prepare(SCHEMA, release.guarantee)
        (batch,) = table(owner, 900 + owner).combine_chunks().to_batches()
        exact = exact + prepared.exact(Copies(SCHEMA.encode(batch))) * prepared.unit
        scales.append((noise, release.manifest["mechanism"]["scale"] * prepared.deviations, prepared.unit))
    luck = np.random.default_rng(3)

    def again():
        drawn = [luck.laplace(0, s) if noise == "laplace" else luck.normal(0, s) for noise, s, _ in scales]
        on_grid = [np.rint(d / unit) * unit for d, (_, _, unit) in zip(drawn, scales, strict=True)]
        return replace(found, columns=(exact + sum(on_grid))[None])

    frame = pa.concat_tables([table(owner, 900 + owner) for owner in range(len(noises))]).to_pandas()
    return again, frame


@pytest.mark.parametrize("noises", NOISES)
def test_the_intervals_of_summed_counts_cover(noises):
    again, frame = noisy_again(sf.Histogram, noises)
    hits, short = [], []
    exact = np.bincount(frame.b, minlength=21)
    for _ in range(25):
        counts = again().counts("b", level=0.95)
        value, error, low, high = (np.asarray(counts.column(place)) for place in range(1, 5))
        hits += ((low <= exact) & (exact <= high)).tolist()
        short += (np.abs(exact - value) <= 0.75 * 1.96 * error).tolist()
    error = math.sqrt(0.95 * 0.05 / len(hits))
    assert np.mean(hits) >= 0.95 - 6.1 * error
    assert np.mean(short) < 0.95 - 3 * error  # bars that are a quarter too short would be seen


@pytest.mark.parametrize("noises", NOISES)
def test_the_intervals_of_summed_variances_cover(noises):
    again, frame = noisy_again(sf.Covariance, noises)
    hits, scores = [], []
    for _ in range(400):
        found = again()
        for name in ("a", "b"):
            estimate, exact = found.variance(name), frame[name].var(ddof=0)
            low, high = estimate.interval(0.95)
            hits.append(low <= exact <= high)
            scores.append((estimate.uncut - exact) / estimate.standard_error)
    error = math.sqrt(0.95 * 0.05 / len(hits))
    assert np.mean(hits) >= 0.95 - 6.1 * error
    assert agrees(np.square(scores), 1.0)
    assert not agrees(np.square(scores) / 0.25, 1.0)  # bars that are half as long would be seen
    assert found.covariance(repair=False).values.shape == (4, 4)


# ---- different columns of the same records --------------------------------------------------------------------------


def part(columns, noise, rows=60, seed=0, data_seed=1, epsilon=20.0, space=SPACE, **more):
    promise = sf.Guarantee(epsilon=epsilon, delta=1e-6 if noise == "gaussian" else 0.0, **more)
    recipe = sf.Sketch(space=space, columns=columns, noise=noise)
    secret = Secret.for_testing(7 * seed + len(columns))
    return sf.release(in_space(rows, data_seed), mechanism=recipe, guarantee=promise, secret=secret)


@pytest.mark.parametrize("noises", [("gaussian", "gaussian"), ("laplace", "laplace"), ("gaussian", "laplace")])
def test_sketches_of_different_columns_add_to_that_of_the_record(noises, tmp_path):
    parts = [part(columns, noise, epsilon=e) for columns, noise, e in zip(PARTS, noises, (20.0, 5.0), strict=True)]
    found = sf.add(parts[::-1])
    assert (found.columns == parts[0].columns + parts[1].columns).all()
    rows = in_space()
    images = [release.transform(rows) for release in parts]
    assert found.transform(rows) == pytest.approx(images[0] + images[1], abs=1e-12)
    whole = sf.release(rows, mechanism=sf.Sketch(space=SPACE), guarantee=sf.Guarantee(epsilon=1.0))
    assert (_dense(found.projection) == _dense(whole.projection)).all()
    assert found.schema == whole.schema
    assert found.manifest["space"] == whole.manifest["space"]
    deviations = [release.manifest["mechanism"]["standard_deviation"] for release in parts]
    assert found.noise.scale == pytest.approx(math.hypot(*deviations))
    assert found.noise.kind == ("gaussian" if noises == ("gaussian", "gaussian") else "laplace")
    assert found.manifest["several"] == several([release.manifest for release in parts[::-1]])
    assert found.guarantee.epsilon == found.manifest["several"]["epsilon"] > 20
    found.save(tmp_path / "sum.release")
    again = sf.load(tmp_path / "sum.release", allow_unprotected=True)
    assert (again.columns == found.columns).all()
    assert again.ids.equals(parts[0].ids)
    assert "different columns of the same records" in (tmp_path / "sum.release" / "README.txt").read_text()


def _dense(matrix):
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def test_one_value_is_with_one_owner():
    parts = [
        part(columns, "laplace", epsilon=e, unit="attribute") for columns, e in zip(PARTS, (3.0, 5.0), strict=True)
    ]
    found = sf.add(parts)
    assert found.guarantee.epsilon == 5.0
    values = [len(columns) for columns in PARTS]
    whole = 3.0 * values[0] + 5.0 * values[1]
    record = {"epsilon": whole, "delta": 0.0}
    assert found.manifest["several"] == {"epsilon": 5.0, "delta": 0.0, "unit": "attribute", "record": record}
    assert f"up to epsilon 5 for one value, epsilon {whole:g} for the whole record." in summary(found.manifest)


@pytest.mark.parametrize("unit", ["attribute", "record"])
def test_a_composed_loss_of_single_values_is_not_said_to_be_of_a_whole_record(unit):
    """Owners who protect values promise less of all values of a record together, and both is said."""
    parts = [part(columns, "laplace", epsilon=3.0, unit=unit) for columns in PARTS]
    promise, recipe = sf.Guarantee(epsilon=3.0, unit=unit), sf.Sketch(space=SPACE)
    whole = [sf.release(in_space(40), mechanism=recipe, guarantee=promise) for _ in range(2)]
    for told in (summary(sf.add(parts).manifest), sf.join(whole).describe()):
        assert ("for one value" in told) == (unit == "attribute")
        assert "whole record" in told


def test_columns_that_nobody_holds_are_said():
    found = sf.add([part(("age",), "gaussian"), part(("smoker", "income"), "gaussian")])
    assert found.manifest["space"]["columns"] == ["age", "smoker", "income"]
    assert "left out: city, place" in " ".join(found.manifest["warnings"])
    assert found.projection.shape[0] == 3


def test_columns_that_do_not_fit_are_refused():
    good = part(PARTS[0], "gaussian")
    other = sf.Space(SPACE.schema, dimension=5, seed=8)
    for words, wrong in {
        "hold the column 'city'": part(("city", "income"), "gaussian"),
        "different spaces: .*seed": part(PARTS[1], "gaussian", space=other),
        "60 and 61|rows": part(PARTS[1], "gaussian", rows=61),
        "neighbours|unit": part(PARTS[1], "gaussian", unit="attribute"),
        "one kind": made(sf.Histogram, 1, "gaussian"),
        "all columns": sf.release(in_space(), mechanism=sf.Sketch(space=SPACE), guarantee=good.guarantee),
        "names none": sf.release(in_space(), schema=SPACE.schema, mechanism=sf.Sketch(), guarantee=good.guarantee),
    }.items():
        with pytest.raises(ReleaseError, match=words):
            sf.add([good, wrong])


def test_ids_must_be_the_same():
    good = part(PARTS[0], "gaussian")
    turned = in_space().take(pa.array(np.arange(60)[::-1]))
    recipe = sf.Sketch(space=SPACE, columns=PARTS[1], noise="gaussian")
    wrong = sf.release(turned, mechanism=recipe, guarantee=good.guarantee)
    with pytest.raises(ReleaseError, match="ids"):
        sf.add([good, wrong])


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_distances_of_summed_sketches_are_covered(noise):
    identity = sf.Space(SPACE.schema, "identity", seed=1)
    rows = in_space(200)
    exact = sf.release(
        rows, mechanism=sf.Sketch(space=identity, noise="laplace"), guarantee=sf.Guarantee(epsilon=1.0)
    ).transform(rows)
    truth = np.square(exact[:100] - exact[100:]).sum(axis=1)
    hits, scores = [], []
    for seed in range(3):
        parts = [
            part(columns, noise, rows=200, seed=seed, epsilon=e, space=identity)
            for columns, e in zip(PARTS, (30.0, 60.0), strict=True)
        ]
        found = sf.add(parts).distances(np.arange(100), np.arange(100, 200))
        low, high = found.interval(0.95)
        hits += ((low <= truth) & (truth <= high)).tolist()
        scores += (found.uncut - truth).tolist()
    error = math.sqrt(0.95 * 0.05 / len(hits))
    assert np.mean(hits) >= 0.95 - 6.1 * error
    assert agrees(np.array(scores), 0.0)
    assert scipy.stats.kurtosis(scores) < 20


# ---- real data ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_counts_of_adult_cut_into_ten_owners_are_covered(noise):
    folder = resources.files("sfumato") / "data"
    data, schema = pq.read_table(folder / "adult.parquet"), sf.Schema.read(str(folder / "adult.toml"))
    luck = np.random.default_rng(1)
    rows = np.split(luck.permutation(data.num_rows), np.sort(luck.integers(1, data.num_rows, 9)))
    tables, hits, short = (("education",), ("sex", "race")), [], []
    for turn in range(30):
        parts = []
        for owner, some in enumerate(rows):
            promise = sf.Guarantee(epsilon=(0.5, 1.0)[owner % 2], delta=1e-6 if noise == "gaussian" else 0.0)
            recipe, secret = sf.Histogram(tables, noise=noise), Secret.for_testing(100 * turn + owner)
            parts.append(
                sf.release(data.take(pa.array(some)), schema=schema, mechanism=recipe, guarantee=promise, secret=secret)
            )
        found = sf.add(parts)
        (batch,) = data.combine_chunks().to_batches()
        exact = found.cells.split(found.cells.counts(schema.encode(batch)))
        for table_of, truth in zip(found.tables, exact, strict=True):
            counts = found.counts(*table_of)
            value, error, low, high = (np.asarray(counts.column(i)) for i in range(-4, 0))
            hits += ((low <= truth) & (truth <= high)).tolist()
            short += (np.abs(value - truth) <= 0.8 * 1.96 * error).tolist()
    spread = math.sqrt(0.95 * 0.05 / len(hits))
    assert abs(np.mean(hits) - 0.95) <= 3 * spread + 0.02  # counts near 0, and whole numbers, are covered more often
    assert np.mean(short) < 0.95 - 3 * spread
    print(noise, np.mean(hits), spread, np.mean(short))  # noqa: T201 - shown by pytest -s
