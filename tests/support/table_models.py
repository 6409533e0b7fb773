"""Models of tables that are drawn at random, over the columns of a schema."""

import numpy as np

from sfumato.marginals.binning import Bins
from sfumato.marginals.junction_tree import JunctionTree
from sfumato.marginals.partition import Partition
from sfumato.marginals.table_model import TableModel


def random_bins(rng, size, most):
    """Bins of about equal numbers of cells; those of neighbouring cells lie side by side, but for a few."""
    count = min(size, most)
    of_cell = np.sort(np.concatenate([np.arange(count), rng.integers(0, count, size - count)]))
    estimates = rng.exponential(size=size) * (rng.random(size) < 0.5)
    return Bins.of([np.flatnonzero(of_cell == bin_).tolist() for bin_ in range(count)], estimates, 1e-3)


def random_model(rng, schema, cuts=None, most=4, cliques=None):
    """A model with random bins, a random tree of pairs (or the cliques given) and random probabilities."""
    partition = Partition.of(schema, cuts)
    bins = tuple(random_bins(rng, size, most) for size in partition.sizes)
    count = len(bins)
    pairs = [(int(rng.integers(0, j)), j) for j in range(1, count)] if cliques is None else cliques
    tree = JunctionTree.of([b.size for b in bins], pairs)
    return TableModel(partition, bins, tree, tuple(tree.propagate([2 * rng.normal(size=s) for s in tree.shapes])))
