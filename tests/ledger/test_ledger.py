from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pytest

from sfumato.errors import BudgetError, LedgerError, ParameterError, ReleaseError, SchemaError
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.sources import Origin
from sfumato.ledger.state import Request
from sfumato.mechanisms.graph_pairs import EdgeNoise
from sfumato.mechanisms.sketch import Sketch
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.pipeline.release import price, release, release_to
from sfumato.privacy.composition import Book, Charge
from sfumato.privacy.guarantee import Change, Guarantee
from sfumato.privacy.losses import FreshGaussian, Gaussian
from sfumato.privacy.units import Cap, units
from sfumato.randomness.secret import Secret
from sfumato.tables.columns import Category, Real
from sfumato.tables.schema import Schema
from support.rows import forbid_reading, reading
from support.spending import ROWS, SCHEMA, SKETCH, made, pure, request, states

# ---- the life of a release -------------------------------------------------------------------------------------------


def test_a_release_is_reserved_drawn_and_committed(ledger):
    manifest = made(ledger).manifest
    kinds = [entry.kind for entry in ledger.journal.entries()]
    assert kinds == ["dataset", "reserve", "draw", "commit"]
    assert manifest["accounted"]
    assert manifest["ledger"] == {"dataset": "people", "entry": 2, "hash": ledger.journal.entries()[1].hash}
    assert not any("no ledger" in warning for warning in manifest["warnings"])
    assert ledger.dataset("people").releases[0].note == manifest["digest"]
    assert ledger.check_release(manifest).number == 2


def test_without_a_ledger_the_manifest_says_that_nothing_was_accounted_for():
    manifest = made(None).manifest
    assert not manifest["accounted"]
    assert "ledger" not in manifest
    assert any("no ledger" in warning for warning in manifest["warnings"])


def test_what_does_not_fit_is_refused_before_a_row_is_read(ledger, monkeypatch):
    made(ledger, 2.0)
    forbid_reading(monkeypatch)
    with pytest.raises(BudgetError, match=r"has spent 2 of epsilon 3 at delta 0; .* still fit is 1$") as caught:
        made(ledger, 1.5)
    assert (caught.value.requested, caught.value.remaining) == (1.5, 1.0)
    assert states(ledger) == ["committed"]
    with reading():
        made(ledger, 1.0)


def test_what_the_message_says_would_fit_does_fit(tmp_path):
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", Guarantee(epsilon=2.0, delta=1e-6))
    terms = {"schema": SCHEMA, "mechanism": Sketch(dimension=2, noise="gaussian", seed=1), "ledger": ledger}
    release(ROWS, guarantee=Guarantee(epsilon=1.0, delta=2e-7), **terms)
    with pytest.raises(BudgetError) as caught:
        release(ROWS, guarantee=Guarantee(epsilon=5.0, delta=2e-7), **terms)
    left = caught.value.remaining
    assert 1.3 < left < 1.9
    release(ROWS, guarantee=Guarantee(epsilon=left, delta=2e-7), **terms)
    assert ledger.dataset("people").total(0).epsilon <= 2.0


def test_when_nothing_fits_the_message_says_so(ledger):
    made(ledger, 3.0)
    with pytest.raises(BudgetError, match="nothing of this kind would fit") as caught:
        made(ledger)
    assert caught.value.remaining == 0


def test_a_failure_after_the_draw_stays_spent_and_says_so(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "sfumato.fileformat.writer.finish", lambda *_: (_ for _ in ()).throw(OSError(28, "no space left"))
    )
    with pytest.raises(ReleaseError, match="reservation 2 of 'people' stays spent, for noise may have been drawn"):
        release_to(tmp_path / "r", ROWS, schema=SCHEMA, mechanism=SKETCH, guarantee=pure(1.0), ledger=ledger)
    assert states(ledger) == ["drawn"]
    with pytest.raises(LedgerError, match="is drawn, so it cannot be voided"):
        ledger.void(2, "I would like it back")


def test_a_reservation_that_was_never_drawn_can_be_voided_once_with_a_reason(ledger):
    account = ledger.account("people")
    account.reserve(request(3.0))  # and its process is killed
    with pytest.raises(BudgetError):
        account.reserve(request())
    with pytest.raises(LedgerError, match="a reason"):
        ledger.void(2, " ")
    ledger.void(2, "the process was killed")
    assert states(ledger) == ["void"]
    with pytest.raises(LedgerError, match="is void, so it cannot be voided"):
        ledger.void(2, "again")
    account.reserve(request(3.0))


