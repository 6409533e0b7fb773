"""The Streams screen: a stream is started, appended to, published and extended, as the command does it."""

import re
from html import unescape

import pytest

from sfumato.ledger.ledger import Ledger
from sfumato.pipeline.stream import Stream
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.units import Cap
from sfumato.releases.release import load
from sfumato.studio.frame.guard import Keys
from sfumato.studio.frame.shared_state import Studio
from sfumato.studio.inputs.folder import Folder
from support.forms import untouched
from support.visiting import CELL, ROWS, SCHEMA, Visitor, write_people


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "data"
    made.mkdir()
    write_people(made)
    return made


@pytest.fixture
def visitor(folder):
    place = folder.parent / "budget.db"
    Ledger.create(place).add_dataset("people", Cap(Guarantee(epsilon=3.0, delta=1e-6)))
    return Visitor(Studio(Folder.of(folder), str(place), Keys()))


def words(text):
    """What a page shows, as plain text."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def confirmed(visitor, address, fields):
    """Price an order, confirm it, wait for its job."""
    priced = visitor.send(address, fields)
    assert priced.status_code == 200, words(priced.text)
    (key,) = re.findall(r'name="order" value="([^"]+)"', priced.text)
    assert visitor.send("/release/start", {"order": key, "confirmed": "yes"}).is_redirect
    return finished(visitor)


def finished(visitor):
    visitor.studio.jobs.job.join()
    return visitor.get("/release/state").json()


def started(visitor, **fields):
    """Start a stream as the untouched form offers it, but for some fields; the state of its job."""
    form = untouched(visitor.get("/streams").text, "/streams/price") | {"name": "people", "horizon": "8"} | fields
    return confirmed(visitor, "/streams/price", form)


def appended(visitor, label, **fields):
    form = {"data": "people.csv", "label": label} | fields
    sent = visitor.send("/streams/people.stream/append", form)
    assert sent.is_redirect, words(sent.text)
    return finished(visitor)


def next_day(folder):
    """A file of other people."""
    head, *lines = (folder / "people.csv").read_text().splitlines()
    (folder / "tuesday.csv").write_text("\n".join([head, *reversed(lines)]) + "\n")
    return "tuesday.csv"


def test_a_file_is_not_appended_twice(visitor):
    started(visitor, group="2")
    assert appended(visitor, "monday")["state"] == "done"
    told = str(appended(visitor, "tuesday"))
    assert "people.csv was appended as 'monday' already" in words(told).replace("\\", "")
    assert "--again" not in told
    assert "again=" not in told


def spent(folder):
    return Ledger(str(folder.parent / "budget.db")).dataset("people").total(0).epsilon


def test_an_untouched_form_starts_a_stream_that_is_charged_once_and_published_as_a_release(visitor, folder):
    state = started(visitor)
    assert (state["state"], state["spent"]) == ("done", "The price is spent, and on record.")
    about = Stream(folder / "people.stream").description
    assert (about.horizon, about.guarantee) == (8, Guarantee(epsilon=1.0, delta=1e-6))
    assert spent(folder) == pytest.approx(1.0)
    assert appended(visitor, "monday")["state"] == "done"
    assert appended(visitor, "tuesday", data=next_day(folder))["said"] == "The period is appended, with its noise."
    text = visitor.get("/streams/people.stream").text
    assert f"2 of 8 periods, {2 * ROWS} rows" in words(text)
    form = untouched(text, "/streams/people.stream/publish")
    assert visitor.send("/streams/people.stream/publish", form).is_redirect
    assert finished(visitor)["state"] == "done"
    made = load(folder / form["release"])
    assert made.manifest["stream"]["period"] == 2
    assert "period 2 of 8; the guarantee is for all of them together" in words(made._repr_html_())
    assert spent(folder) == pytest.approx(1.0)  # appending and publishing cost nothing more
    assert visitor.get(f"/explore/{form['release']}").status_code == 200
    report = words(visitor.get(f"/release/made/{form['release']}/report").text)
    assert "The sums are those of all periods up to 'tuesday', 2 of 8." in report
    assert "all that the stream publishes within that horizon, together" in report


def test_the_list_says_what_each_stream_is_and_what_doubling_costs(visitor, folder):
    started(visitor, statistic="histogram", tables="city; smoker, city", name="counts.stream", group="2")
    (folder / "broken.stream").write_bytes(b"no stream")
    text = words(visitor.get("/streams").text)
    assert "counts of city; smoker and city 0 of 8 epsilon 1" in text
    assert "2 records of a person, replaced" in text
    assert re.search(r"16 periods: epsilon 1\.\d+ in all, instead of 1", text)
    assert "broken.stream cannot be read" in text
    assert str(folder) not in text
    assert visitor.get("/streams/broken.stream").status_code == 400


@pytest.mark.parametrize("fields", [{"statistic": "synthetic", "label": "smoker", "dimension": "2"}, {"dataset": ""}])
def test_other_streams_are_charged_what_was_confirmed_or_not_at_all(visitor, folder, fields):
    assert started(visitor, **fields)["state"] == "done"
    assert spent(folder) == pytest.approx(1.0 if "dataset" not in fields else 0.0)
    assert appended(visitor, "monday")["state"] == "done"


def test_a_price_that_moved_starts_nothing(visitor, folder):
    form = untouched(visitor.get("/streams").text, "/streams/price") | {"name": "people", "horizon": "8"}
    priced = visitor.send("/streams/price", form)
    (key,) = re.findall(r'name="order" value="([^"]+)"', priced.text)
    ledger = Ledger(str(folder.parent / "budget.db"))
    Stream.init(folder / "other.stream", schema=SCHEMA, guarantee=Guarantee(epsilon=1, delta=1e-6), horizon=2,
                ledger=ledger.account("people"))  # fmt: skip
    visitor.send("/release/start", {"order": key, "confirmed": "yes"})
    state = finished(visitor)
    assert state["state"] == "failed"
    assert "the budget has moved" in state["message"]
    assert not (folder / "people.stream").exists()


def test_what_does_not_fit_cannot_be_started(visitor):
    form = untouched(visitor.get("/streams").text, "/streams/price") | {"name": "people", "epsilon": "5"}
    priced = visitor.send("/streams/price", form)
    assert "This does not fit into what is left" in priced.text
    assert 'name="order"' not in priced.text


def test_extending_is_priced_confirmed_and_charged(visitor, folder):
    started(visitor)
    before = spent(folder)
    priced = visitor.send("/streams/people.stream/extend", {"horizon": "16"})
    assert "16 periods: epsilon 1." in words(priced.text)
    assert confirmed(visitor, "/streams/people.stream/extend", {"horizon": "16"})["state"] == "done"
    about = Stream(folder / "people.stream").description
    assert about.horizon == 16
    assert spent(folder) == pytest.approx(about.guarantee.epsilon, rel=1e-3)
    assert spent(folder) > before
    refused = visitor.send("/streams/people.stream/extend", {"horizon": "16"})
    assert refused.status_code == 422
    assert "the horizon is 16 periods: give more" in words(refused.text)


def test_a_stream_that_was_written_to_is_priced_again_before_it_is_extended(visitor, folder):
    started(visitor)
    priced = visitor.send("/streams/people.stream/extend", {"horizon": "16"})
    (key,) = re.findall(r'name="order" value="([^"]+)"', priced.text)
    Stream(folder / "people.stream").extend(12)
    refused = visitor.send("/release/start", {"order": key, "confirmed": "yes"})
    assert refused.status_code == 400
    assert "the file has changed" in refused.text


def test_a_stream_of_another_ledger_is_not_extended_here(visitor, folder):
    other = Ledger.create(folder.parent / "other.db")
    other.add_dataset("people", Cap(Guarantee(epsilon=3.0, delta=1e-6)))
    promise = Guarantee(epsilon=1, delta=1e-6)
    Stream.init(folder / "far.stream", schema=SCHEMA, guarantee=promise, horizon=4, ledger=other.account("people"))
    refused = visitor.send("/streams/far.stream/extend", {"horizon": "8"})
    assert "charged to another ledger" in words(refused.text)


def test_no_page_of_an_add_remove_stream_tells_how_many_rows_there_are(visitor, folder):
    started(visitor, neighbours="add-remove", group="2", dataset="")
    assert appended(visitor, "monday") | {"rows": None, "total": None} == finished(visitor)
    pages = [visitor.get(path).text for path in ("/streams", "/streams/people.stream", "/release/job")]
    for text in pages:
        shown = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", words(text))  # a minute may be the number of rows
        assert not re.search(rf"\b{ROWS}\b", shown)
        assert CELL not in text
    assert 'name="leaving"' in pages[1]  # rows that leave are protected
    state = appended(visitor, "tuesday", data=next_day(folder), leaving="people.csv")
    assert state["state"] == "done", state


def test_what_is_wrong_is_said_and_nothing_is_appended(visitor, folder):
    started(visitor)
    assert appended(visitor, "monday")["state"] == "done"
    again = appended(visitor, "monday")
    assert (again["state"], "already" in again["message"]) == ("failed", True)
    assert str(folder) not in again["message"]
    for form in ({"data": "", "label": "x"}, {"data": "people.csv", "label": ""}, {"data": "no.csv", "label": "x"}):
        assert visitor.send("/streams/people.stream/append", form).status_code == 422
    assert visitor.send("/streams/people.stream/publish", {"release": "../out"}).status_code == 422
    assert visitor.send("/streams/no.stream/append", {"data": "people.csv", "label": "x"}).status_code == 404
    assert len(Stream(folder / "people.stream").periods) == 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"schema": ""}, "choose a schema"),
        ({"horizon": "0"}, "give a horizon"),
        ({"delta": "0"}, "delta > 0"),
        ({"name": "../x"}, "a name has letters"),
        ({"statistic": "sketch"}, "statistic"),
        ({"dimension": "9" * 13, "statistic": "synthetic"}, "at most"),
        ({"horizon": str(1 << 50)}, "at most"),
    ],
)
def test_a_form_that_describes_no_stream_says_why(visitor, folder, fields, said):
    form = untouched(visitor.get("/streams").text, "/streams/price") | {"name": "people"} | fields
    refused = visitor.send("/streams/price", form)
    assert refused.status_code == 422
    assert said in words(refused.text)
    assert list(folder.glob("*.stream")) == []


def test_forms_of_others_change_nothing(visitor):
    started(visitor)
    for path in ("price", "people.stream/append", "people.stream/publish", "people.stream/extend"):
        assert visitor.post(f"/streams/{path}", {"csrf": "no"}, {"origin": "http://127.0.0.1:8765"}).status_code == 403
