"""Edge lists of every form mean one graph, by rules that keep one pair's lines to one weight in [0, 1]."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from sfumato.errors import ParameterError, SchemaError
from sfumato.files import edges
from sfumato.files.edges import gather, open_edges

LINES = np.array([[0, 1, 1.0], [1, 2, 0.5], [4, 0, 0.25]])
MEANT = {(0, 1): 1.0, (1, 2): 0.5, (0, 4): 0.25}


def meaning(data, vertices=5):
    graph = gather(open_edges(data), vertices)
    ends = zip(graph.first.tolist(), graph.second.tolist(), strict=True)
    return dict(zip(ends, graph.weights.tolist(), strict=True))


class Networkx:
    """What is used of a networkx graph."""

    def __init__(self, nodes, lines):
        self.nodes, self._lines = nodes, lines

    def edges(self, *, data, default):
        assert data == "weight"
        return [(u, v, default if weight is None else weight) for u, v, weight in self._lines]


def forms(folder):
    table = pa.table({"src": [0, 1, 4], "dst": [1, 2, 0], "weight": LINES[:, 2]})
    pq.write_table(table, folder / "e.parquet")
    (folder / "e.csv").write_text("src,dst,weight\n0,1,1.0\n1,2,0.5\n4,0,0.25\n")
    adjacency = sparse.coo_array((LINES[:, 2], (LINES[:, 0].astype(int), LINES[:, 1].astype(int))), shape=(5, 5))
    return {
        "array": LINES,
        "arrow": table,
        "parquet": folder / "e.parquet",
        "csv": str(folder / "e.csv"),
        "pandas": pd.DataFrame(LINES, columns=["a", "b", "c"]),
        "polars": pl.from_arrow(table),
        "renamed and reordered": table.select(["weight", "dst", "src"]).append_column("when", pa.array([7, 8, 9])),
        "sparse": adjacency,
        "symmetric": (adjacency + adjacency.T).tocsr(),
        "networkx": Networkx("abcde", [("a", "b", None), ("b", "c", 0.5), ("e", "a", 0.25)]),
        "masked": np.ma.masked_invalid(np.vstack([LINES, [2, 3, np.nan]])),
        "opened": open_edges(LINES),
    }


@pytest.mark.parametrize("form", [
    "array", "arrow", "parquet", "csv", "pandas", "polars", "renamed and reordered", "sparse", "symmetric", "networkx",
    "masked", "opened",
])  # fmt: skip
def test_every_form_means_the_same_graph(form, tmp_path):
    assert meaning(forms(tmp_path)[form]) == MEANT


@pytest.mark.parametrize(
    ("lines", "meant"),
    [
        ([[0, 0, 1]], {}),
        ([[0, 1, 1], [1, 0, 1]], {(0, 1): 1.0}),
        ([[0, 1, 0.25], [1, 0, 0.5], [0, 1, 0.25]], {(0, 1): 0.5}),
        ([[0, 1, 7.0]], {(0, 1): 1.0}),
        ([[0, 1, -7.0]], {}),
        ([[0, 1, np.nan]], {}),
        ([[0, 1, np.inf], [1, 2, -np.inf]], {(0, 1): 1.0}),
        ([[0, 1, 2.0], [0, 1, -5.0]], {(0, 1): 1.0}),
        ([[0, 5, 1], [-1, 2, 1], [0.5, 1, 1], [np.nan, 1, 1], [1e300, 0, 1], [np.inf, 0, 1]], {}),
        ([[0, 1, 2.0**-22]], {}),
        ([[0, 1, 2.0**-20]], {(0, 1): 2.0**-20}),
    ],
)
def test_loops_repeats_directions_weights_and_ids_follow_the_rules(lines, meant):
    assert meaning(np.array(lines, float)) == meant


def test_edges_without_weights_count_as_one_and_unreadable_cells_as_nothing(tmp_path):
    assert meaning(LINES[:, :2].astype(np.int32)) == dict.fromkeys(MEANT, 1.0)
    (tmp_path / "e.csv").write_text("src,dst,weight\n0,1,much\n1,2,\nx,3,1\n2,3,1e400\n3,4,0.5\n")
    assert meaning(tmp_path / "e.csv") == {(2, 3): 1.0, (3, 4): 0.5}
    assert meaning(Networkx("ab", [("a", "b", "heavy")]), None) == {}


@given(
    st.lists(
        st.tuples(st.integers(-1, 5), st.integers(-1, 5), st.floats(allow_nan=True, allow_infinity=True)), max_size=30
    )
)
def test_any_list_gives_each_pair_one_weight_between_0_and_1(lines):
    array = np.array(lines, float).reshape(-1, 3)
    found = meaning(array)
    for (u, v), weight in found.items():
        assert 0 <= u < v < 5
        assert 0 < weight <= 1
    slow = {}
    for u, v, weight in array:
        if u != v and min(u, v) >= 0 and max(u, v) < 5:
            clipped = 0.0 if np.isnan(weight) else min(max(weight, 0.0), 1.0)
            pair = (int(min(u, v)), int(max(u, v)))
            slow[pair] = max(slow.get(pair, 0.0), round(clipped * 2**20) / 2**20)
    assert found == {pair: weight for pair, weight in slow.items() if weight > 0}


@pytest.mark.parametrize("pending", [10, 10**6])
def test_blocks_do_not_change_a_graph(pending, monkeypatch):
    rng = np.random.default_rng(1)
    lines = np.column_stack([rng.integers(0, 30, (5000, 2)), rng.random(5000)])
    whole = meaning(lines, 30)
    monkeypatch.setattr(edges, "_BLOCK", 64)
    monkeypatch.setattr(edges, "_PENDING", pending)
    assert meaning(lines, 30) == whole
    assert list(whole) == sorted(whole)
    assert len(whole) == 435


def test_the_number_of_vertices_is_the_owners_the_matrixs_or_the_largest_id():
    for data, given_number, number, from_data in (
        (LINES, 9, 9, False),
        (LINES, None, 5, True),
        (sparse.coo_array((7, 7)), None, 7, False),
        (sparse.coo_array((7, 7)), 8, 8, False),
        (Networkx("abc", []), None, 3, True),
        (np.array([[0, 1], [6, 6]]), None, 7, True),
        (np.array([[0, 1], [2.0**40, 1]]), None, 2, True),
    ):
        graph = gather(open_edges(data), given_number)
        assert (graph.vertices, graph.from_data) == (number, from_data)
    assert meaning(LINES, 3) == {(0, 1): 1.0, (1, 2): 0.5}


def test_large_ids_keep_their_pairs():
    top = 2**31 - 1
    lines = np.array([[top, 0], [top - 1, top], [5, top - 1]])
    assert list(meaning(lines, 2**31)) == [(0, top), (5, top - 1), (top - 1, top)]


@pytest.mark.parametrize(
    "data",
    [
        np.zeros((3, 4)),
        np.zeros(3),
        np.array([["a", "b"]]),
        sparse.coo_array((3, 4)),
        pa.table({"src": [0], "to": [1]}),
        pa.table({"a": [0], "b": [1], "c": [1], "d": [1]}),
        pa.table({"a": [0]}),
        [(0, 1)],
    ],
    ids=str,
)
def test_what_is_no_edge_list_is_refused_without_quoting_it(data):
    with pytest.raises(SchemaError):
        open_edges(data)


def test_a_file_without_a_header_is_refused_and_does_not_lose_its_first_edge(tmp_path):
    (tmp_path / "bare.csv").write_text("0,1\n1,2\n")
    with pytest.raises(SchemaError, match="give it a header") as refused:
        open_edges(tmp_path / "bare.csv")
    assert "0,1" not in str(refused.value).replace(str(tmp_path), "")
    (tmp_path / "named.csv").write_text("from,to\n0,1\n1,2\n")
    assert gather(open_edges(tmp_path / "named.csv"), None).steps.size == 2


def test_numbers_of_vertices_that_cannot_be_are_refused():
    for wrong in (1, 2**31 + 1, 2.5):
        with pytest.raises(ParameterError, match="vertices"):
            gather(open_edges(LINES), wrong)


def test_progress_counts_lines_and_reading_can_be_repeated(monkeypatch):
    monkeypatch.setattr(edges, "_BLOCK", 2)
    seen = []
    rows = open_edges(LINES, progress=seen.append)
    positions = [list(rows.map(lambda position, _: position)) for _ in range(2)]
    assert positions == [[0, 2], [0, 2]]
    assert seen == [2, 1, 2, 1]
    assert list(itertools.chain(*rows.map(lambda _, block: block.shape))) == [3, 2, 3, 1]


def test_a_header_alone_is_an_edge_list_without_edges_with_or_without_a_newline(tmp_path):
    for text in ("src,dst\n", "src,dst"):
        (tmp_path / "edges.csv").write_text(text)
        assert gather(open_edges(tmp_path / "edges.csv"), 4).steps.size == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weight", [10**400, -(10**400), np.timedelta64(1, "s"), np.complex128(1j), "x", None, [1]])
def test_odd_weights_of_a_networkx_graph_raise_nothing(weight):
    graph = gather(open_edges(Networkx([0, 1, 2], [(0, 1, weight), (1, 2, 0.5)])), 3)
    assert graph.steps.size in (1, 2)


def test_a_networkx_graph_is_marked_and_its_numbering_does_not_follow_the_edges():
    """Its vertices are those that its edges name, in the order in which they do."""
    one = gather(open_edges(Networkx("cab", [("c", "a", 1.0), ("a", "b", 1.0)])), None)
    two = gather(open_edges(Networkx("abc", [("a", "b", 1.0), ("c", "a", 1.0)])), None)
    assert one.from_data
    assert two.from_data
    assert (one.codes == two.codes).all()
    assert gather(open_edges(Networkx([5, 2], [(5, 2, 1.0)])), 9).second.tolist() == [5]
