"""A release in the analyst's hands: save, load, and questions with error bars. Nothing here costs privacy."""
