"""Streams whole: the law of what they publish, what they are charged, who leaves, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.cli import main
from sfumato.errors import BudgetError, LedgerError, ParameterError, StreamError
from sfumato.ledger.ledger import Ledger
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.histogram import Histogram
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.pipeline import stream_charges
from sfumato.pipeline.release import release_to
from sfumato.pipeline.stream import Stream
from sfumato.privacy.guarantee import Guarantee
from sfumato.projection.space import Space
from sfumato.randomness.secret import Secret
from sfumato.releases.release import load
from sfumato.streams import running
from sfumato.streams.factorisation import SquareRoot, Tree
from sfumato.streams.store import StreamStore
from sfumato.tables.columns import Category, Real
from sfumato.tables.schema import Schema
from support.evidence import agrees

RNG = np.random.default_rng(11)
DAYS = [RNG.random((300, 2)) for _ in range(6)]
COMING = Guarantee(epsilon=1.0, delta=1e-6, unit="record", neighbours="add-remove", group=2)
CELLS = 20_000
COLUMN = Schema([Real("x", low=0, high=1)])


def appended(stream, days=DAYS, **more):
    for number, rows in enumerate(days):
        stream.append(rows, period=f"day {number}", **more)
    return stream


@pytest.mark.parametrize("method", [SquareRoot(), Tree()])
def test_published_running_sums_have_the_noise_that_they_state(made, method):
    """Of 20,000 empty cells over 7 periods: variances, and covariances of two periods, by the decoder's rows."""
    counts = Histogram((("x",),), bins={"x": CELLS})
    stream = made(schema=COLUMN, mechanism=counts, method=method.name, horizon=8)
    nobody = pa.table({"x": pa.array([0.0])})
    found, stated = [], []
    for number in range(7):
        stream.append(nobody, period=str(number), secret=Secret.for_testing(number))
        released = stream.release()
        found.append(released.columns[0][1:])
        stated.append(released.manifest["mechanism"]["standard_deviation"])
    place = {node: i for i, node in enumerate(n for t in range(1, 8) for n in method.measured(t))}
    rows = np.zeros((7, len(place)))
    for number in range(7):
        nodes, weights = method.decoder(number + 1)
        rows[number, [place[node] for node in nodes]] = weights
    law = rows @ rows.T * (stated[0] / np.linalg.norm(rows[0])) ** 2
    for (a, b), expected in np.ndenumerate(law):
        assert agrees(found[a] * found[b], expected)
        assert agrees(found[a], 0.0)
    for number, deviation in enumerate(stated):
        assert deviation**2 == pytest.approx(law[number, number], rel=1e-9)
        assert not agrees(found[number] ** 2, deviation**2 * 1.15)
        assert not agrees(found[number] ** 2, deviation**2 / 1.15)
    assert not agrees(found[6] * found[4], law[6, 6])  # one noise for both would be caught


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("method", ["square-root", "tree"])
def test_running_covariances_are_those_of_all_rows_so_far(made, method, neighbours):
    """With next to no noise: against the rows themselves, after every period."""
    promise = Guarantee(epsilon=1e6, delta=1e-6, unit="record", neighbours=neighbours)
    stream = appended(made(method=method, guarantee=promise))
    for number in range(6):
        whole = np.concatenate(DAYS[: number + 1])
        released = stream.release(f"day {number}")
        np.testing.assert_allclose(released.view.covariance(), np.cov(whole.T, bias=True), atol=2e-4)
        assert released.records == pytest.approx(len(whole), abs=0.5)
        assert ("rows" in released.manifest) == (neighbours == "replace")
    assert [period.rows for period in stream.periods] == [300 if neighbours == "replace" else None] * 6


def test_class_moments_become_synthetic_rows_and_counts_become_histograms(made):
    """With next to no noise: means of classes, and counts."""
    schema = Schema([Real("x", low=0, high=1), Category("c", values=("a", "b"))])
    days = [pa.table({"x": RNG.random(200) * 0.4 + 0.5 * n, "c": ["ab"[n]] * 200}) for n in (0, 1)]
    promise = Guarantee(epsilon=1e6, delta=1e-6, unit="record")
    counted = appended(made("h", schema=schema, guarantee=promise, mechanism=Histogram((("c",),))), days)
    np.testing.assert_allclose(counted.release().columns[0][:2], [200, 200], atol=0.5)
    np.testing.assert_allclose(counted.release("day 0").columns[0][:2], [200, 0], atol=0.5)
    drawn = appended(
        made("s", schema=schema, guarantee=promise, mechanism=Synthetic(dimension=1, label="c", normalise="never")),
        days,
    )
    made_of = drawn.release().manifest["mechanism"]["model"]
    assert [component["weight"] for component in made_of] == pytest.approx([0.5, 0.5], abs=1e-3)
    assert np.array_equal(drawn.release().array(), drawn.release().array())


