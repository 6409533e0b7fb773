"""One policy for releases, answers and sessions: what ends before a draw is given back, what ends later stays spent."""

import dataclasses
import re
import shutil

import numpy as np
import pyarrow as pa
import pytest

import sfumato
from sfumato.engines.local import LocalRows
from sfumato.errors import LedgerError, ParameterError, RangeError, ReleaseError, SchemaError
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.reservation import Reservation, mark
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.synthetic.recipe import Synthetic
from sfumato.pipeline.charging import charged
from sfumato.pipeline.release import release, release_to
from sfumato.pipeline.session import Session
from sfumato.tables.columns import Id, Real
from sfumato.tables.schema import Schema
from support.spending import ROWS, SCHEMA, SKETCH, made, pure, request, states

NOTHING = "; nothing was drawn, and nothing spent$"
TERMS = {"schema": SCHEMA, "mechanism": SKETCH, "guarantee": pure(1.0)}
NOBODY = np.empty((0, 3))
QUESTIONS = ["c0 < 0.5", "c1 < 0.25"]
WITH_ID = Schema([Id("who"), Real("c0", 0, 1)])


def written(ledger, folder, data=ROWS, **terms):
    return release_to(folder / "r", data, ledger=ledger, **TERMS | terms)


def session(ledger, data=ROWS):
    return Session(data, schema=SCHEMA, ledger=ledger)


WAYS = {
    "release": lambda ledger, _: made(ledger),
    "release_to": written,
    "ask": lambda ledger, _: session(ledger).ask(QUESTIONS[0], epsilon=1.0),
    "open": lambda ledger, _: session(ledger).open("weights", epsilon=1.0, queries=QUESTIONS),
    "synthesise": lambda ledger, _: session(ledger).synthesise(QUESTIONS, epsilon=1.0),
}


# ---- before the draw -------------------------------------------------------------------------------------------------


def test_no_rows_cost_nothing_where_their_number_is_public(ledger, tmp_path):
    with pytest.raises(ReleaseError, match=f"no rows.*{NOTHING}"):
        release(NOBODY, ledger=ledger, **TERMS)
    with pytest.raises(ReleaseError, match=f"no rows.*{NOTHING}"):
        written(ledger, tmp_path, NOBODY)
    with pytest.raises(ReleaseError, match=f"no rows.*{NOTHING}"):
        release(NOBODY, ledger=ledger, **TERMS | {"mechanism": Covariance(noise="laplace")})
    assert states(ledger) == ["void"] * 3
    assert ledger.dataset("people").total(0).epsilon == 0
    assert list(tmp_path.iterdir()) == [tmp_path / "budget.db"]


def test_a_column_of_another_type_costs_nothing(ledger, tmp_path):
    table = pa.table({"who": [1.5, 2.5], "c0": [0.0, 1.0]})
    with pytest.raises(SchemaError, match=f"id column.*{NOTHING}"):
        release(table, ledger=ledger, **TERMS | {"schema": WITH_ID})
    with pytest.raises(SchemaError, match=f"id column.*{NOTHING}"):
        written(ledger, tmp_path, table, schema=WITH_ID)
    assert states(ledger) == ["void", "void"]


def test_a_name_that_is_taken_meanwhile_costs_nothing(ledger, tmp_path, monkeypatch):
    reserve = sfumato.ledger.account.Account.reserve

    def slow(self, asked):
        (tmp_path / "r").mkdir()
        return reserve(self, asked)

    monkeypatch.setattr("sfumato.ledger.account.Account.reserve", slow)
    with pytest.raises(ReleaseError, match=f"already exists.*{NOTHING}"):
        written(ledger, tmp_path)
    assert states(ledger) == ["void"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RangeError("too many rows")])
@pytest.mark.parametrize("way", WAYS)
def test_whatever_ends_the_work_before_the_first_draw_gives_its_price_back(way, error, ledger, tmp_path, monkeypatch):
    def ended(*_):
        raise error

    monkeypatch.setattr(LocalRows, "map", ended)
    monkeypatch.setattr(LocalRows, "sum", ended)
    with pytest.raises(type(error) if isinstance(error, Exception) else error):
        WAYS[way](ledger, tmp_path)
    assert states(ledger) == ["void"]
    monkeypatch.undo()
    made(ledger, 3.0)  # all of it is there


