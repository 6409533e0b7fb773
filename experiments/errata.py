"""The page of errata: what the papers say, what is true, and numbers that show it."""

import errata_rows
import errata_synthetic
from page import Paper

PAPER = Paper(
    "errata",
    "Errata",
    tuple(entry.experiment for entry in (*errata_rows.ENTRIES, *errata_synthetic.ENTRIES)),
    page="errata",
)