def test_publishing_twice_gives_the_same_folder_but_for_nothing(made, tmp_path):
    """Also after further periods; in memory and on disk."""
    stream = appended(made(), DAYS[:3])
    first = stream.publish(tmp_path / "one.release", "day 1")
    stream.append(DAYS[3], period="day 3")
    second = stream.publish(tmp_path / "two.release", "day 1")
    assert first == second
    loaded = load(tmp_path / "two.release", allow_unprotected=True)
    assert np.array_equal(loaded.columns, stream.release("day 1").columns)
    assert loaded.manifest["stream"]["period"] == 2
    assert "after period 2 ('day 1') of at most 8" in (tmp_path / "one.release" / "README.txt").read_text()
    assert any("no ledger was used" in line for line in loaded.manifest["warnings"])


def test_leaders_follow_what_was_published_before_their_period(made):
    """The same directions as the principal components of the release of the period before."""
    stream = appended(made(mechanism=Covariance(centred=False)))
    found = list(stream.leaders(1))
    assert len(found) == 7
    assert np.array_equal(found[0], np.eye(2)[:1])
    for number, basis in enumerate(found[1:]):
        moment = stream.release(f"day {number}").view.matrix[:2, :2]
        assert np.linalg.norm(basis) == pytest.approx(1)
        assert float(basis[0] @ moment @ basis[0]) == pytest.approx(np.linalg.eigvalsh(moment)[-1], rel=1e-9)


# ---- who leaves ------------------------------------------------------------------------------------------------------


def test_rows_that_leave_are_subtracted_where_the_unit_protects_that(made):
    """With next to no noise, the second day alone remains."""
    promise = Guarantee(epsilon=1e6, delta=1e-6, unit="record", neighbours="add-remove", group=2)
    stream = appended(made(guarantee=promise), DAYS[:1])
    stream.append(DAYS[1], period="second", leaving=DAYS[0])
    released = stream.release()
    assert released.records == pytest.approx(300, abs=0.5)
    np.testing.assert_allclose(released.view.covariance(), np.cov(DAYS[1].T, bias=True), atol=2e-4)


@pytest.mark.parametrize(
    ("promise", "says"),
    [
        (Guarantee(epsilon=1.0, delta=1e-6, unit="record", group=2), "neighbours='add-remove'"),
        (Guarantee(epsilon=1.0, delta=1e-6, unit="record", neighbours="add-remove"), "group=2 or more"),
    ],
)
def test_leaving_is_refused_where_the_unit_does_not_protect_it(made, promise, says):
    """In one line, and the period is not appended."""
    stream = appended(made(guarantee=promise), DAYS[:1])
    with pytest.raises(ParameterError, match=says):
        stream.append(DAYS[1], period="second", leaving=DAYS[0])
    assert len(stream.periods) == 1


# ---- what is charged -------------------------------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path):
    found = Ledger.create(tmp_path / "budget.db")
    found.add_dataset("people", Guarantee(epsilon=3.0, delta=1e-6, unit="record"))
    return found


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"{number}.parquet" for number in range(len(DAYS))]
    for path, rows in zip(paths, DAYS, strict=True):
        pq.write_table(pa.table({"c0": rows[:, 0], "c1": rows[:, 1]}), path)
    return paths


def spent(ledger):
    return ledger.dataset("people").total(0).epsilon


