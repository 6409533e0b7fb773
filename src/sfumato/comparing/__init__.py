"""A real table beside a synthetic one, for the owner of the real one; and a private summary that may travel."""
