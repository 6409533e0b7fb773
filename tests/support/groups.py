"""Groups of encoded columns, as a schema's encoding has them, made by hand."""

import math

from sfumato.tables.encoding import Group


def chosen(*runs, most=1, width=1.0):
    """A group for each (start, stop): 0/1 columns of one width, of which at most ``most`` are 1."""
    far = [min(2 * most, stop - start) for start, stop in runs]
    return tuple(Group(*run, most, k * width, math.sqrt(k) * width) for run, k in zip(runs, far, strict=True))