@pytest.mark.parametrize("way", ["release", "release_to", "ask", "synthesise"])
def test_an_interrupt_after_the_draw_leaves_it_spent(way, ledger, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Reservation, "commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        WAYS[way](ledger, tmp_path)
    assert states(ledger) == ["drawn"]


def failing(ledger, meanwhile):
    """Work that fails after something happened to its reservation."""
    with charged(ledger.account(), request()) as reservation:
        meanwhile(reservation)
        raise ParameterError("odd")


def test_the_ledger_decides_and_not_what_this_process_remembers(ledger):
    """An interrupt may come between the ledger's entry of a draw and the flag that remembers it."""

    def forgetful(reservation):
        mark(ledger.journal, reservation.number, "draw", {}, reservation.hash)
        assert not reservation.drawn

    with pytest.raises(ParameterError, match="stays spent, for noise may have been drawn"):
        failing(ledger, forgetful)
    assert states(ledger) == ["drawn"]


def test_what_others_voided_is_not_spent(ledger):
    with pytest.raises(ParameterError, match=f"odd{NOTHING}"):
        failing(ledger, lambda reservation: ledger.void(reservation.number, "by somebody else"))
    assert states(ledger) == ["void"]


def test_a_ledger_that_cannot_be_written_to_keeps_it_and_says_how_to_get_it_back(ledger, monkeypatch):
    def locked(*_):
        raise LedgerError("the ledger cannot be used (database is locked)")

    with pytest.raises(ParameterError, match="stays spent until it is voided"):
        failing(ledger, lambda _: monkeypatch.setattr(ledger.journal, "append", locked))
    monkeypatch.undo()
    assert states(ledger) == ["reserved"]
    with pytest.raises(ParameterError, match="cannot be read now"):
        failing(ledger, lambda _: monkeypatch.setattr(ledger.journal, "folded", locked))


# ---- no rows, where their number is private --------------------------------------------------------------------------

ADDED = sfumato.Guarantee(epsilon=1.0, delta=1e-6, unit="record", neighbours="add-remove")
ONE = np.array([[0.5, 0.5, 0.5]])


@pytest.mark.parametrize("data", [NOBODY, ONE], ids=["nobody", "one"])
@pytest.mark.parametrize(
    "recipe",
    [
        Covariance(noise="laplace"),
        Covariance(noise="gaussian", centred=True),
        Covariance(noise="sketch", rows=5),
        Synthetic(dimension=2, centring="private"),
        Synthetic(dimension=2, centring="public"),
    ],
)
def test_no_rows_are_no_refusal_where_their_number_is_private(recipe, data, tmp_path):
    """A refusal would tell nobody from somebody with certainty, whether its price is given back or not."""
    terms = {"schema": SCHEMA, "mechanism": recipe, "guarantee": ADDED}
    assert release(data, **terms).manifest["kind"] == release_to(tmp_path / "r", data, **terms)["kind"]


@pytest.mark.parametrize("data", [NOBODY, ONE], ids=["nobody", "one"])
def test_questions_about_nobody_are_answered(data, tmp_path):
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", pure(5.0, neighbours="add-remove"))
    asked = session(ledger, data)
    asked.ask(QUESTIONS[0], epsilon=1.0)
    asked.synthesise(QUESTIONS, epsilon=1.0)
    with asked.open("weights", epsilon=1.0, queries=QUESTIONS) as opened:
        opened.ask(QUESTIONS[0])
    assert states(ledger) == ["committed"] * 3


def test_a_reservation_that_is_made_of_another_knows_of_none_of_its_draws(tmp_path):
    ledger = Ledger.create(tmp_path / "b.db")
    ledger.add_dataset("people", pure(5.0))
    first, second = (ledger.account("people").reserve(request(1.0)) for _ in range(2))
    first.draw()
    copied = dataclasses.replace(first, number=second.number, hash=second.hash)
    assert not copied.drawn
    copied.draw()
    assert states(ledger) == ["drawn", "drawn"]


# ---- a ledger that is rolled back meanwhile --------------------------------------------------------------------------


def rolled_back_in(ledger, owner, name, monkeypatch):
    """Put an older copy of the ledger in its place before a step of a release is made."""
    old, step = f"{ledger.journal.name}.old", getattr(owner, name)
    shutil.copy(ledger.journal.name, old)

    def later(*given, **terms):
        shutil.copy(old, ledger.journal.name)
        return step(*given, **terms)

    monkeypatch.setattr(owner, name, later)


def test_a_release_does_not_appear_if_the_ledger_has_lost_its_reservation(ledger, tmp_path, monkeypatch):
    rolled_back_in(ledger, sfumato.fileformat.writer, "finish", monkeypatch)
    with pytest.raises(LedgerError) as caught:
        written(ledger, tmp_path)
    told = str(caught.value)
    assert "cannot record a release: reservation 2 is not in it any more" in told
    assert re.search(
        "nothing was released, and the ledger has lost reservation 2 of 'people', .*: nothing is charged$", told
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["budget.db", "budget.db.old"]
    assert states(ledger) == []


def test_a_reservation_of_somebody_else_that_has_taken_its_number_is_not_mistaken_for_it(ledger, tmp_path, monkeypatch):
    rolled_back_in(ledger, sfumato.fileformat.writer, "finish", monkeypatch)
    finish = sfumato.fileformat.writer.finish

    def with_another(*given):
        manifest = finish(*given)
        ledger.account().reserve(request(0.1)).draw()
        return manifest

    monkeypatch.setattr("sfumato.fileformat.writer.finish", with_another)
    with pytest.raises(LedgerError, match="lost reservation 2"):
        written(ledger, tmp_path)
    assert states(ledger) == ["drawn"]
    assert not (tmp_path / "r").exists()


def test_what_was_never_drawn_voids_no_reservation_of_somebody_else(ledger, tmp_path):
    old = shutil.copy(ledger.journal.name, tmp_path / "old.db")

    def another(_):
        shutil.copy(old, ledger.journal.name)
        ledger.account().reserve(request(0.1))

    with pytest.raises(ParameterError, match="lost reservation 2"):
        failing(ledger, another)
    assert states(ledger) == ["reserved"]


def test_a_release_that_was_named_in_the_instant_before_says_that_it_is_not_charged(ledger, tmp_path, monkeypatch):
    rolled_back_in(ledger, Reservation, "commit", monkeypatch)
    with pytest.raises(
        LedgerError, match=r"the release is written, in .*but is NOT charged: .*lost reservation 2"
    ) as caught:
        written(ledger, tmp_path)
    assert "confirm" not in str(caught.value)
    assert (tmp_path / "r").is_dir()


@pytest.mark.parametrize("way", ["release", "ask", "synthesise"])
def test_nothing_is_shown_if_the_ledger_has_lost_its_reservation(way, ledger, tmp_path, monkeypatch):
    rolled_back_in(ledger, Reservation, "commit", monkeypatch)
    with pytest.raises(LedgerError, match="nothing was released, and the ledger has lost reservation 2"):
        WAYS[way](ledger, tmp_path)
