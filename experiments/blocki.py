"""Blocki, Blum, Datta and Sheffet 2012, as the survey of Prakash and Gujar and the slides on it tell it."""

import bounds
import components
import graphs
import queries
import slides
from page import Experiment, Paper

_GRAPHS = tuple(f"graph_{name}.parquet" for name in graphs.NAMES)

PAPER = Paper(
    "blocki",
    "Sketches that are private by themselves (Blocki et al., survey, slides)",
    (
        Experiment("blocki-ridge", "The ridge of a graph sketch (survey, Algorithm 1)", graphs.ridges),
        Experiment("blocki-cuts", "Cuts of graphs", graphs.run, _GRAPHS, "a stochastic block model"),
        *bounds.EXPERIMENTS,
        *components.EXPERIMENTS,
        queries.EXPERIMENT,
        *slides.EXPERIMENTS,
    ),
    introduction="Blocki, Blum, Datta and Sheffet 2012 as a survey (Prakash and Gujar) and slides (Mishra and\n"
    "Chandra) tell it, with what these compare it to: Analyze Gauss, the median mechanism, multiplicative weights.",
)