def test_the_whole_horizon_is_charged_once_and_extending_charges_the_rest(made, ledger, files, tmp_path):
    """What the ledger has spent is what the stream promises, and every publication says so and verifies."""
    stream = made(ledger=ledger, horizon=2)
    assert spent(ledger) <= 1.0
    appended(stream, files[:2])
    first = stream.publish(tmp_path / "first.release")
    assert [one.state for one in ledger.dataset("people").releases] == ["committed"]
    with pytest.raises(StreamError, match="has all its 2 periods: extending it to 4"):
        stream.append(files[2], period="more")
    whole = stream.extend(6)
    assert 1.0 < spent(ledger) == pytest.approx(whole.epsilon, rel=1e-6)
    assert [one.mechanism for one in ledger.dataset("people").releases] == ["Stream", "Stream extension"]
    stream.append(files[2], period="more")
    second = stream.publish(tmp_path / "second.release")
    assert first["guarantee"]["epsilon"] == 1.0
    assert second["guarantee"]["epsilon"] == whole.epsilon
    for manifest in (first, second):
        ledger.check_release(manifest)
    with pytest.raises(LedgerError, match="do not trust it"):
        ledger.check_release(second | {"stream": second["stream"] | {"digest": "0" * 64}})


def test_a_stream_that_does_not_fit_leaves_its_dataset_as_it_was(made, ledger, files, tmp_path):
    """Nothing is admitted for it, so a release of a file may come first."""
    with pytest.raises(BudgetError):
        made(ledger=ledger, guarantee=Guarantee(epsilon=4.0, delta=1e-6, unit="record"))
    assert not (tmp_path / "a.stream").exists()
    small = Guarantee(epsilon=0.1, delta=1e-7, unit="record")
    terms = {"schema": Schema.reals(2, low=0, high=1), "mechanism": Covariance()}
    release_to(tmp_path / "r", files[0], guarantee=small, ledger=ledger.account("people"), **terms)


def test_a_stream_that_its_file_could_not_hold_is_refused_before_it_is_charged(made, ledger, tmp_path):
    space = Space(Schema.reals(2, low=0, high=1))
    with pytest.raises(ParameterError, match="in no shared space"):
        made(ledger=ledger, schema=space.schema, mechanism=Covariance(space=space, columns=["c0"]))
    assert not (tmp_path / "a.stream").exists()
    assert not ledger.dataset("people").releases


@pytest.mark.parametrize("bins", [np.int64(4), np.array([0.2, 0.5]), (0.2, 0.5)])
def test_cuts_of_counts_may_be_arrays(made, bins):
    stream = appended(made(mechanism=Histogram((("c0",),), bins={"c0": bins})), DAYS[:1])
    assert stream.release().columns.size == (4 if np.ndim(bins) == 0 else 3)


def test_a_charged_stream_without_entries_is_refused(made, ledger, files):
    """It would draw without being charged."""
    stream = made(ledger=ledger)
    with StreamStore(stream.path).writing() as one:
        one.describe(replace(one.description, entries=()))
    with pytest.raises(StreamError, match="damaged"):
        stream.append(files[0], period="first")


def test_files_of_periods_belong_to_the_dataset_of_the_stream(made, ledger, files, tmp_path):
    """A release of one is charged there; a file of another dataset is refused, and one of nobody is not."""
    appended(made(ledger=Ledger(tmp_path / "budget.db").account("people")), files[:2])
    terms = {"schema": Schema.reals(2, low=0, high=1), "mechanism": Covariance()}
    small = Guarantee(epsilon=0.1, delta=1e-7, unit="record")
    release_to(tmp_path / "r", files[1], guarantee=small, ledger=ledger.account("people"), **terms)
    ledger.add_dataset("others", Guarantee(epsilon=3.0, delta=1e-6, unit="record"))
    with pytest.raises(LedgerError, match="already accounted for as 'people'"):
        release_to(tmp_path / "s", files[1], guarantee=small, ledger=ledger.account("others"), **terms)
    release_to(tmp_path / "s", files[2], guarantee=small, ledger=ledger.account("others"), **terms)
    with pytest.raises(LedgerError, match="already accounted for as 'others'"):
        Stream(tmp_path / "a.stream").append(files[2], period="third")


def test_an_older_copy_of_the_file_is_recognised_by_the_ledger(made, ledger, files):
    """It would draw a second time for a period that was published."""
    stream = appended(made(ledger=ledger), files[:2])
    old = stream.path.read_bytes()
    stream.append(files[2], period="third")
    stream.path.write_bytes(old)
    with pytest.raises(StreamError, match="this is an older copy of its file"):
        stream.append(files[3], period="another")


