"""The analyst's posterior: a prior learned from a release, and answers under it."""
