"""The pair of rows that moves second moments the most."""

from published_synthetic import farthest_rows


def extreme_pair(p):
    """The rows that move the whole matrix furthest."""
    x, y = farthest_rows(p)
    return x[:, 0], y[:, 0]
