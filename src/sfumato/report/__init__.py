"""A release, and the state of its ledger, as one HTML file that needs nothing else."""