def test_a_reservation_that_was_voided_can_never_be_drawn_from(ledger):
    reservation = ledger.account("people").reserve(request())
    ledger.void(reservation.number, "the process seemed dead")
    secret = Secret.fresh().announced(reservation.draw)
    with pytest.raises(LedgerError, match="is void, so it cannot be drawn from"):
        secret.words("noise")
    with pytest.raises(LedgerError):
        reservation.commit({"digest": "0" * 64})


def test_every_draw_of_a_release_is_announced(ledger, monkeypatch):
    """The twin that forgets to announce draws without an entry, and this test sees it."""
    order = []
    monkeypatch.setattr("sfumato.ledger.reservation.Reservation.draw", lambda _: order.append("draw"))
    original = Secret._encode
    monkeypatch.setattr(Secret, "_encode", lambda *a: order.append("words") or original(*a))
    with pytest.raises(LedgerError):  # nothing was marked as drawn, so nothing can be committed
        made(ledger)
    assert order[0] == "draw"
    assert "words" in order


def test_test_noise_is_never_charged(ledger):
    with pytest.raises(ParameterError, match="test noise"):
        made(ledger, secret=Secret.for_testing(1))
    assert states(ledger) == []


def test_a_price_is_quoted_without_a_trace(ledger):
    made(ledger)
    before = ledger.journal.entries()
    (quote,) = price(ROWS, schema=SCHEMA, mechanism=SKETCH, guarantee=pure(1.5), ledger=ledger)
    assert (quote.before.epsilon, quote.after.epsilon, quote.fits, quote.times) == (1.0, 2.5, True, 1)
    (quote,) = price(ROWS, schema=SCHEMA, mechanism=SKETCH, guarantee=pure(2.5), ledger=ledger)
    assert not quote.fits
    assert ledger.journal.entries() == before


def test_a_release_that_was_written_but_not_committed_can_be_confirmed(ledger, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("sfumato.ledger.reservation.Reservation.commit", lambda *_: None)
        manifest = release_to(tmp_path / "r", ROWS, schema=SCHEMA, mechanism=SKETCH, guarantee=pure(1.0), ledger=ledger)
    assert states(ledger) == ["drawn"]
    assert ledger.confirm_release(manifest) == 2
    assert states(ledger) == ["committed"]
    with pytest.raises(LedgerError, match="is committed"):
        ledger.confirm_release(manifest)


def test_releases_of_another_ledger_are_told_apart(ledger, tmp_path):
    manifest = made(ledger).manifest
    other = Ledger.create(tmp_path / "other.db")
    other.add_dataset("people", pure(3.0))
    made(other)
    with pytest.raises(LedgerError, match="another ledger"):
        other.check_release(manifest)
    with pytest.raises(LedgerError, match="charged to no ledger"):
        ledger.check_release(made(None).manifest)


# ---- what data a budget is for ---------------------------------------------------------------------------------------


def test_neither_schema_nor_source_is_in_the_ledger_in_the_clear(tmp_path):
    where = tmp_path / "b.db"
    ledger = Ledger.create(where)
    ledger.add_dataset("people", pure(3.0))
    ledger.account().reserve(request(source="file /secret/place.csv", schema='{"column": "diagnosis"}'))
    stored = where.read_bytes()
    assert b"diagnosis" not in stored
    assert b"place.csv" not in stored
    other = Ledger.create(tmp_path / "c.db")
    assert other.journal.fingerprint("schema", "x") != ledger.journal.fingerprint("schema", "x")


def test_other_data_are_not_charged_by_mistake(ledger):
    account = ledger.account("people")
    account.reserve(request(0.1, source="file a"))
    account.reserve(request(0.1, source="file a"))
    for wrong in (request(0.1, source="file b"), request(0.1, source="file a", schema='{"other": 1}')):
        with pytest.raises(LedgerError, match="ledger admit"):
            account.reserve(wrong)
        with pytest.raises(LedgerError, match="ledger admit"):
            account.price(wrong)
    ledger.admit("people", "{}", "file b")
    account.reserve(request(0.1, source="file b"))


def test_one_file_has_no_two_budgets_unless_somebody_says_so(ledger):
    ledger.account("people").reserve(request(source="file a"))
    ledger.add_dataset("double", pure(3.0))
    with pytest.raises(LedgerError, match="already accounted for as 'people'"):
        ledger.account("double").reserve(request(source="file a"))
    ledger.admit("double", "{}", "file a")
    ledger.account("double").reserve(request(source="file a"))


def test_ledgers_with_one_dataset_need_no_name(ledger):
    assert ledger.account().name == "people"
    ledger.add_dataset("others", pure(1.0))
    with pytest.raises(LedgerError, match="has 2 datasets"):
        ledger.account()
    with pytest.raises(LedgerError, match="no dataset 'nobody'"):
        ledger.account("nobody")
    with pytest.raises(LedgerError, match="already"):
        ledger.add_dataset("people", pure(9.0))


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 201])
def test_names_are_printable(ledger, name):
    with pytest.raises(LedgerError, match="printable"):
        ledger.add_dataset(name, pure(1.0))


