"""Data that grows: periods that arrive, and running sums of them that are published under one guarantee."""
