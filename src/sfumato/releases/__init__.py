"""A release in the analyst's hands, one class per kind."""