# ---- caps ------------------------------------------------------------------------------------------------------------


def test_every_cap_of_a_dataset_is_charged(tmp_path):
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", pure(6.0))
    ledger.set_cap("people", pure(1.5, unit="attribute"))
    account = ledger.account(convert=True)
    account.reserve(request(1.0, unit="attribute"))  # one value, or three of a record
    totals = [ledger.dataset("people").total(place).epsilon for place in (0, 1)]
    assert totals == [3.0, 1.0]
    with pytest.raises(BudgetError):
        account.reserve(request(1.0, unit="attribute"))
    account.reserve(request(0.5, unit="record"))
    with pytest.raises(BudgetError):
        account.reserve(request(0.1, unit="record"))


def test_caps_can_be_set_anew_but_not_for_another_unit_once_something_was_spent(ledger):
    made(ledger, 3.0)
    ledger.set_cap("people", pure(5.0))
    made(ledger, 2.0)
    with pytest.raises(LedgerError, match="no cap for another unit"):
        ledger.set_cap("people", pure(5.0, unit="attribute"))
    with pytest.raises(LedgerError, match="stays so"):
        ledger.set_cap("people", pure(5.0, group=2))


L1, L2 = Change.l1, Change.l2


@pytest.mark.parametrize(
    ("released", "cap", "expected"),
    [
        (pure(1.0), Cap(pure(1.0)), 1),
        (pure(1.0), Cap(pure(1.0, unit="attribute"), attributes=3), 1),
        (pure(1.0, unit="attribute"), Cap(pure(1.0, unit="attribute")), 1),
        (pure(1.0, unit="attribute"), Cap(pure(1.0, unit="attribute"), attributes=3), 3),
        (pure(1.0, unit="attribute"), Cap(pure(1.0, unit="attribute"), attributes=30), 5),
        (pure(1.0, unit="attribute"), Cap(pure(1.0, group=4)), 20),
        (pure(1.0, group=3), Cap(pure(1.0, group=7)), 3),
        (pure(1.0, group=7), Cap(pure(1.0, group=3)), 1),
        (pure(1.0, neighbours="add-remove"), Cap(pure(1.0)), 2),
        (pure(1.0, neighbours="add-remove"), Cap(pure(1.0, neighbours="add-remove")), 1),
        (pure(1.0, change=L2(2.0)), Cap(pure(1.0, change=L2(5.0))), 3),
        (pure(1.0, change=L2(2.0)), Cap(pure(1.0, change=L1(2.0))), 1),
        (pure(1.0), Cap(pure(1.0, change=L2(5.0))), 1),
        (pure(1.0, unit="edge"), Cap(pure(1.0, unit="edge")), 1),
        (pure(1.0, unit="edge", neighbours="add-remove"), Cap(pure(1.0, unit="edge")), 2),
    ],
)
def test_units_are_counted_by_the_longest_chain(released, cap, expected):
    assert units(released, cap, columns=5) == expected


@pytest.mark.parametrize(
    ("released", "cap"),
    [
        (pure(1.0), Cap(pure(1.0, neighbours="add-remove"))),
        (pure(1.0, unit="edge"), Cap(pure(1.0))),
        (pure(1.0), Cap(pure(1.0, unit="edge"))),
        (pure(1.0, change=L2(1.0)), Cap(pure(1.0))),
        (pure(1.0, change=L2(1.0)), Cap(pure(1.0, unit="attribute"))),
        (pure(1.0, change=L1(1.0)), Cap(pure(1.0, change=L2(1.0)))),
    ],
)
def test_what_cannot_be_expressed_in_a_cap_is_refused(released, cap):
    with pytest.raises(LedgerError, match="cannot be charged to the cap"):
        units(released, cap, columns=5)


def test_conversions_are_made_only_if_asked_for(ledger):
    one = request(0.5, unit="attribute")
    with pytest.raises(LedgerError, match="would count 3 times; say --convert"):
        ledger.account().reserve(one)
    ledger.account(convert=True).reserve(one)
    assert ledger.dataset("people").total(0).epsilon == 1.5
    with pytest.raises(BudgetError) as caught:  # it would count for 1.8
        ledger.account(convert=True).reserve(request(0.6, unit="attribute"))
    assert caught.value.remaining == 0.5


