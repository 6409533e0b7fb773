"""Models of a table from noisy counts: everything here is public, or post-processing of what was published."""
