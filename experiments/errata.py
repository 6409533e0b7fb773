"""The page of errata: what the papers say, what is true, and numbers that show it."""

import errata_peers
import errata_rows
import errata_surveys
import errata_synthetic
from page import Paper

PAPER = Paper(
    "errata",
    "Errata",
    tuple(
        entry.experiment
        for module in (errata_rows, errata_synthetic, errata_surveys, errata_peers)
        for entry in module.ENTRIES
    ),
    page="errata",
)