def test_what_its_ledger_was_not_told_of_is_told_before_it_is_published(made, ledger, files, monkeypatch):
    """A process that was killed between both leaves no way to publish a period and to draw for it again."""
    stream = appended(made(ledger=ledger), files[:2])
    old = stream.path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(stream_charges.StreamCharges, "_tell_one", _killed)
        with pytest.raises(KeyboardInterrupt):
            stream.append(files[2], period="third")
    stream.release()
    stream.path.write_bytes(old)
    with pytest.raises(StreamError, match="this is an older copy of its file"):
        stream.append(files[3], period="another")


def test_of_two_copies_that_draw_at_once_one_is_published(made, ledger, files, monkeypatch, tmp_path):
    """Both found that the ledger knew of no such period; what it is told first is the draw that counts."""
    stream = appended(made(ledger=ledger), files[:2])
    other = Stream(tmp_path / "copy.stream")
    other.path.write_bytes(stream.path.read_bytes())
    with monkeypatch.context() as patch:
        patch.setattr(stream_charges.StreamCharges, "_tell_one", _killed)
        for one, file in ((stream, files[2]), (other, files[3])):
            with pytest.raises(KeyboardInterrupt):
                one.append(file, period="third")
    stream.release()
    assert len(list(stream.leaders(1))) == 4
    for ask in (other.release, lambda: list(other.leaders(1)), lambda: other.append(files[3], period="fourth")):
        with pytest.raises(StreamError, match="another draw for period 3"):
            ask()


def test_a_stream_takes_no_account_but_its_own(made, ledger, files):
    """Of another dataset the ledger would not know what the stream has drawn already."""
    stream = made(ledger=ledger)
    ledger.add_dataset("others", Guarantee(epsilon=30.0, delta=1e-6, unit="record"))
    wrong = Stream(stream.path, ledger.account("others"))
    with pytest.raises(ParameterError, match="whole dataset 'people'"):
        wrong.append(files[0], period="first")
    with pytest.raises(ParameterError, match="whole dataset 'people'"):
        wrong.extend(9)


def test_files_of_rows_that_leave_belong_to_the_dataset_too(made, ledger, files, tmp_path):
    ledger.add_dataset("others", Guarantee(epsilon=3.0, delta=1e-6, neighbours="add-remove"))
    terms = {"schema": Schema.reals(2, low=0, high=1), "mechanism": Covariance()}
    small = Guarantee(epsilon=0.1, delta=1e-7, neighbours="add-remove")
    release_to(tmp_path / "s", files[2], guarantee=small, ledger=ledger.account("others"), **terms)
    ledger.add_dataset("leaving", Guarantee(epsilon=3.0, delta=1e-6, neighbours="add-remove", group=3))
    promise = Guarantee(epsilon=1.0, delta=1e-6, neighbours="add-remove", group=3)
    stream = made(guarantee=promise, ledger=ledger.account("leaving"))
    with pytest.raises(LedgerError, match="already accounted for as 'others'"):
        stream.append(files[0], period="first", leaving=files[2])
    stream.append(files[0], period="first", leaving=files[1])
    ledger.add_dataset("late", Guarantee(epsilon=3.0, delta=1e-6, neighbours="add-remove"))
    with pytest.raises(LedgerError, match="already accounted for as 'leaving'"):
        release_to(tmp_path / "t", files[1], guarantee=small, ledger=ledger.account("late"), **terms)


# ---- which files -----------------------------------------------------------------------------------------------------


def test_a_file_is_in_one_period_with_group_1(made, files, tmp_path):
    """Under another label, another name, or in a folder of files; the same name with other rows is another file."""
    stream = made()
    stream.append(files[0], period="2026-03")
    copy, folder = tmp_path / "copy.parquet", tmp_path / "folder"
    copy.write_bytes(files[0].read_bytes())
    folder.mkdir()
    for number, path in enumerate(files[:2]):
        (folder / f"{number}.parquet").write_bytes(path.read_bytes())
    for path in (files[0], copy, folder, str(copy)):
        for again in (False, True):
            with pytest.raises(StreamError) as error:
                stream.append(path, period="2026-04", again=again)
            name = getattr(path, "name", "copy.parquet")
            told = f"{name} was appended as '2026-03' already: a row may be in one period only with group 1"
            assert str(error.value) == told
    assert [period.label for period in stream.periods] == ["2026-03"]
    copy.write_bytes(files[1].read_bytes())
    assert stream.append(copy, period="2026-04") == 2
    assert stream.append(DAYS[0], period="2026-05") == 3  # nothing is known of tables in memory


