"""The studio in a real browser: every screen's task from end to end, by mouse and by keyboard, wide and narrow.

Needs Chromium; run by make test-browser. With SFUMATO_SCREENSHOTS=1 it writes the pictures of the documents.
"""

import http.server
import os
import re
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.ledger.ledger import Ledger
from sfumato.mechanisms.sketch import Sketch
from sfumato.pipeline.release import release_to
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.units import Cap
from sfumato.projection.space import Space
from sfumato.releases.release import load
from sfumato.studio.frame.jobs import Job
from sfumato.studio.inputs.folder import Folder
from sfumato.studio.server import Server
from sfumato.tables.columns import Category, Flag, Integer, Real
from sfumato.tables.schema import Schema

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium")
if os.environ.get("SFUMATO_NEEDS_BROWSER") == "1":
    import axe_playwright_python
    import playwright.sync_api as api

    assert CHROMIUM, "apt-get install chromium"
else:
    api = pytest.importorskip("playwright.sync_api")
    axe_playwright_python = pytest.importorskip("axe_playwright_python")
    if CHROMIUM is None:
        pytest.skip("needs Chromium", allow_module_level=True)
IMAGES = Path(__file__).parents[2] / "docs" / "images"
QUESTIONS = 20
ROWS = 4 << 16
PEOPLE = 5000
WIDE, PHONE = {"width": 1180, "height": 860}, {"width": 390, "height": 780}
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


@pytest.fixture(scope="module")
def browser():
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def folder(tmp_path):
    """A survey that is described, a clinic that is not, and a ledger for the survey."""
    made = tmp_path / "studies"
    made.mkdir()
    rng = np.random.default_rng(7)
    group = rng.integers(0, 3, ROWS)
    answers = {f"q{i}": np.clip(rng.normal(2 + 3 * ((group + i) % 3), 1.5), 0, 10) for i in range(1, QUESTIONS + 1)}
    pq.write_table(pa.table({"age": rng.uniform(18, 90, ROWS)} | answers), made / "survey.parquet")
    columns = [Real("age", 0, 120, weight=1 / 120), *(Real(name, 0, 10, weight=0.1) for name in answers)]
    Schema(tuple(columns)).write(made / "survey.toml")
    _write_people(made, rng)
    lines = [f"{i},{20 + i},{i % 3 == 0},{'Bern' if i % 2 else 'Basel'}" for i in range(50)]
    (made / "clinic.csv").write_text("\n".join(["patient,age,smoker,town", *lines]) + "\n")
    return made


def _write_people(folder, rng):
    """A table of people, described: what a synthetic table is made of."""
    age = np.clip(rng.normal(42, 16, PEOPLE), 17, 90).round()
    degree = rng.choice(["school", "college", "university"], PEOPLE, p=[0.5, 0.3, 0.2])
    hours = np.clip(rng.normal(np.where(age < 65, 40, 20), 9), 0, 99).round()
    table = {
        "age": age.astype(np.int64),
        "sex": rng.choice(["female", "male"], PEOPLE),
        "education": degree,
        "hours_per_week": hours.astype(np.int64),
        "income_over_50k": rng.random(PEOPLE) < np.where(degree == "university", 0.5, 0.15),
    }
    pq.write_table(pa.table(table), folder / "people.parquet")
    levels = {"sex": ("female", "male"), "education": ("school", "college", "university")}
    columns = (
        Integer("age", 0, 100),
        *(Category(name, values) for name, values in levels.items()),
        Integer("hours_per_week", 0, 99),
        Flag("income_over_50k"),
    )
    Schema(columns).write(folder / "people.toml")


@pytest.fixture
def server(folder, tmp_path):
    """A studio that answers until the test ends."""
    place = tmp_path / "budget.db"
    ledger = Ledger.create(place)
    ledger.add_dataset("survey", Cap(Guarantee(epsilon=10.0, delta=1e-6, unit="attribute")))
    ledger.add_dataset("people", Cap(Guarantee(epsilon=3.0, delta=1e-6)))
    made = Server.of(Folder.of(folder), str(place))
    answering = made.prepared()
    thread = threading.Thread(target=made.run, args=(answering,))
    thread.start()
    yield made
    answering.should_exit = True
    thread.join(120)


