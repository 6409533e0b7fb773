"""Recorded draws of synthetic tables: which stage they belong to, how far they moved, and how far they may."""

import math

import numpy as np


def stage(draw):
    """Which stage of a table a recorded draw belongs to."""
    return draw.place[1].split(" ")[0]


def claim(prepared, draw, top=0):
    """How far the budget says that one unit moves what was fed to a draw; ``top``: of a moment, the longest row."""
    if draw.law == "choice":
        return prepared.moves.score
    if stage(draw) == "moment":  # of which there are two draws: those off the diagonal count sqrt(2) times
        return prepared.moves.moment(prepared.dimension, top)
    return prepared.moves.scores(draw.fed.size) if stage(draw) == "scores" else prepared.moves.table


def longest(output):
    """How long rows of scores are at most, as a run says; ``test_copula`` holds it to that."""
    return output[0]["mechanism"].get("moment", {"longest": 0})["longest"]


def moved(prepared, one, two):
    """How far a draw was moved, in the norm of the noise; both draws of a second moment, one after the other."""
    if one.law == "choice":
        return float(np.abs(one.fed - two.fed).max())
    whole = float(np.linalg.norm((one.fed - two.fed).astype(float), prepared.order))
    off_diagonal = stage(one) == "moment" and one.fed.size != prepared.dimension
    return math.sqrt(2) * whole if off_diagonal and prepared.order == 2 else whole