def test_a_file_may_come_again_if_that_is_said_and_people_may_have_several_rows(made, files):
    stream = made(guarantee=COMING)
    stream.append(files[0], period="first")
    with pytest.raises(StreamError, match=r"0\.parquet was appended as 'first' already: say --again .* 2 rows of each"):
        stream.append(files[0], period="second")
    stream.append(files[0], period="second", again=True)
    stream.append(files[1], period="third", leaving=files[0])
    with pytest.raises(StreamError, match=r"0\.parquet was subtracted as 'third' already: say --again"):
        stream.append(files[2], period="fourth", leaving=files[0])


@pytest.fixture
def nobody(tmp_path):
    path = tmp_path / "nobody.csv"
    path.write_text("c0,c1\n")
    return path


def test_a_period_without_rows_is_meant_where_their_number_is_public(made, nobody):
    stream = made()
    with pytest.raises(StreamError, match=r"^nobody.csv has no rows, .* say --empty"):
        stream.append(nobody, period="a")
    assert stream.periods == ()
    for label in "ab":  # which are two files with the same bytes
        stream.append(nobody, period=label, empty=True)
    assert [period.rows for period in stream.periods] == [0, 0]


def test_a_period_without_rows_is_as_any_other_where_their_number_is_protected(made, nobody):
    stream = made(guarantee=Guarantee(epsilon=1.0, delta=1e-6, neighbours="add-remove"))
    assert [stream.append(nobody, period=label) for label in "ab"] == [1, 2]
    assert stream.release().manifest["stream"]["period"] == 2


def test_a_ledger_that_is_lost_is_not_replaced_by_a_new_one(made, ledger, files, tmp_path):
    """No error says to make one; and with a new one, even of the same names, nothing is drawn or published."""
    stream = made(ledger=ledger)
    stream.append(files[0], period="a")
    before, moved = tmp_path / "budget.db", tmp_path / "moved.db"
    before.rename(moved)
    gone = f"this stream was charged to {before}, which is gone: put it back, or say where it is with --ledger; a new "
    for act in (lambda: stream.append(files[1], period="b"), lambda: stream.extend(9)):
        with pytest.raises(LedgerError) as error:
            act()
        assert str(error.value) == f"{gone}ledger will not do"
    with pytest.raises(LedgerError) as error:
        Stream(stream.path, str(tmp_path / "nowhere.db")).extend(9)
    assert str(error.value) == f"there is no ledger at {tmp_path / 'nowhere.db'}; {gone}ledger will not do"
    other = Ledger.create(tmp_path / "new.db")
    with pytest.raises(LedgerError, match=r"has no dataset 'people'; this stream was charged to .* will not do"):
        Stream(stream.path, other).append(files[1], period="b")
    other.add_dataset("people", Guarantee(epsilon=3.0, delta=1e-6, unit="record"))
    with pytest.raises(LedgerError, match=r"nothing is drawn; say where its own ledger is .* will not do"):
        Stream(stream.path, other).append(files[1], period="b")
    assert len(stream.periods) == 1
    assert Stream(stream.path, str(moved)).append(files[1], period="b") == 2


def test_a_stream_whose_charge_was_voided_draws_nothing(made, ledger, files, monkeypatch):
    """Its maker was killed before the draw, and somebody gave the budget back."""
    with monkeypatch.context() as patch:
        patch.setattr(stream_charges.StreamCharges, "settle", lambda *_: None)
        stream = made(ledger=ledger)
    (one,) = ledger.dataset("people").releases
    assert one.state == "reserved"
    ledger.void(one.number, "its process was killed")
    with pytest.raises(LedgerError, match="it is not charged, so nothing is drawn"):
        stream.append(files[0], period="first")
    assert stream.periods == ()


def test_a_stream_whose_maker_was_killed_is_charged_by_the_first_period(made, ledger, files, monkeypatch):
    """The reservation becomes drawn and committed before noise is drawn."""
    with monkeypatch.context() as patch:
        patch.setattr(stream_charges.StreamCharges, "settle", lambda *_: None)
        stream = made(ledger=ledger)
    stream.append(files[0], period="first")
    assert [one.state for one in ledger.dataset("people").releases] == ["committed"]