class Visit:
    """A page with the studio open; what the browser complains of is kept."""

    def __init__(self, browser, server, **settings):
        self.context = browser.new_context(**({"viewport": WIDE} | settings))
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.base = server.address.split("?", maxsplit=1)[0]
        self.complaints = []
        self.page.on("console", lambda m: self.complaints.append(m.text) if "Security Policy" in m.text else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(server.address)
        self.page.wait_for_url("**/data")

    def go(self, path):
        self.page.goto(self.base + path)

    def picture(self, name, **terms):
        """Keep what is shown, for the documents."""
        if os.environ.get("SFUMATO_SCREENSHOTS") == "1":
            IMAGES.mkdir(exist_ok=True)
            self.page.screenshot(path=IMAGES / f"{name}.png", **terms)


@pytest.fixture
def visit(browser, server):
    made = Visit(browser, server)
    yield made
    assert made.complaints == []
    made.context.close()


def priced(visit, **fields):
    """The price of a release of the survey."""
    query = {
        "data": "survey.parquet",
        "mechanism": "sketch",
        "dimension": "12",
        "unit": "attribute",
        "epsilon": "4",
        "delta": "0",
        "dataset": "survey",
    } | fields
    visit.go("release?" + "&".join(f"{k}={v}" for k, v in query.items()))
    visit.page.get_by_role("button", name="Show the price").click()


def made_release(visit, **fields):
    """Release the survey as the pages offer it; ends on the page of the job."""
    priced(visit, **fields)
    visit.page.get_by_label("I accept the price").check()
    visit.page.get_by_role("button", name="Release", exact=True).click()
    visit.page.wait_for_url("**/release/job")


def finished(visit, state="done"):
    visit.page.wait_for_selector(f'#job[data-state="{state}"]', timeout=60_000)


def slow_down(monkeypatch):
    """Blocks are read one by one, half a second each, however many cores there are."""
    tick, alone = Job.tick, threading.Lock()

    def slowly(job, rows):
        with alone:
            time.sleep(0.5 if rows else 0)
        tick(job, rows)

    monkeypatch.setattr(Job, "tick", slowly)


def until(page, true):
    """Wait for what a script would see; Playwright's own wait evaluates texts in the page, which the policy forbids."""
    for _ in range(1200):
        if page.evaluate(true):
            return
        page.wait_for_timeout(50)
    raise AssertionError(true)


def ready(page, element):
    """An element of a page that was asked for, once the scripts of that page listen."""
    element.wait_for()
    page.wait_for_load_state()
    return element


# ---- each screen's task ---------------------------------------------------------------------------------------------


def test_a_table_is_described_in_the_form(visit, folder):
    page = visit.page
    page.get_by_role("link", name="clinic.csv").click()
    ready(page, page.get_by_label("Kind of patient")).select_option("id")
    page.get_by_label("Kind of age").select_option("real")
    assert not page.get_by_label("Low of patient").is_visible()
    page.get_by_role("button", name="Save the schema").click()
    assert ready(page, page.locator("#f1-low-wrong")).inner_text() == "to fill in"
    low = page.get_by_label("Low of age")
    assert low.get_attribute("aria-invalid") == "true"
    assert not (folder / "clinic.toml").exists()
    low.fill("0")
    page.get_by_label("High of age").fill("120")
    page.get_by_label("Kind of smoker").select_option("flag")
    page.get_by_label("Values of town").fill("Basel\nBern\nZug")
    assert low.get_attribute("aria-invalid") is None
    page.get_by_role("button", name="Save the schema").click()
    page.get_by_text("The schema is saved").wait_for()
    visit.picture("data")
    kinds = {c.name: c.kind for c in Schema.read(folder / "clinic.toml").columns}
    assert kinds == {"patient": "id", "age": "real", "smoker": "flag", "town": "category"}


@pytest.fixture
def wide(folder):
    """A table of 500 readings and two other columns."""
    readings = {f"WAP{i:03}": [0.5] for i in range(500)}
    pq.write_table(pa.table(readings | {"floor": ["a"], "phone": [1.5]}), folder / "wide.parquet")
    return folder


def test_many_columns_are_searched_and_filled_alike(visit, wide):
    page = visit.page
    visit.go("data/wide.parquet")
    ready(page, page.locator("#tools")).wait_for()
    assert page.locator("#tally").inner_text().startswith("502 of 502 columns shown, 0 selected, 502 not complete")
    page.get_by_label("High of WAP007").fill("5")
    page.get_by_label("Search columns").fill("wap*")
    assert not page.get_by_label("Kind of floor").is_visible()
    page.get_by_role("button", name="Select all shown").click()
    page.get_by_text("Fill the selected columns alike").click()
    page.get_by_label("Kind for all").select_option("integer")
    page.get_by_label("Low", exact=True).fill("-110")
    page.get_by_label("If missing", exact=True).fill("-110")
    page.get_by_label("If missing", exact=True).press("Enter")  # by the keyboard, and it saves nothing
    assert page.locator("#tally").inner_text().startswith("Filled 500 columns.")
    assert page.get_by_label("High of WAP007").input_value() == "5"  # an empty field changes nothing
    page.get_by_label("High", exact=True).fill("0")
    page.get_by_role("button", name="Fill the selected").click()
    page.get_by_label("Show").select_option("*bad")
    page.get_by_label("Search columns").fill("")
    assert page.locator("[data-line]:visible").count() == 2
    page.get_by_role("button", name="Save the schema").click()
    page.get_by_text("2 of 502 columns need another look").wait_for()
    assert page.get_by_label("Low of WAP321").input_value() == "-110"
    page.get_by_role("link", name="floor").click()
    page.get_by_label("Values of floor").fill("a\nb")
    page.get_by_label("Kind of phone").select_option("")
    page.get_by_role("button", name="Save the schema").click()
    page.get_by_text("The schema is saved").wait_for()
    columns = Schema.read(wide / "wide.toml").columns
    alike = {(c.kind, c.low, c.high, c.missing) for c in columns[:500]}
    assert (len(columns), alike, columns[500].values) == (501, {("integer", -110, 0, -110)}, ("a", "b"))


def test_columns_are_joined_into_one_vector(visit, wide):
    page = visit.page
    visit.go("data/wide.parquet")
    ready(page, page.locator("#tools")).wait_for()
    page.get_by_label("Search columns").fill("WAP")
    page.get_by_label("Select WAP000").check()
    page.get_by_role("button", name="Select none").click()
    page.get_by_role("button", name="Select all shown").click()
    page.get_by_text("Join the selected columns").click()
    page.get_by_label("Name of the vector").fill("wifi")
    page.get_by_label("Low of each").fill("-110")
    page.get_by_label("High of each").fill("0")
    page.get_by_role("button", name="Join the selected").click()
    page.get_by_label("Search columns").fill("")
    page.get_by_label("Kind of floor").select_option("id")
    page.get_by_label("Kind of phone").select_option("id")  # one too many
    page.get_by_role("button", name="Save the schema").click()
    page.get_by_text("2 of 503 columns need another look").wait_for()
    page.get_by_label("Kind of phone").select_option("")
    page.get_by_role("button", name="Save the schema").click()
    page.get_by_text("The schema is saved").wait_for()
    schema = Schema.read(wide / "wide.toml")
    assert [(c.name, c.kind) for c in schema.columns] == [("floor", "id"), ("wifi", "vector")]
    assert len(schema.columns[1].columns) == 500
    assert page.locator("[data-line]").count() == 3  # the vector stands for its columns


def test_typed_input_is_not_lost_by_another_button(visit):
    page = visit.page
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    visit.go("data/clinic.csv")
    ready(page, page.get_by_label("Low of age")).fill("17")
    page.get_by_label("I want to see raw values").check()
    page.get_by_role("button", name="Show some rows").click()
    page.wait_for_timeout(500)
    assert asked == ["beforeunload"]
    assert page.get_by_label("Low of age").input_value() == "17"
    page.get_by_label("Low of age").fill("")
    page.get_by_role("button", name="Save the schema").click()  # saving asks nothing
    page.locator("#f1-low-wrong").wait_for()
    assert asked == ["beforeunload"]


def test_raw_rows_appear_only_when_asked_for(visit):
    page = visit.page
    visit.go("data/clinic.csv")
    assert page.get_by_role("cell", name="Basel").count() == 0
    page.get_by_role("button", name="Show some rows").click()  # the browser asks for the tick first
    assert page.get_by_role("cell", name="Basel").count() == 0
    page.get_by_label("I want to see raw values").check()
    page.get_by_role("button", name="Show some rows").click()
    page.get_by_text("raw and private").wait_for()
    assert page.get_by_role("cell", name="Basel").count() == 5


def test_curves_and_verdict_follow_the_controls(visit):
    page = visit.page
    visit.go("plan?data=survey.parquet&epsilon=4&unit=attribute&delta=0")
    page.wait_for_selector("#answer[data-answered]")
    visit.picture("plan")
    seen = [_told(page)]
    for control, value in (("#epsilon", "1"), ("#k", "3"), ("#unit", "record"), ("#purpose", "clustering")):
        before = page.locator("#answer").get_attribute("data-answered")
        field = page.locator(control)
        field.select_option(value) if control in ("#unit", "#purpose") else field.fill(value)
        until(page, f"document.getElementById('answer').dataset.answered !== '{before}'")
        seen.append(_told(page))
    assert len(set(seen)) == len(seen)
    assert "epsilon=1&" in page.url
    page.get_by_label("Epsilon, on a logarithmic scale").press("ArrowRight")
    assert float(page.input_value("#epsilon")) > 1


def _told(page):
    """Verdict and curves, of which plans for similar records have none."""
    curves = page.locator(".chart svg")
    return page.locator(".verdict").inner_text(), curves.first.get_attribute("aria-label") if curves.count() else ""


def test_a_release_shows_its_progress_and_appears_in_the_budget(visit, folder, monkeypatch):
    page = visit.page
    slow_down(monkeypatch)
    visit.go("plan?data=survey.parquet&epsilon=4&delta=0&unit=attribute")
    page.wait_for_selector("#answer[data-answered]")
    page.get_by_role("link", name="Release this").first.click()
    ready(page, page.get_by_role("button", name="Show the price")).click()
    page.get_by_text("Nothing has been read, drawn or spent").wait_for()
    page.get_by_label("I accept the price").check()
    page.get_by_role("button", name="Release", exact=True).click()
    page.wait_for_url("**/release/job")
    until(page, "document.getElementById('bar').value > 0 && document.getElementById('bar').value < 1")
    assert page.locator("#job").get_attribute("data-state") == "running"
    finished(visit)
    assert f"{ROWS:,} rows read" in page.locator("#count").inner_text()
    page.get_by_role("link", name="Open the release").click()
    frame = page.frame_locator("iframe")
    frame.get_by_role("heading", name="What is promised").wait_for()
    assert load(folder / "survey.release").manifest["accounted"]
    page.get_by_role("link", name="See the budget").click()
    row = page.get_by_role("row").filter(has_text="Sketch")
    assert "published" in row.inner_text()
    assert "4 of 10" in re.sub(r"\s+", " ", page.locator("main").inner_text())
    page.get_by_role("button", name="Verify the ledger").click()
    page.get_by_text("unbroken").wait_for()


def test_a_release_can_be_stopped_and_says_what_stays_spent(visit, folder, monkeypatch):
    page = visit.page
    slow_down(monkeypatch)
    made_release(visit)
    page.get_by_role("button", name="Stop").click()
    finished(visit, "cancelled")
    assert re.search("stays spent|nothing spent", page.locator("#message").inner_text())  # noise was drawn, or not yet
    assert not (folder / "survey.release").exists()
    page.get_by_role("link", name="budget", exact=True).click()
    assert re.search(
        "not recorded as published|given back", page.get_by_role("row").filter(has_text="Sketch").inner_text()
    )


def test_a_release_is_explored_and_its_report_read(visit, server):
    page = visit.page
    made_release(visit)
    finished(visit)
    visit.go("explore")
    page.get_by_role("link", name="Explore survey.release").click()
    page.locator("#distance").get_by_role("button", name="Ask").click()
    assert page.locator(".answer .verdict").first.inner_text()
    report = page.context.new_page()
    report.goto(f"{visit.base}release/made/survey.release/report")
    report.get_by_role("heading", name="How answers err").wait_for()
    assert report.evaluate("self.origin") == "null"
    assert not report.evaluate("fetch('/release/state').then(() => true, () => false)")
    if os.environ.get("SFUMATO_SCREENSHOTS") == "1":
        report.screenshot(path=IMAGES / "report.png")
    assert server.studio.jobs.job.state == "done"


def released_people(visit):
    """The guided way as the pages offer it, from the list of tables to the release."""
    page = visit.page
    visit.go("data")
    row = page.get_by_role("row").filter(has_text="people.parquet")
    row.get_by_role("link", name="Plan a release").click()
    page.wait_for_selector("#answer[data-answered]")
    page.get_by_role("link", name="See the price of this table").click()
    ready(page, page.get_by_label("Label column")).select_option("income_over_50k")
    visit.picture("release")
    page.get_by_role("button", name="Show the price").click()
    page.get_by_text("Nothing has been read, drawn or spent").wait_for()
    visit.picture("price", full_page=True)
    page.get_by_label("I accept the price").check()
    page.get_by_role("button", name="Release", exact=True).click()
    finished(visit)
    page.get_by_role("link", name="Open the release").click()


def test_the_guided_way_leads_from_a_table_to_its_release_beside_it(visit, folder):
    page = visit.page
    released_people(visit)
    made = load(folder / "people.release")
    assert made.manifest["mechanism"]["label"] == "income_over_50k"
    assert made.manifest["guarantee"]["unit"] == "record"
    assert made.manifest["ledger"]["dataset"] == "people"  # the payer follows the table
    page.get_by_role("link", name="Look at it beside people.parquet").click()
    page.get_by_text("NOT PRIVATE").first.wait_for()
    assert page.locator("[aria-current=step]").inner_text() == "Look"
    assert page.locator(".panels figure svg.plot").count() == 5
    visit.picture("look")
    sizes = "e => [...new Set([...document.querySelectorAll(e)].map(t => getComputedStyle(t).fontSize))]"
    assert page.evaluate(sizes, ".panels svg.plot text") == ["13px"]  # one size of type
    stretched = (
        "e => [...document.querySelectorAll(e)].some(s => s.getBoundingClientRect().width > s.viewBox.baseVal.width)"
    )
    assert not page.evaluate(stretched, ".panels svg.plot")
    written = [path for path in folder.rglob("*") if path.is_file() and "people.release" not in str(path)]
    assert {path.suffix for path in written} <= {".parquet", ".toml", ".csv"}  # nothing of the comparison was stored
    visit.go("explore/people.release?question=column&column=education")
    assert page.locator(".answer svg.plot").count() == 1
    visit.go("explore/people.release")
    assert page.locator(".answer svg.plot").count() == 5
    visit.picture("explore")
    visit.go("budget")
    visit.picture("budget")


def test_a_question_is_priced_charged_and_answered(visit, server):
    page = visit.page
    visit.go("ask?data=people.parquet")
    page.get_by_role("button", name="count by sex").click()
    assert page.locator("#query").input_value() == "count by sex"
    page.fill("#query", "mean(hours_per_week) by education")
    page.fill("#epsilon", "0.5")
    visit.picture("ask")
    page.get_by_role("button", name="Show the price").click()
    page.get_by_text("Nothing has been read, drawn or spent").wait_for()
    assert server.studio.ledger().dataset("people").total(0).epsilon == 0
    page.get_by_label("I accept the price").check()
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url("**/ask/answer/1")
    assert page.locator("tbody tr").count() == 4  # three levels, and cells that are missing
    assert page.locator("svg.plot").count() == 1
    visit.picture("answer")
    assert server.studio.ledger().dataset("people").total(0).epsilon == pytest.approx(0.5)
    with page.expect_download() as file:
        page.get_by_role("link", name="Save as CSV").click()
    assert file.value.suggested_filename == "answer-1.csv"
    page.reload()
    assert server.studio.ledger().dataset("people").total(0).epsilon == pytest.approx(0.5)  # looking costs nothing


def test_labels_names_and_payers_follow_the_table(visit):
    page = visit.page
    visit.go("release")
    ready(page, page.get_by_label("Table", exact=True)).select_option("people.parquet")
    until(page, "document.getElementById('label').options.length === 6")
    assert page.input_value("#name") == "people.release"
    assert page.input_value("#dataset") == "people"
    page.get_by_label("Mechanism").select_option("graph sketch")
    assert page.input_value("#unit") == "edge"
    page.get_by_label("Mechanism").select_option("table")
    assert page.input_value("#unit") == "record"


def test_a_wide_table_is_released_and_looked_at(visit, folder):
    page = visit.page
    names = [f"WAP{i:03}" for i in range(520)]
    rng = np.random.default_rng(3)
    pq.write_table(pa.table({name: rng.integers(0, 2, 400).astype(bool) for name in names}), folder / "wide.parquet")
    Schema(tuple(Flag(name) for name in names)).write(folder / "wide.toml")
    visit.go("release?data=wide.parquet&dataset=people")
    assert page.locator("#label option").count() == 521
    page.get_by_role("button", name="Show the price").click()
    page.get_by_label("I accept the price").check()
    page.get_by_role("button", name="Release", exact=True).click()
    page.wait_for_selector('#job[data-state="done"]', timeout=120_000)
    visit.go("explore/wide.release/beside?data=wide.parquet")
    page.get_by_text("520 of 520 columns; page 1 of 22").wait_for()
    assert page.locator(".panels figure").count() == 24
    page.get_by_role("link", name="More columns").click()
    page.get_by_text("page 2 of 22").wait_for()
    page.get_by_label("Columns with").fill("wap51")
    page.get_by_role("button", name="Show").click()
    page.get_by_text("10 of 520 columns").wait_for()


def test_another_browser_opens_the_studio_by_a_fresh_address(browser, server):
    first = Visit(browser, server)
    address = server.fresh_address()
    second = browser.new_context().new_page()
    second.goto(address)
    second.wait_for_url("**/data")
    third = browser.new_context().new_page()
    assert third.goto(address).status == 403  # good once
    assert "press Enter" in third.locator("body").inner_text()
    first.go("budget")
    assert first.page.title().startswith("Budget")  # whoever was in stays in
    first.context.close()


def started_stream(visit):
    """Start a stream of people as the pages offer it; ends on its own page."""
    page = visit.page
    visit.go("streams")
    ready(page, page.get_by_label("Name of the stream")).fill("people")
    page.get_by_role("button", name="Show the price").click()
    page.get_by_label("I accept the price").check()
    page.get_by_role("button", name="Start the stream").click()
    page.wait_for_selector('#job[data-state="done"]')
    page.get_by_role("link", name="Open the stream").click()


def appended(visit, label):
    """Append the people as a period of their stream; ends on its page."""
    page = visit.page
    ready(page, page.get_by_label("Table of the period")).select_option("people.parquet")
    page.get_by_label("Label of the period").fill(label)
    page.get_by_role("button", name="Append").click()
    page.wait_for_selector('#job[data-state="done"]')
    page.get_by_role("link", name="Open the stream").click()


def only_people(folder):
    """A folder with one schema, which the form of a stream then offers."""
    for name in ("survey.toml", "survey.parquet"):
        (folder / name).unlink()


def test_a_stream_is_started_appended_to_published_and_extended(visit, folder, server):
    page = visit.page
    only_people(folder)
    visit.go("streams")
    assert not page.get_by_label("Tables", exact=True).is_visible()
    page.get_by_label("Statistic").select_option("histogram")
    assert page.get_by_label("Tables", exact=True).is_visible()
    started_stream(visit)
    for label in ("2026-11-16", "2026-11-17"):
        appended(visit, label)
        rows = pq.read_table(folder / "people.parquet")
        pq.write_table(rows.take(np.arange(len(rows))[::-1]), folder / "people.parquet")  # the next period's own file
    page.get_by_text("2 of 365 periods, 10,000 rows").wait_for()
    visit.picture("stream")
    page.get_by_role("button", name="Show the price of extending it").click()
    page.get_by_label("I accept the price").check()
    page.get_by_role("button", name="Extend the stream").click()
    page.wait_for_selector('#job[data-state="done"]')
    visit.go("streams")
    page.get_by_text("2 of 730").wait_for()
    page.get_by_role("link", name="people.stream").click()
    page.get_by_role("button", name="Publish").click()
    page.wait_for_selector('#job[data-state="done"]')
    page.get_by_role("link", name="Open the release").click()
    page.get_by_role("link", name="Explore it").click()
    page.get_by_role("heading", name="Correlations").wait_for()
    assert load(folder / "people-2.release").manifest["stream"]["horizon"] == 730
    assert server.studio.ledger().dataset("people").total(0).epsilon == pytest.approx(1.04, abs=0.01)


def test_a_space_is_made_and_two_owners_are_compared(visit, folder):
    page = visit.page
    only_people(folder)
    visit.go("spaces")
    ready(page, page.get_by_label("Name of the space")).fill("cohort")
    page.get_by_label("Numbers per record").fill("4")
    page.get_by_role("button", name="Make the space").click()
    page.get_by_text("cohort.space is made").wait_for()
    page.get_by_role("link", name="Release in cohort.space").click()
    page.wait_for_url("**/release?*")
    assert ready(page, page.get_by_label("Shared space")).input_value() == "cohort.space"
    assert not page.get_by_label("Numbers per record").is_visible()  # the space says it
    page.get_by_label("Shared space").select_option("")
    assert page.get_by_label("Numbers per record").is_visible()
    two_owners(folder)
    visit.go("explore")
    for owner in ("north", "south"):
        page.get_by_label(f"Take {owner}.release").check()
    page.get_by_role("button", name="Ask those chosen together").click()
    page.locator("#nearest").get_by_role("button", name="Ask").click()
    page.get_by_text("The 10 records of south that look nearest to record 0 of north").wait_for()
    page.wait_for_load_state("networkidle")
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(300)
    visit.picture("together")


def two_owners(folder):
    """Releases of two owners in the space of the folder."""
    space, table = Space.read(folder / "cohort.space"), pq.read_table(folder / "people.parquet")
    for place, owner in enumerate(("north", "south")):
        promise = Guarantee(epsilon=4.0 + 4 * place, delta=1e-6, unit="attribute")
        recipe = Sketch(space=space, noise="gaussian")
        release_to(folder / f"{owner}.release", table.slice(place * 300, 300), mechanism=recipe, guarantee=promise)


SCREENS = (
    *("data", "data/clinic.csv", "data/people.parquet", "plan?data=people.parquet", "release?data=people.parquet"),
    *("plan?purpose=table&data=people.parquet", "release/made/people.release", "release/job", "budget", "explore"),
    *("explore/people.release?question=column&column=education", "ask", "ask/answer/1", "data/nothing.csv"),
    *("explore/people.release/beside?data=people.parquet", "spaces", "streams", "streams/people.stream"),
    *(f"together?name=north.release&name=south.release&question={question}" for question in ("nearest", "links")),
    "release?data=people.parquet&mechanism=sketch&space=cohort.space",
)


def test_axe_finds_no_serious_violation_on_any_screen_wide_or_narrow_light_or_dark(browser, server, folder):
    visit = Visit(browser, server)
    only_people(folder)
    Space(Schema.read(folder / "people.toml"), dimension=4, seed=1).save(folder / "cohort.space")
    two_owners(folder)
    started_stream(visit)
    appended(visit, "monday")
    released_people(visit)
    asked(visit)
    cookies = visit.context.storage_state()
    for scheme, viewport in (("light", WIDE), ("dark", WIDE), ("light", PHONE), ("dark", PHONE)):
        context = browser.new_context(viewport=viewport, color_scheme=scheme, storage_state=cookies)
        page = context.new_page()
        for screen in SCREENS:
            page.goto(visit.base + screen)
            page.wait_for_timeout(200)
            assert _serious(page) == [], (scheme, viewport, screen)
            assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], screen
        context.close()
    visit.go("budget")
    visit.page.evaluate("document.querySelector('main').append(document.createElement('select'))")
    assert [name for name, _ in _serious(visit.page)] == ["select-name"]  # a field without a label is seen
    visit.context.close()


