"""The analyst's estimators."""
