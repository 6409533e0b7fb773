"""All kinds of releases that the command offers, in the order of its help."""

from sfumato.commands.kinds import graphs, records, sums

KINDS = (
    sums.TABLE,
    records.SKETCH,
    records.COMPONENTS,
    records.RESPONSES,
    records.DISTANCES,
    sums.SYNTHETIC,
    sums.COVARIANCE,
    sums.HISTOGRAM,
    graphs.GRAPH,
)