def _serious(page):
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [(v["id"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in ("serious", "critical")]


def asked(visit):
    """Ask a question as the pages offer it."""
    visit.go("ask?data=people.parquet")
    visit.page.fill("#query", "count by education")
    visit.page.get_by_role("button", name="Show the price").click()
    visit.page.get_by_label("I accept the price").check()
    visit.page.get_by_role("button", name="Ask", exact=True).click()
    visit.page.wait_for_url("**/ask/answer/1")


# ---- how it is used -------------------------------------------------------------------------------------------------


def test_a_dataset_is_entered_with_the_keyboard_alone(visit, server):
    page = visit.page
    visit.go("budget")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"
    _tab_to(page, "document.activeElement.tagName === 'SUMMARY'")
    page.keyboard.press("Enter")
    for field, text in (("name", "clinic"), ("unit", None), ("epsilon", "2"), ("delta", "0")):
        _tab_to(page, f"document.activeElement.id === '{field}'")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        if text is None:
            page.keyboard.press("ArrowDown")
        else:
            page.keyboard.press("Control+A")
            page.keyboard.type(text)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="clinic").wait_for()
    made = server.studio.ledger().dataset("clinic").caps[0].guarantee
    assert (made.epsilon, made.delta, made.unit) == (2.0, 0.0, "attribute")


def test_a_table_is_released_and_a_question_asked_with_the_keyboard_alone(visit, folder):
    page = visit.page
    visit.go("release?data=people.parquet&dataset=people")
    _tab_to(page, "document.activeElement.textContent === 'Show the price'")
    page.keyboard.press("Enter")
    page.get_by_text("Nothing has been read, drawn or spent").wait_for()
    _tab_to(page, "document.activeElement.name === 'confirmed'")
    page.keyboard.press("Space")
    _tab_to(page, "document.activeElement.textContent === 'Release'")
    page.keyboard.press("Enter")
    finished(visit)
    page.keyboard.press("Enter")  # the way to the release has the focus
    page.wait_for_url("**/release/made/people.release")
    assert (folder / "people.release").is_dir()
    visit.go("ask?data=people.parquet")
    _tab_to(page, "document.activeElement.id === 'query'")
    page.keyboard.type("median(age)")
    _tab_to(page, "document.activeElement.textContent === 'Show the price'")
    page.keyboard.press("Enter")
    page.get_by_text("Nothing has been read, drawn or spent").wait_for()
    _tab_to(page, "document.activeElement.name === 'confirmed'")
    page.keyboard.press("Space")
    _tab_to(page, "document.activeElement.textContent === 'Ask' && document.activeElement.tagName === 'BUTTON'")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ask/answer/1")


def _tab_to(page, reached):
    for _ in range(40):
        if page.evaluate(reached):
            return
        page.keyboard.press("Tab")
    raise AssertionError(reached)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_screen_fits_a_phone_and_can_be_read(browser, server, scheme):
    visit = Visit(browser, server, viewport=PHONE, color_scheme=scheme)
    page = visit.page
    made_release(visit)
    finished(visit)
    screens = ("data", "data/clinic.csv", "data/survey.parquet", "plan?data=survey.parquet", "release", "release/job")
    for screen in (*screens, "release/made/survey.release", "budget", "explore", "explore/survey.release", "ask"):
        visit.go(screen)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], screen
        for selector in ("main p", ".lead", "nav a", "h1"):
            assert all(ratio >= 4.5 for ratio in page.evaluate(CONTRAST, selector)), (screen, selector)
        ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground))) < 200) == (scheme == "dark")
    priced(visit)
    page.wait_for_url("**/release/price")
    page.wait_for_load_state()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert visit.complaints == []
    visit.context.close()