def test_caps_that_say_nothing_are_refused():
    with pytest.raises(ParameterError, match="counts values of a record"):
        Cap(pure(1.0), attributes=2)
    with pytest.raises(ParameterError, match="all projections"):
        Cap(Guarantee(epsilon=1.0, delta=1e-6, change=L2(1.0), projection="fresh"))


# ---- disjoint parts --------------------------------------------------------------------------------------------------


@pytest.fixture
def hospitals(tmp_path):
    """A dataset whose parts go by a public column."""
    made = Ledger.create(tmp_path / "h.db")
    made.add_dataset("people", pure(3.0), parts_by="hospital")
    return made


def test_parts_that_share_no_record_spend_side_by_side(hospitals):
    for part in ("Bern", "Basel", "Zug"):
        hospitals.account(part=part).reserve(request(2.0))
    assert hospitals.dataset("people").total(0).epsilon == 2.0
    hospitals.account().reserve(request(0.75))  # the whole counts in every part
    with pytest.raises(BudgetError) as caught:
        hospitals.account(part="Bern").reserve(request(0.5))
    assert caught.value.remaining == 0.25
    hospitals.account(part="Chur").reserve(request(2.25))
    with pytest.raises(BudgetError):
        hospitals.account().reserve(request(0.5))


@pytest.mark.parametrize("kind", ["text", "dictionary", "number", "csv"])
def test_what_is_charged_to_a_part_reads_no_other_record(hospitals, kind, tmp_path):
    names = {"number": [7, 8, None, 7]}.get(kind, ["Bern", "Basel", None, "Bern"])
    table = pa.table({"c0": [0.1, 0.2, 0.3, 0.4], "c1": [0.0] * 4, "c2": [0.0] * 4, "hospital": names})
    data = table
    if kind == "dictionary":
        data = table.set_column(3, "hospital", table["hospital"].dictionary_encode())
    elif kind == "csv":
        data = tmp_path / "x.csv"
        pv.write_csv(table, data)
    part = "7" if kind == "number" else "Bern"
    loud = {"schema": SCHEMA, "mechanism": Sketch(projection="identity"), "guarantee": pure(3.0)}
    found = release(data, ledger=hospitals.account(part=part), **loud)
    assert found.array().shape == (2, 3)
    with pytest.raises(BudgetError):
        release(data, ledger=hospitals.account(part=part), **loud)
    with pytest.raises(ReleaseError, match="no rows"):
        release(data, ledger=hospitals.account(part="Bern "), **loud)


def test_parts_go_by_a_public_column_that_is_there(hospitals):
    account = hospitals.account(part="Bern")
    with pytest.raises(SchemaError, match="hospital"):
        release(ROWS, schema=SCHEMA, mechanism=SKETCH, guarantee=pure(1.0), ledger=account)
    schema = Schema([Real("age", 0, 1), Category("hospital", ["Bern", "Basel"])])
    table = pa.table({"age": [0.5], "hospital": ["Bern"]})
    with pytest.raises(ParameterError, match="which is public"):
        release(table, schema=schema, mechanism=Sketch(dimension=1), guarantee=pure(1.0), ledger=account)
    assert states(hospitals) == []


def test_rows_of_one_person_may_lie_in_several_parts_so_groups_have_none(hospitals):
    with pytest.raises(LedgerError, match="group > 1 cannot have parts"):
        hospitals.add_dataset("others", pure(1.0, group=2), parts_by="hospital")
    with pytest.raises(LedgerError, match="group > 1 cannot have parts"):
        hospitals.set_cap("people", pure(1.0, neighbours="add-remove", group=2))


def test_parts_need_a_dataset_that_was_entered_with_them(ledger):
    with pytest.raises(LedgerError, match="has no parts"):
        ledger.account(part="Bern")


# ---- what a ledger does not vouch for --------------------------------------------------------------------------------


def outside_cases():
    bounds = Schema.from_dict(SCHEMA.to_dict() | {"bounds_from_data": True})
    labelled = Schema([*SCHEMA.columns, Category("hiv", ["yes", "no"])])
    table = pa.table({f"c{i}": ROWS[:, i] for i in range(3)} | {"hiv": ["yes", "no"] * 10})
    shown = Synthetic(dimension=2, label="hiv", kind="classes", counts="public")
    edges = np.array([[0, 1], [1, 2]])
    return {
        "bounds from the data": (ROWS, bounds, SKETCH, pure(1.0)),
        "classes that are shown": (table, labelled, shown, pure(1.0)),
        "vertices from the data": (edges, None, EdgeNoise(), pure(1.0, unit="edge")),
    }


