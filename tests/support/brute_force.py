"""Distributions of a few variables, as tables over all combinations of their cells."""

import numpy as np

from sfumato.marginals.junction_tree import JunctionTree


def random_tree(rng, variables=5):
    """A junction tree of a few small cliques, some variables constant, some alone."""
    sizes = rng.integers(1, 4, variables).tolist()
    cliques = [tuple(sorted(rng.choice(variables, rng.integers(1, 4), replace=False).tolist())) for _ in range(4)]
    return JunctionTree.of(sizes, cliques)


def random_potentials(rng, tree, forbidden=0.0):
    """Normal potentials for each clique, and -inf for a share of cells."""
    return [np.where(rng.random(s) < forbidden, -np.inf, rng.normal(scale=3, size=s)) for s in tree.shapes]


def joint(tree, potentials):
    """The probabilities of all combinations; all 0 where every one is forbidden."""
    total = np.zeros(tree.sizes)
    for clique, potential in zip(tree.cliques, potentials, strict=True):
        total = total + np.expand_dims(potential, tuple(v for v in range(len(tree.sizes)) if v not in clique))
    if np.isneginf(total).all():
        return np.zeros(tree.sizes)
    weights = np.exp(total - total.max())
    return weights / weights.sum()


def over(table, columns):
    """A table over all variables, summed to these columns, in their order."""
    summed = table.sum(axis=tuple(v for v in range(table.ndim) if v not in columns))
    return np.transpose(summed, [sorted(columns).index(column) for column in columns])