CONTRAST = """selector => {
  const curve = c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = rgb => [0.2126, 0.7152, 0.0722].reduce((sum, w, i) => sum + w * curve(rgb[i] / 255), 0);
  const numbers = text => text.match(/[0-9.]+/g).map(Number);
  const ground = e => {
    const colour = e ? numbers(getComputedStyle(e).backgroundColor) : [255, 255, 255];
    return colour.length === 3 ? colour : ground(e.parentElement);
  };
  return [...document.querySelectorAll(selector)].filter(e => e.offsetParent && e.innerText).map(e => {
    const [a, b] = [light(numbers(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  });
}"""


def test_pages_work_without_scripts(browser, server):
    visit = Visit(browser, server, java_script_enabled=False)
    page = visit.page
    visit.go("plan?data=survey.parquet&epsilon=4&unit=attribute&delta=0")
    first = page.locator(".verdict").inner_text()
    page.fill("#epsilon", "1")
    page.get_by_role("button", name="Update").click()
    page.wait_for_url("**epsilon=1&**")
    assert page.locator(".verdict").inner_text() != first
    made_release(visit)
    page.get_by_role("link", name="Open the release").click()
    page.get_by_role("heading", name="survey.release").wait_for()
    visit.context.close()


# ---- others ---------------------------------------------------------------------------------------------------------


