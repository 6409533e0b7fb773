"""Random projections, and rows as integers of bounded length."""
