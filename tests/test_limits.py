"""Limits of parameters: the last value that is allowed, and the first that is not."""

import numpy as np
import pytest

from sfumato.errors import LedgerError, ParameterError
from sfumato.files.edges import open_edges
from sfumato.ledger.ledger import Ledger
from sfumato.mechanisms import graph_sketch
from sfumato.mechanisms.covariance import Covariance
from sfumato.mechanisms.graph_pairs import LARGEST_VERTICES, EdgeNoise
from sfumato.mechanisms.graph_sketch import GraphSketch
from sfumato.numerics.lattice import InputGrid, Total
from sfumato.privacy.guarantee import Guarantee
from sfumato.privacy.losses import Composed, Gaussian, Responses
from sfumato.randomness import noise, private_selection, randomized_choice, secret
from sfumato.randomness.secret import Secret
from sfumato.tables.schema import Schema

WORDS = Secret.for_testing(5)


def test_a_stream_ends_after_so_many_words():
    words = WORDS.words("limit")
    words.position = 2**34 - 1
    assert words.draw(1).size == 1
    with pytest.raises(ParameterError, match="at most 17179869184 words"):
        words.draw(1)
    assert secret._LIMIT == 2**34


def test_long_draws_are_those_of_short_ones():
    whole = WORDS.words("pieces").draw(100_000)
    short = WORDS.words("pieces")
    assert np.concatenate([short.draw(30_000), short.draw(70_000)]).tolist() == whole.tolist()
    assert np.unique(whole).size == whole.size


@pytest.mark.parametrize(("epsilon", "allowed"), [(700.0, True), (700.1, False), (1e-9, True), (0.9e-9, False)])
def test_randomized_response_has_its_range_of_epsilon(epsilon, allowed):
    codes = np.zeros(3, np.int64)
    if allowed:
        assert randomized_choice.respond(WORDS.words("r"), codes, 3, epsilon).shape == (3,)
    else:
        with pytest.raises(ParameterError, match="epsilon"):
            randomized_choice.respond(WORDS.words("r"), codes, 3, epsilon)


@pytest.mark.parametrize("scale", [2.0**-10, 2.0**40])
def test_noise_has_its_range_of_scales(scale):
    assert noise.laplace(WORDS.words("n"), 3, scale).size == 3
    for beyond in (np.nextafter(scale, 0), np.nextafter(scale, np.inf)):
        if not 2.0**-10 <= beyond <= 2.0**40:
            with pytest.raises(ParameterError, match="scale"):
                noise.laplace(WORDS.words("n"), 3, float(beyond))


@pytest.mark.parametrize("method", ["exponential", "permute-and-flip", "noisy-max"])
def test_one_score_alone_is_selected(method):
    found = private_selection.select(WORDS.words("s"), [5], epsilon=1.0, sensitivity=1, method=method)
    assert found == 0
    with pytest.raises(ParameterError, match="method"):
        private_selection.select(WORDS.words("s"), [5], epsilon=1.0, sensitivity=1, method="best")


def test_grids_have_forty_bits_at_most():
    assert InputGrid(0, 1, bits=40).round(np.ones((1, 1)))[0, 0] == 2.0**40
    with pytest.raises(ParameterError, match="input_bits"):
        InputGrid(0, 1, bits=41)


def test_totals_are_64_bit_numbers_where_they_fit():
    for value in (2**63 - 1, -(2**63), -1, 0, 2**40):
        total = Total.of(np.array([value >> 32]), np.array([value & (2**32 - 1)]))
        assert total.int64().tolist() == [value]
        assert total.integers().tolist() == [value]
    for value in (2**63, -(2**63) - 1):
        total = Total.of(np.array([value >> 32]), np.array([value & (2**32 - 1)]))
        with pytest.raises(OverflowError):
            total.int64()


def test_composed_deltas_allow_for_the_transform_and_no_more():
    alone = Gaussian(1.0, 3.0)
    found = Composed([alone] * 4).delta(1.0)
    truth = Gaussian(2.0, 3.0).delta(1.0)
    assert truth <= found <= truth * 1.001 + 2e-12


def test_one_randomized_column_is_a_composition_too():
    assert Responses(0.5, [3]).delta(0.1) > 0


def test_every_pair_is_published_for_few_vertices_only():
    promise = Guarantee(epsilon=1.0, unit="edge")
    assert LARGEST_VERTICES == 2**13
    assert EdgeNoise(vertices=2**13).prepare(None, promise).loss(2.0).delta(0.5) == 0
    with pytest.raises(ParameterError, match="at most 8192 vertices"):
        EdgeNoise(vertices=2**13 + 1).prepare(None, promise)


@pytest.mark.parametrize("centred", [False, True])
def test_a_sketch_of_nobody_is_noise_on_its_grid(centred):
    """Rows come and go: there may be none. Numbers are multiples of about 2^-16 of the ridge's deviation."""
    promise = Guarantee(epsilon=1.0, delta=1e-6, neighbours="add-remove")
    recipe = Covariance(noise="sketch", rows=20, centred=centred)
    prepared = recipe.prepare(Schema.reals(2, low=0, high=1), promise)
    nothing = Total((prepared.grid.dim * (prepared.grid.dim + 1) // 2,))
    assert (prepared._scatter(nothing) == 0).all()
    facts = prepared.facts(100.0, None)
    step = facts["lattice"]["unit"] / np.sqrt(facts["mechanism"]["ridge"])
    assert 2.0**-17 < step <= 2.0**-16


@pytest.mark.parametrize("name", ["", " ", "x" * 201, "a\nb", 7])
def test_names_of_datasets_are_a_line_of_text(tmp_path, name):
    ledger = Ledger.create(tmp_path / "budget.db")
    with pytest.raises(LedgerError, match="1 to 200 printable characters"):
        ledger.add_dataset(name, Guarantee(epsilon=1.0))
    assert ledger.add_dataset("x" * 200, Guarantee(epsilon=1.0)).name == "x" * 200


def test_parts_cannot_hold_rows_of_one_person(tmp_path):
    ledger = Ledger.create(tmp_path / "budget.db")
    with pytest.raises(LedgerError, match="several parts"):
        ledger.add_dataset("people", Guarantee(epsilon=1.0, group=2), parts_by="year")
    assert ledger.add_dataset("people", Guarantee(epsilon=1.0), parts_by="year").parts_by == "year"
    with pytest.raises(LedgerError, match="several parts"):
        ledger.set_cap("people", Guarantee(epsilon=1.0, group=2))


def test_a_graph_that_turns_out_too_large_is_refused_before_it_is_sketched(monkeypatch):
    """Where the number of vertices is not given, it is known once the edges are read."""
    prepared = GraphSketch(rows=5).prepare(None, Guarantee(epsilon=1.0, delta=1e-3, unit="edge"))
    edges = open_edges(np.array([[0.0, 1.0, 1.0], [2.0, 29.0, 1.0]]))
    monkeypatch.setattr(graph_sketch, "_LARGEST_SKETCH", 149)
    with pytest.raises(ParameterError, match="at most 149 numbers"):
        prepared.run(edges, 10.0, Secret.for_testing(1))