def test_the_address_opens_once(browser, server):
    address = server.address
    first = Visit(browser, server)
    second = browser.new_context().new_page()
    assert second.goto(address).status == 403
    assert "sfumato studio" in second.locator("body").inner_text()
    first.context.close()


def test_a_page_of_another_site_reaches_nothing_even_in_the_same_browser(visit, server):
    """Another port of this machine is the same site to a browser, which sends the cookie along: Origin decides."""
    form = f"""<form method=post action="{visit.base}budget/dataset"><input name=csrf value="{server.studio.keys.csrf}">
      <input name=name value=stolen><input name=unit value=record><input name=epsilon value=9></form>
      <script>fetch("{visit.base}data", {{credentials: "include"}}).then(r => r.text()).then(t => document.title = t,
      () => document.title = "refused")</script>"""

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(form.encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        page = visit.context.new_page()
        page.goto(f"http://127.0.0.1:{other.server_port}/")
        until(page, "document.title !== ''")
        assert page.title() == "refused"
        with page.expect_navigation() as sent:
            page.evaluate("document.forms[0].submit()")
        assert sent.value.status == 403
        framed = visit.context.new_page()
        framed.goto(f"http://127.0.0.1:{other.server_port}/")
        framed.evaluate(
            f"document.body.append(Object.assign(document.createElement('iframe'), {{src: '{visit.base}data'}}))"
        )
        framed.wait_for_timeout(500)
        assert all("survey" not in frame.content() for frame in framed.frames[1:] if frame.url.startswith(visit.base))
        other.shutdown()
    assert {d.name for d in server.studio.datasets()} == {"survey", "people"}
