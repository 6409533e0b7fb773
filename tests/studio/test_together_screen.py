"""Shared spaces in the studio, and several releases taken together."""

import re
from html import unescape

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.histogram import Histogram
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release_to
from sfumato.privacy.guarantee import Guarantee
from sfumato.projection.space import Space
from sfumato.releases.release import load
from sfumato.studio import together_screen
from support.forms import untouched
from support.visiting import SCHEMA, Visitor, make_studio, write_people

PROMISE = Guarantee(epsilon=2.0, delta=1e-6)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "data"
    made.mkdir()
    write_people(made)
    return made


@pytest.fixture
def visitor(folder):
    return Visitor(make_studio(folder))


def words(text):
    """What a page shows, as plain text."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def people(rows, seed):
    rng = np.random.default_rng(seed)
    town = rng.choice(["Bern", "Basel"], rows)
    return pa.table({"age": rng.uniform(0, 120, rows), "smoker": rng.random(rows) < 0.5, "city": town})


def released(folder, name, recipe, *, rows=30, seed=0, schema=None, promise=PROMISE):
    release_to(folder / name, people(rows, seed), schema=schema, mechanism=recipe, guarantee=promise)
    return name


def asked(visitor, names, **fields):
    query = "&".join([*(f"name={name}" for name in names), *(f"{key}={value}" for key, value in fields.items())])
    return visitor.get(f"/together?{query}")


# ---- spaces ----------------------------------------------------------------------------------------------------------


def test_a_space_is_made_from_a_schema_and_listed_with_its_digest(visitor, folder):
    form = untouched(visitor.get("/spaces").text, "/spaces/new") | {"name": "cohort", "dimension": "3"}
    made = visitor.send("/spaces/new", form)
    assert made.headers["location"] == "/spaces?made=cohort.space"
    space = Space.read(folder / "cohort.space")
    assert (space.dimension, space.schema.columns) == (3, SCHEMA.columns)
    text = words(visitor.get("/spaces?made=cohort.space").text)
    assert f"cohort.space 3 3 sparse {space.digest[:12]}" in text
    again = visitor.send("/spaces/new", form)
    assert again.status_code == 422
    assert "is there already" in again.text
    assert Space.read(folder / "cohort.space") == space


@pytest.mark.parametrize("fields", [{"schema": ""}, {"dimension": "-1"}, {"name": "../x"}, {"family": "none"}])
def test_a_form_that_describes_no_space_says_why(visitor, folder, fields):
    form = untouched(visitor.get("/spaces").text, "/spaces/new") | {"name": "cohort", "dimension": "3"} | fields
    refused = visitor.send("/spaces/new", form)
    assert refused.status_code in (404, 422)
    assert list(folder.glob("*.space")) == []
    assert str(folder) not in refused.text


def test_a_file_that_is_no_space_is_told_and_harmless(visitor, folder):
    (folder / "odd.space").write_text('{"format": "sfumato-space", "<b>": 1}')
    text = visitor.get("/spaces").text
    assert "odd.space" in text
    assert "cannot be read" in text
    assert str(folder) not in text


@pytest.mark.parametrize("mechanism", ["sketch", "covariance", "histogram"])
def test_a_release_in_a_space_takes_schema_and_projection_from_it(visitor, folder, mechanism):
    space = Space(SCHEMA, dimension=2, seed=5)
    space.save(folder / "cohort.space")
    (folder / "people.toml").unlink()  # the space has a schema
    form = untouched(visitor.get("/release").text, "/release/price")
    form |= {"data": "people.csv", "mechanism": mechanism, "space": "cohort.space", "name": "in.release", "dataset": ""}
    priced = words(visitor.send("/release/price", form).text)
    assert f"cohort.space, digest {space.digest[:12]}" in priced
    assert "the promise is for a fixed projection" in priced
    assert ("Hopeless at" in priced) == (mechanism == "sketch")  # at epsilon 1, and only sketches are planned
    assert visitor.release(form, anyway="yes")["state"] == "done"
    made = load(folder / "in.release")
    assert made.manifest["space"]["digest"] == space.digest
    assert made.manifest["guarantee"]["projection"] == "fixed"
    assert "Other owners" in visitor.get("/release/made/in.release/report").text


def test_an_owner_of_some_columns_releases_its_part_of_a_space(visitor, folder):
    Space(SCHEMA, dimension=2, seed=5).save(folder / "cohort.space")
    form = untouched(visitor.get("/release").text, "/release/price")
    form |= {"data": "people.csv", "mechanism": "sketch", "space": "cohort.space", "columns": "age, smoker"}
    form |= {"name": "part.release", "dataset": "", "epsilon": "50"}
    assert visitor.release(form, anyway="yes")["state"] == "done"
    assert load(folder / "part.release").manifest["space"]["columns"] == ["age", "smoker"]
    wrong = visitor.send("/release/price", form | {"columns": "agee"})
    assert wrong.status_code == 422
    assert "agee" in wrong.text


def test_a_histogram_is_released_with_the_tables_that_were_typed_and_explored(visitor, folder):
    form = untouched(visitor.get("/release").text, "/release/price")
    form |= {"data": "people.csv", "mechanism": "histogram", "tables": "city; smoker, city", "name": "h.release"}
    assert visitor.release(form | {"dataset": ""})["state"] == "done"
    assert load(folder / "h.release").tables == (("city",), ("smoker", "city"))
    text = words(visitor.get("/explore/h.release?question=counts&table=smoker+and+city").text)
    assert "Noisy counts of smoker and city, in 6 cells." in text


# ---- together --------------------------------------------------------------------------------------------------------


@pytest.fixture
def clinics(folder):
    space = Space(SCHEMA, dimension=4, seed=3)
    return [
        released(folder, f"{name}.release", Sketch(space=space, noise="gaussian"), seed=seed, promise=promise)
        for name, seed, promise in (("north", 1, PROMISE), ("south", 2, Guarantee(epsilon=4.0, delta=1e-6)))
    ]


def test_sketches_of_one_space_are_compared_across_owners(visitor, clinics):
    assert all(f'name="name" value="{name}"' in visitor.get("/explore").text for name in clinics)
    page = words(asked(visitor, clinics).text)
    assert "2 owners with 60 records in the shared space" in page
    assert "north 30 2" in page
    assert "south 30 4" in page
    assert re.search(r"loses what their releases cost together: epsilon [4-6]", page)
    told = words(asked(visitor, clinics, question="distance", owner="north", record=3, other="south", another=5).text)
    assert "The squared distance of record 3 of north and record 5 of south is about" in told
    told = words(asked(visitor, clinics, question="nearest", owner="north", record=3, among="south", k=4).text)
    assert "The 4 records of south that look nearest to record 3 of north" in told
    assert len(re.findall(r"south, \d+ [-0-9]", told)) == 4
    same = asked(visitor, clinics, question="distance", owner="north", record=3, other="north", another=3)
    assert "give another record than the first" in same.text
    wrong = asked(visitor, clinics, question="distance", record=30)
    assert "from 0 to 29" in wrong.text


def test_two_owners_with_enough_records_are_linked(visitor, folder):
    space = Space(SCHEMA)
    names = [
        released(folder, f"{name}.release", Sketch(space=space), rows=120, promise=Guarantee(epsilon=50.0))
        for name in ("one", "two")
    ]
    told = words(asked(visitor, names, question="links", share=0.5).text)
    assert re.search(r"\d+ links, of which \d+\.\d% are estimated to be false. At least about \d+ records", told)
    told = words(asked(visitor, names, question="links", share=0).text)
    assert re.search(r"No links at 0%\. At this noise .* with both owners\. At 10%: \d+ links; at 20%: \d+\.", told)
    assert "Somebody who is with both owners loses" in told


def test_spaces_that_differ_are_refused_by_what_differs(visitor, folder, clinics):
    other = released(folder, "other.release", Sketch(space=Space(SCHEMA, dimension=2, seed=3), noise="gaussian"))
    refused = asked(visitor, [clinics[0], other])
    assert refused.status_code == 400
    assert "dimension (4 and 2)" in words(refused.text)
    plain = released(folder, "plain.release", Sketch(noise="gaussian", dimension=2), schema=SCHEMA)
    assert "shared space" in words(asked(visitor, [clinics[0], plain]).text)
    counts = released(folder, "counts.release", Histogram(), schema=SCHEMA)
    assert "releases of one kind are taken together, got sketch and histogram" in words(
        asked(visitor, [clinics[0], counts]).text
    )
    assert asked(visitor, clinics[:1]).status_code == 400
    assert asked(visitor, [clinics[0], clinics[0]]).status_code == 400
    assert asked(visitor, [clinics[0], "no.release"]).status_code == 404


@pytest.mark.parametrize(
    ("recipe", "question"),
    [(Covariance(), {"question": "variance", "column": "age"}), (Histogram(), {"question": "counts", "table": "city"})],
)
def test_sums_of_owners_are_asked_and_kept_with_a_report_that_names_them(visitor, folder, recipe, question):
    names = [released(folder, f"{i}.release", recipe, seed=i, schema=SCHEMA) for i in range(3)]
    page = asked(visitor, names, **question)
    assert "The sum of 3 releases" in words(page.text)
    assert 'class="verdict' in page.text
    form = untouched(page.text, "/together/keep")
    kept = visitor.send("/together/keep", form)
    assert kept.headers["location"] == "/release/made/sum.release"
    made = load(folder / "sum.release")
    assert len(made.manifest["owners"]) == 3
    assert "3; somebody who is with all of them loses up to epsilon" in words(made._repr_html_())
    report = words(visitor.get("/release/made/sum.release/report").text)
    assert "The owners" in report
    assert f"loses up to epsilon {made.manifest['several']['epsilon']:.6g}" in report
    assert visitor.send("/together/keep", form).status_code == 404  # its name is taken
    assert visitor.post("/together/keep", form | {"csrf": ""}, {"origin": "http://127.0.0.1:8765"}).status_code == 403


def test_parts_of_the_same_records_add_up(visitor, folder):
    space, table = Space(SCHEMA, dimension=2, seed=5), people(30, 0)
    for name, columns in (("a", ("age",)), ("b", ("smoker", "city"))):
        recipe = Sketch(space=space, columns=columns, noise="gaussian")
        release_to(folder / f"{name}.release", table, mechanism=recipe, guarantee=PROMISE)
    assert "The sum of 2 releases" in words(asked(visitor, ["a.release", "b.release"]).text)
    refused = visitor.send("/together/keep", {"names": "a.release", "release": "x.release"})
    assert refused.status_code == 400


def test_releases_that_are_too_large_together_are_refused(visitor, clinics, monkeypatch):
    monkeypatch.setattr(together_screen, "_MOST_NUMBERS", 200)
    assert "too large for a page" in asked(visitor, clinics).text


def test_a_manifest_that_is_none_is_listed_without_its_kind(visitor, folder):
    (folder / "odd.release").mkdir()
    (folder / "odd.release" / "manifest.json").write_text('{"kind": ["x"], "space": 3}')
    pq.write_table(people(3, 0), folder / "odd.release" / "data.parquet")
    assert "odd.release" in visitor.get("/explore").text