@pytest.mark.parametrize("place", ["_drawn", "settle"])
def test_an_extension_that_was_killed_is_charged_once(made, ledger, files, monkeypatch, place):
    """Killed after it was reserved, or after the stream has it: the next one goes on with the same reservation."""
    stream = appended(made(ledger=ledger, horizon=2), files[:2])
    with monkeypatch.context() as patch:
        patch.setattr(stream_charges, "charged", _unsettled)
        if place == "_drawn":
            patch.setattr(stream_charges.StreamCharges, place, _killed)
        else:
            patch.setattr(stream_charges.StreamCharges, "extended", _then_killed(stream_charges.StreamCharges.extended))
        with pytest.raises(KeyboardInterrupt):
            stream.extend(4)
    if stream.description.horizon == 2:
        stream.extend(4)
    stream.append(files[2], period="third")
    assert [one.state for one in ledger.dataset("people").releases] == ["committed"] * 2
    assert stream.description.horizon == 4


def _unsettled(account, request):
    """Charging by a process that is killed: nothing is given back."""
    from contextlib import nullcontext  # noqa: PLC0415

    return nullcontext(account.reserve(request))


def _killed(*_):
    raise KeyboardInterrupt


def _then_killed(extended):
    from contextlib import contextmanager  # noqa: PLC0415

    @contextmanager
    def killed(self, about, horizon):
        with extended(self, about, horizon) as entry:
            yield entry
            raise KeyboardInterrupt

    return killed


def test_test_noise_is_neither_charged_nor_mixed_with_other(made, ledger, files):
    """A testing key needs a testing stream, and that has no ledger."""
    with pytest.raises(ParameterError, match="cannot be charged"):
        made(ledger=ledger, testing=True)
    stream = made(ledger=ledger)
    with pytest.raises(ParameterError, match="testing=True"):
        stream.append(files[0], period="first", secret=Secret.for_testing(1))


# ---- the command -----------------------------------------------------------------------------------------------------


def test_the_command_makes_appends_publishes_extends_and_shows(tmp_path, files, monkeypatch, capsys):
    """And refuses in one line, with exit code 2."""
    monkeypatch.chdir(tmp_path)
    Schema.reals(2, low=0, high=1).write("s.toml")

    def run(line, code=0):
        assert main(line.split()) == code
        printed = capsys.readouterr()
        return printed.err if code else printed.out

    run("ledger init b.db --dataset people --epsilon 3 --delta 1e-6")
    said = run("stream init a.stream --schema s.toml --horizon 2 --epsilon 1 --delta 1e-6 --ledger b.db")
    assert "It is secret" in said
    for number in (0, 1):
        assert f"Appended period {number + 1}" in run(f"stream append a.stream {files[number]} --period d{number}")
    assert "already, number 2" in run(f"stream append a.stream {files[1]} --period d1", 2)
    assert "costs epsilon" in run(f"stream append a.stream {files[2]} --period d2", 2)
    assert "at most 4 periods" in run("stream extend a.stream --horizon 4")
    assert "after period 2 ('d1') of at most 4" in run("stream publish a.stream --out a.release")
    shown = json.loads(run("stream show a.stream --json"))
    assert [period["label"] for period in shown["periods"]] == ["d0", "d1"]
    assert "Stream extension" in run("ledger show b.db")
    assert "Verified releases: 1." in run("ledger verify b.db --release a.release")
    assert "after period 2 ('d1')" in run("show a.release")
    refused = run("stream init b.stream --schema s.toml --horizon 2 --epsilon 1 --delta 1e-6 --of c0", 2)
    assert "--of is of --statistic histogram" in refused
    assert run("stream publish a.stream --out b.release --period nope", 2).count("\n") == 1


def test_intervals_of_a_tree_with_equal_sums_have_noise_of_their_own(made):
    """Periods without rows: every node has the same exact sums, zeros, and no two measurements are equal."""
    stream = made(method="tree", guarantee=COMING)
    for number in range(4):
        stream.append(np.empty((0, 2)), period=str(number), secret=Secret.for_testing(7))
    with StreamStore(stream.path).reading() as one:
        found = running.all_measurements(one, 4)
    assert len(found) == 7
    assert len({raw.tobytes() for raw in found.values()}) == 7
