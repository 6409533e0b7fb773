"""Releases of covariances, that several tests share."""

import numpy as np

from sfumato.mechanisms.second_moment import SecondMoment
from sfumato.randomness.secret import Secret
from sfumato.releases.covariance import CovarianceRelease
from sfumato.tables.schema import Schema
from support.moments import Block

CUBE = Schema.reals(3, low=-1, high=1)


LEVEL = {"gaussian": 4.0, "laplace": 1.0, "sketch": 40.0}


def releases(prepared, rows, seeds, level=None, schema=CUBE):
    """Many releases of one table; the table is summed once."""
    noise = prepared.recipe.noise
    level = LEVEL[noise] if level is None else level
    block = Block(rows.T)
    moment = SecondMoment(prepared.grid, prepared.guarantee, 2, 0.0, centred=True) if noise == "sketch" else None
    exact = (moment or prepared.moment).exact(block)
    block.sum = lambda _function: np.stack(exact.halves)
    for seed in seeds:
        published = prepared.run(block, level, Secret.for_testing(seed))
        facts = {k: v for k, v in published.facts.items() if v is not None}
        fields = {"schema": schema.to_dict(), "guarantee": prepared.guarantee.to_dict()}
        yield CovarianceRelease(facts | fields, next(published.blocks))