@pytest.mark.parametrize("case", outside_cases())
def test_what_is_outside_a_guarantee_is_charged_only_as_an_exception_on_record(tmp_path, case):
    data, schema, mechanism, guarantee = outside_cases()[case]
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", guarantee)
    terms = {"schema": schema, "mechanism": mechanism, "guarantee": guarantee}
    with pytest.raises(LedgerError, match="outside its guarantee"):
        release(data, ledger=ledger, **terms)
    assert states(ledger) == []
    release(data, ledger=ledger.account(exceptions=True), **terms)
    assert len(ledger.dataset("people").releases[0].outside) == 1


def test_a_radius_is_for_one_schema_only(tmp_path):
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", pure(1.0, change=L1(0.1)))
    ledger.account().reserve(request(0.5, change=L1(0.1)))
    with pytest.raises(LedgerError, match="radius in the units of the schema"):
        ledger.admit("people", '{"weight": 100}', "memory")
    with pytest.raises(LedgerError, match="radius in the units of the schema"):
        ledger.account().reserve(request(0.5, change=L1(0.1), schema='{"weight": 100}'))


def test_numbers_of_other_kinds_are_made_plain(tmp_path):
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", Guarantee(epsilon=np.float32(1.5), group=np.int64(1)))
    promise = Guarantee(epsilon=np.float64(0.5), delta=np.float64(0))
    release(ROWS, schema=SCHEMA, mechanism=SKETCH, guarantee=promise, ledger=str(tmp_path / "b.db"))
    assert ledger.dataset("people").total(0).epsilon == 0.5


# ---- rules of composition --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "least", "most"), [("tight", 2.9, 3.1), ("gaussian", 3.5, 4.0)])
def test_ten_fresh_releases_under_each_rule(tmp_path, rule, least, most):
    fresh = FreshGaussian(family="gaussian", dim_in=100, dim_out=16, radius=1.0, scale=5.06)
    promise = Guarantee(epsilon=1.0, delta=1e-6, change=L2(1.0), projection="fresh")
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", Guarantee(epsilon=4.0, delta=1e-6, change=L2(1.0)), composition=rule)
    again = Request("Sketch", promise, fresh, lambda _: fresh, 3, "{}", Origin("memory"))
    for _ in range(10):
        ledger.account().reserve(again)
    total = ledger.dataset("people").total(0)
    assert total.bound == rule
    assert least < total.epsilon < most


def test_basic_composition_refuses_what_tight_would_allow(tmp_path):
    gauss = Gaussian(1.0, 4.3)
    promise = Guarantee(epsilon=1.0, delta=1e-6)
    one = Request("Sketch", promise, gauss, lambda t: Gaussian(1.0, 4.3 * t), 3, "{}", Origin("memory"))
    for rule in ("tight", "basic"):
        ledger = Ledger.create(tmp_path / f"{rule}.db")
        ledger.add_dataset("people", Guarantee(epsilon=1.6, delta=1e-6), composition=rule)
        ledger.account().reserve(one)
        if rule == "tight":
            ledger.account().reserve(one)
        else:
            with pytest.raises(BudgetError):
                ledger.account().reserve(one)


def test_a_filter_fixes_beforehand_what_deltas_may_have():
    """Deltas that were spent must not leave more or less to the rest of a bound, or a path could be picked by it."""
    half = Charge.of(0.1, 0.4e-6, Gaussian(0.01, 1.0))
    assert not Book([half, half], "advanced").fits(100.0, 1e-6)
    one, two = Book([half], "advanced"), Book([], "advanced").and_(replace(half, delta=0.0))
    assert one.total(1e-6).epsilon == two.total(1e-6).epsilon
    large = replace(half, mu=0.01, tail=0.06e-6)
    assert not Book([large], "gaussian").fits(100.0, 1e-6)
    small = [replace(half, mu=0.01, tail=tail) for tail in (0.0, 0.04e-6)]
    assert len({Book([charge], "gaussian").total(1e-6).epsilon for charge in small}) == 1


def test_a_table_that_lacks_a_column_is_refused_before_anything_is_charged(ledger, tmp_path):
    table = pa.table({"c0": np.zeros(10), "other": np.zeros(10)})
    terms = {"schema": Schema.reals(2, 0, 1), "mechanism": Sketch(), "guarantee": Guarantee(epsilon=1.0)}
    with pytest.raises(SchemaError, match="has no column"):
        release_to(tmp_path / "r", table, ledger=ledger, **terms)
    assert not ledger.dataset("people").releases
